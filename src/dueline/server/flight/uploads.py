"""Rows that tasks send: from a Flight stream into the staging."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import pyarrow as pa
from pyarrow import flight

from dueline.broker.pipeline import Staging, known_schema
from dueline.errors import InvalidRequest
from dueline.flight import protocol

__all__ = ["schema_of", "upload"]


def upload(staging: Staging, command: bytes, reader: flight.MetadataRecordBatchReader) -> int:
    """Keep what a stream brings under the token that its command names; returns the rows."""
    token = protocol.StageRows.decode(command).token
    return staging.keep(token, schema_of(reader), _batches(reader))


def schema_of(reader: flight.MetadataRecordBatchReader) -> pa.Schema:
    """What the rows of a stream are: deliveries or a schedule.

    Raises:
        InvalidRequest: neither.
    """
    with _refusing_other_bytes():
        found = reader.schema
    return known_schema(found)


def _batches(reader: flight.MetadataRecordBatchReader) -> Iterator[pa.RecordBatch]:
    """What a stream brings, as it comes: nothing in it was looked at yet."""
    with _refusing_other_bytes():
        for chunk in reader:
            if chunk.data is not None:
                yield chunk.data


@contextmanager
def _refusing_other_bytes() -> Iterator[None]:
    """Bytes that Arrow's reader cannot read are the peer's mistake."""
    try:
        yield
    except (pa.ArrowException, OSError, ValueError, OverflowError, MemoryError) as error:
        raise InvalidRequest(
            f"rows: expected Arrow's IPC format, found: {str(error)[:500]}"
        ) from error
