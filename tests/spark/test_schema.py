"""Our Arrow schemas are Spark's: Spark compares them exactly, and refuses a batch otherwise."""

import pyarrow as pa
import pytest
from pyspark.sql import SparkSession
from pyspark.sql.pandas.types import to_arrow_schema
from pyspark.sql.types import StructType

from dueline.spark import schema
from dueline.store.schema import MESSAGE_SCHEMA

pytestmark = pytest.mark.spark


@pytest.mark.parametrize(
    ("ddl", "columns"),
    [
        (schema.MESSAGE_DDL, schema.MESSAGE_COLUMNS),
        (schema.message_ddl(()), schema.message_columns(())),
        (schema.message_ddl(["tags", "body"]), schema.message_columns(["body", "tags"])),
        (schema.PENDING_DDL, schema.PENDING_COLUMNS),
        (schema.STORED_DDL, schema.STORED_COLUMNS),
    ],
)
def test_arrow_and_spark_agree(spark: SparkSession, ddl: str, columns: pa.Schema) -> None:
    parsed = StructType.fromDDL(ddl)
    assert isinstance(parsed, StructType)
    assert to_arrow_schema(parsed, timezone="UTC").equals(columns)


def test_spark_sees_the_stores_columns_and_the_shard() -> None:
    ours = schema.MESSAGE_COLUMNS
    assert ours.names == [*MESSAGE_SCHEMA.names, "shard"]
    assert [field.type for field in ours][:-1] == [field.type for field in MESSAGE_SCHEMA]


def test_which_message_when_and_where_to_is_always_there() -> None:
    assert schema.message_columns(()).names == list(schema.ROUTE_COLUMNS)
    assert schema.message_columns(["tags"]).names == [*schema.ROUTE_COLUMNS[:-1], "tags", "shard"]
