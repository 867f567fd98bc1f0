"""The data source `dueline`: one name for four uses.

    dueline.spark.register(spark)

    spark.readStream.format("dueline")    messages that fall due              `dueline.spark.reader`
    df.writeStream.format("dueline")      the same messages, to be delivered  `dueline.spark.writer`
    spark.read.format("dueline")          what waits, or what was delivered   `dueline.spark.tables`
    df.write.format("dueline")            new messages to schedule, in bulk   `dueline.spark.bulk`
                                          or changes of what waits         `dueline.spark.actions`

Options are those of `dueline.spark.options.Options`. Spark makes this object in a process of its
own for every use, so it only looks at the options and hands on; what each use needs is imported
when it is used.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from pyspark.sql.datasource import DataSource

from dueline.errors import InvalidRequest
from dueline.spark.options import Options
from dueline.spark.schema import LEDGER_DDL, PENDING_DDL, STORED_DDL, message_ddl

if TYPE_CHECKING:
    from pyspark.sql.datasource import (
        DataSourceReader,
        DataSourceStreamReader,
        DataSourceStreamWriter,
        DataSourceWriter,
    )
    from pyspark.sql.types import StructType

__all__ = ["DuelineDataSource"]


class DuelineDataSource(DataSource):
    """Format `dueline`."""

    narrows = True
    """Batch reads take Spark's filters; refused by Spark unless filter pushdown is on."""

    @classmethod
    def name(cls) -> str:
        return "dueline"

    def schema(self) -> str:
        """Spark does not say here whether it asks for a stream or a table; the option does."""
        options = self._options()
        if options.view is not None:
            return {"pending": PENDING_DDL, "messages": STORED_DDL, "ledger": LEDGER_DDL}[
                options.view
            ]
        return message_ddl(options.columns)

    def reader(self, schema: StructType) -> DataSourceReader:
        from dueline.spark import tables

        options = self._options()
        if options.view is None:
            raise InvalidRequest(
                "batch read: expected the option view, found none; view=pending is what waits, "
                "view=messages what consumers can read"
            )
        return tables.reader_of(options, narrows=self.narrows)

    def writer(self, schema: StructType, overwrite: bool) -> DataSourceWriter:
        options = self._options()
        if options.action is not None:
            from dueline.spark.actions import ActionWriter

            return ActionWriter(options, schema, overwrite=overwrite)
        from dueline.spark.bulk import BulkWriter

        return BulkWriter(options, schema, overwrite=overwrite)

    def streamReader(self, schema: StructType) -> DataSourceStreamReader:
        from dueline.spark.reader import DueReader

        return DueReader(self._options())

    def streamWriter(self, schema: StructType, overwrite: bool) -> DataSourceStreamWriter:
        from dueline.spark.writer import DeliverWriter

        return DeliverWriter(self._options(), schema)

    def _options(self) -> Options:
        return Options.parse(self.options)
