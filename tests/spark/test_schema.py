"""Our Arrow schemas are Spark's: Spark compares them exactly, and refuses a batch otherwise."""

import pyarrow as pa
import pytest
from pyspark.sql import SparkSession
from pyspark.sql.pandas.types import to_arrow_schema
from pyspark.sql.types import StructType

from dueline.spark import schema
from dueline.store.schema import MESSAGE_SCHEMA, WINDOW_SCHEMA

pytestmark = pytest.mark.spark


@pytest.mark.parametrize(
    ("ddl", "columns"),
    [
        (schema.MESSAGE_DDL, schema.MESSAGE_COLUMNS),
        (schema.RECORD_DDL, schema.RECORD_COLUMNS),
        (schema.PENDING_DDL, schema.PENDING_COLUMNS),
        (schema.STORED_DDL, schema.STORED_COLUMNS),
    ],
)
def test_arrow_and_spark_agree(spark: SparkSession, ddl: str, columns: pa.Schema) -> None:
    parsed = StructType.fromDDL(ddl)
    assert isinstance(parsed, StructType)
    assert to_arrow_schema(parsed, timezone="UTC").equals(columns)


@pytest.mark.parametrize(
    ("ours", "stored"),
    [(schema.MESSAGE_COLUMNS, MESSAGE_SCHEMA), (schema.RECORD_COLUMNS, WINDOW_SCHEMA)],
)
def test_spark_sees_the_stores_columns_and_the_shard(ours: pa.Schema, stored: pa.Schema) -> None:
    assert ours.names == [*stored.names, "shard"]
    assert [field.type for field in ours][:-1] == [field.type for field in stored]
