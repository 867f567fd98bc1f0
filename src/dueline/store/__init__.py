"""The storage engine: no sockets, no asyncio, no Spark.

The names below are imported when they are first used. A process that needs one module of this
package, as a client needs the layout of a record, is spared numpy and pyarrow.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from dueline.store.corner import CORNER_START, Corner, Key
    from dueline.store.delivery import DeliverResult
    from dueline.store.files import Files
    from dueline.store.observer import Observer
    from dueline.store.options import StoreOptions
    from dueline.store.pending import Answer, Changed, Name, PendingMessage
    from dueline.store.reading import ReadResult, ReadStatus
    from dueline.store.record import Record
    from dueline.store.store import Store
    from dueline.store.table_writing import PutManyResult
    from dueline.store.timeline import Window
    from dueline.store.writing import PutResult

__all__ = [
    "CORNER_START",
    "Answer",
    "Changed",
    "Corner",
    "DeliverResult",
    "Files",
    "Key",
    "Name",
    "Observer",
    "PendingMessage",
    "PutManyResult",
    "PutResult",
    "ReadResult",
    "ReadStatus",
    "Record",
    "Store",
    "StoreOptions",
    "Window",
]

_MODULES: Final = {
    "CORNER_START": "corner",
    "Answer": "pending",
    "Changed": "pending",
    "Corner": "corner",
    "DeliverResult": "delivery",
    "Files": "files",
    "Key": "corner",
    "Name": "pending",
    "Observer": "observer",
    "PendingMessage": "pending",
    "PutManyResult": "table_writing",
    "PutResult": "writing",
    "ReadResult": "reading",
    "ReadStatus": "reading",
    "Record": "record",
    "Store": "store",
    "StoreOptions": "options",
    "Window": "timeline",
}


def __getattr__(name: str) -> object:
    module = _MODULES.get(name)
    if module is None:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    found: object = getattr(import_module(f"{__name__}.{module}"), name)
    globals()[name] = found
    return found
