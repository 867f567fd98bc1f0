"""The storage engine: no sockets, no asyncio, no Spark."""

from dueline.store.corner import CORNER_START, Corner, Key
from dueline.store.delivery import DeliverResult
from dueline.store.files import Files
from dueline.store.options import StoreOptions
from dueline.store.pending import Answer, Changed, Name, PendingMessage
from dueline.store.reading import ReadResult, ReadStatus
from dueline.store.record import Record
from dueline.store.store import Store
from dueline.store.timeline import Window
from dueline.store.writing import PutManyResult, PutResult

__all__ = [
    "CORNER_START",
    "Answer",
    "Changed",
    "Corner",
    "DeliverResult",
    "Files",
    "Key",
    "Name",
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
