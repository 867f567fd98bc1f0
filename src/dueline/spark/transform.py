"""The user's transform: a function from DataFrame to DataFrame, named `module:function`.

It sees messages at the time they are about to be delivered, with the columns of
`dueline.spark.schema.MESSAGE_COLUMNS`, and returns those that are to be delivered, perhaps with
another topic, body or properties. Rows that it leaves out are marked as dropped and are never
delivered. It must keep `origin`, `due_ms` and `shard` as they are; columns that it adds are left
aside, and those that it leaves out are delivered as they were sent. It is called more than once:
with all columns, to see which it uses (`pruning.py`), and with those.

    def unpaid_only(due: DataFrame) -> DataFrame:
        orders = due.sparkSession.read.parquet("/data/orders")
        joined = due.join(orders, due.keys == orders.order_id, "left")
        return joined.where("coalesce(paid, false) = false")
"""

from __future__ import annotations

import importlib
from collections.abc import Callable
from typing import Any

from pyspark.sql import DataFrame

from dueline.errors import InvalidRequest, Unavailable
from dueline.spark.failure import one_line
from dueline.spark.schema import MESSAGE_COLUMNS, ROUTE_COLUMNS

__all__ = ["Transform", "apply", "load"]

Transform = Callable[[DataFrame], DataFrame]


def load(entry: str) -> Transform:
    """The function behind `module:function`.

    Raises:
        InvalidRequest: not of that form, or there is no such function.
    """
    module_name, _, name = entry.partition(":")
    if not module_name or not name:
        raise InvalidRequest(f"transform: expected module:function, found {entry!r}")
    try:
        found: Any = importlib.import_module(module_name)
        for part in name.split("."):
            found = getattr(found, part)
    except (ImportError, AttributeError) as error:
        raise InvalidRequest(
            f"transform {entry}: expected a function that can be imported, found: {error}; is its "
            "folder on PYTHONPATH?"
        ) from error
    if not callable(found):
        raise InvalidRequest(f"transform {entry}: expected a function, found {found!r:.100}")
    result: Transform = found
    return result


def apply(transform: Transform, due: DataFrame) -> DataFrame:
    """What the transform makes of the due messages.

    Raises:
        InvalidRequest: not a streaming DataFrame that says which messages go where.
        Unavailable: it raised something; perhaps what it reads is not there yet.
    """
    try:
        result: Any = transform(due)
    except Exception as error:  # it is the user's, and may raise what it likes
        raise Unavailable(f"transform: it failed: {one_line(error)}") from error
    if not isinstance(result, DataFrame) or not result.isStreaming:
        raise InvalidRequest(
            "transform: expected a streaming DataFrame made from its argument, found "
            f"{type(result).__name__}"
        )
    missing = [name for name in ROUTE_COLUMNS if name not in result.columns]
    if missing:
        raise InvalidRequest(
            f"transform: expected {', '.join(ROUTE_COLUMNS)} in its result, found no {missing}"
        )
    return result.select(*(name for name in MESSAGE_COLUMNS.names if name in result.columns))
