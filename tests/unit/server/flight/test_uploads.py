"""Rows from a stream into the staging; bytes that are none are the peer's mistake."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple

import pyarrow as pa
import pytest

from dueline.broker.pipeline import Staging
from dueline.clock import Clock
from dueline.errors import InvalidRequest, NotFound
from dueline.flight import protocol
from dueline.server.flight.uploads import upload
from dueline.store.schema import SCHEDULE_SCHEMA


class Chunk(NamedTuple):
    data: pa.RecordBatch | None


class Reader:
    """What Flight gives for a stream: a schema and chunks, or an error in the middle of them."""

    def __init__(self, *chunks: pa.RecordBatch | Exception | None) -> None:
        self._chunks = chunks
        self.schema = SCHEDULE_SCHEMA

    def __iter__(self) -> Iterator[Chunk]:
        for chunk in self._chunks:
            if isinstance(chunk, Exception):
                raise chunk
            yield Chunk(chunk)


def rows(count: int) -> pa.RecordBatch:
    message: dict[str, Any] = {"topic": "t", "body": b"x", "properties": {}}
    return pa.RecordBatch.from_pylist([message] * count, schema=SCHEDULE_SCHEMA)


def sent(staging: Staging, *chunks: pa.RecordBatch | Exception | None, token: str = "a") -> int:
    return upload(staging, protocol.StageRows(token=token).encode(), Reader(*chunks))


def test_rows_are_kept_under_their_token() -> None:
    staging = Staging(Clock(lambda: 0))

    assert sent(staging, rows(2), None, rows(3)) == 5
    assert sum(map(len, staging.take(["a"], SCHEDULE_SCHEMA))) == 5


@pytest.mark.parametrize(
    "error", [pa.ArrowInvalid("bad"), OSError("bad"), OverflowError("bad"), MemoryError("bad")]
)
def test_bytes_that_are_no_rows_leave_nothing(error: Exception) -> None:
    staging = Staging(Clock(lambda: 0))

    with pytest.raises(InvalidRequest, match="expected Arrow's IPC format, found: bad"):
        sent(staging, rows(1), error)
    with pytest.raises(NotFound):
        staging.take(["a"], SCHEDULE_SCHEMA)


def test_mistakes_of_ours_are_not_the_peers() -> None:
    with pytest.raises(ZeroDivisionError):
        sent(Staging(Clock(lambda: 0)), ZeroDivisionError())
