"""The data source `dueline`: one name for four uses.

    spark.dataSource.register(DuelineDataSource)

    spark.readStream.format("dueline")    messages that fall due              `dueline.spark.reader`
    df.writeStream.format("dueline")      the same messages, to be delivered  `dueline.spark.writer`
    spark.read.format("dueline")          what waits, or what was delivered   `dueline.spark.tables`
    df.write.format("dueline")            new messages to schedule, in bulk   `dueline.spark.bulk`

Options are those of `dueline.spark.options.Options`. Spark makes this object in a process of its
own for every use, so it only looks at the options and hands on; what each use needs is imported
when it is used.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from pyspark.sql.datasource import DataSource

from dueline.spark.options import Options
from dueline.spark.schema import MESSAGE_DDL, RECORD_DDL

if TYPE_CHECKING:
    from pyspark.sql.datasource import (
        DataSourceStreamReader,
        DataSourceStreamWriter,
    )
    from pyspark.sql.types import StructType

__all__ = ["DuelineDataSource"]


class DuelineDataSource(DataSource):
    """Format `dueline`."""

    @classmethod
    def name(cls) -> str:
        return "dueline"

    def schema(self) -> str:
        options = self._options()
        return RECORD_DDL if options.payload == "record" else MESSAGE_DDL

    def streamReader(self, schema: StructType) -> DataSourceStreamReader:
        from dueline.spark.reader import DueReader

        return DueReader(self._options())

    def streamWriter(self, schema: StructType, overwrite: bool) -> DataSourceStreamWriter:
        from dueline.spark.writer import DeliverWriter

        return DeliverWriter(self._options(), schema)

    def _options(self) -> Options:
        return Options.parse(self.options)
