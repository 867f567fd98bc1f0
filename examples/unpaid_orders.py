"""The order is paid: no reminder. A transform that joins due messages with a table.

    ORDERS_DB=orders.db dueline serve --transform unpaid_orders:unpaid_only

The table of orders is read when messages are due, batch by batch, so a payment that came in while
the reminder waited counts. `examples/README.md` walks through it.
"""

import os
import sqlite3
import sys
from collections.abc import Iterator

from pyspark.sql import DataFrame
from pyspark.sql import functions as F
from pyspark.sql.datasource import DataSource, DataSourceReader, InputPartition


class PaidOrders(DataSource):
    """The numbers of paid orders in a SQLite file; a stand-in for your database."""

    @classmethod
    def name(cls) -> str:
        return "paid_orders"

    def schema(self) -> str:
        return "order_id string"

    def reader(self, schema: object) -> DataSourceReader:
        return PaidOrdersReader(self.options["path"])


class PaidOrdersReader(DataSourceReader):
    """Reads the table as it is when a batch runs."""

    def __init__(self, path: str) -> None:
        self._path = path

    def read(self, partition: InputPartition) -> Iterator[tuple[str]]:
        # Read-only: a reminder must not make an empty database where there should be one.
        with sqlite3.connect(f"file:{self._path}?mode=ro", uri=True) as database:
            yield from database.execute("SELECT order_id FROM orders WHERE is_paid")


def unpaid_only(due: DataFrame) -> DataFrame:
    """Keep the messages whose key is not the number of a paid order."""
    session = due.sparkSession
    session.dataSource.register(PaidOrders)
    paid = session.read.format("paid_orders").option("path", os.environ["ORDERS_DB"]).load()
    # Broadcast: the table goes to the messages. Otherwise Spark would sort both sides anew for
    # every batch, which takes longer than everything else together.
    return due.join(F.broadcast(paid), due["keys"] == paid["order_id"], "left_anti")


def main(path: str, action: str, *order_ids: str) -> None:
    """The shop's side of the example: create orders, pay them."""
    with sqlite3.connect(path) as database:
        database.execute(
            "CREATE TABLE IF NOT EXISTS orders (order_id TEXT PRIMARY KEY, is_paid INTEGER)"
        )
        is_paid = {"create": 0, "pay": 1}[action]
        rows = [(order_id, is_paid) for order_id in order_ids]
        database.executemany("INSERT OR REPLACE INTO orders VALUES (?, ?)", rows)
    database.close()


if __name__ == "__main__":
    main(*sys.argv[1:])
