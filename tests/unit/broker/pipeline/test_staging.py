"""Staging: complete or nothing, bounded in bytes and in age."""

import pyarrow as pa
import pytest

from dueline.broker.pipeline.staging import BATCH_OVERHEAD_BYTES, STAGE_OVERHEAD_BYTES, Staging
from dueline.clock import Clock
from dueline.errors import InvalidRequest, LimitExceeded, NotFound

SCHEMA = pa.schema([("number", pa.int64())])
OTHER = pa.schema([("name", pa.string())])


def rows(*numbers: int) -> pa.RecordBatch:
    return pa.RecordBatch.from_pydict({"number": numbers}, schema=SCHEMA)


def held(batch: pa.RecordBatch) -> int:
    """What a token with one batch counts as."""
    return int(batch.nbytes) + BATCH_OVERHEAD_BYTES + STAGE_OVERHEAD_BYTES


def numbers_of(batches: list[pa.RecordBatch]) -> list[int]:
    return [number for batch in batches for number in batch.column(0).to_pylist()]


def stage(staging: Staging, token: str, *batches: pa.RecordBatch) -> None:
    with staging.writing(token, SCHEMA):
        for batch in batches:
            staging.add(token, batch)


def test_tokens_are_taken_once_in_their_order() -> None:
    staging = Staging(Clock(lambda: 0))
    stage(staging, "a", rows(1, 2), rows(3))
    stage(staging, "b", rows(4))

    assert staging.row_count("a") == 3
    assert numbers_of(staging.take(["b", "a"], SCHEMA)) == [4, 1, 2, 3]
    assert staging.size_bytes == 0
    with pytest.raises(NotFound, match="'a'"):
        staging.take(["a"], SCHEMA)


def test_one_unknown_token_leaves_the_others_in_place() -> None:
    staging = Staging(Clock(lambda: 0))
    stage(staging, "a", rows(1))

    with pytest.raises(NotFound, match="'b'"):
        staging.take(["a", "b"], SCHEMA)

    assert numbers_of(staging.take(["a"], SCHEMA)) == [1]


def test_a_broken_stream_leaves_nothing() -> None:
    staging = Staging(Clock(lambda: 0))

    def break_off() -> None:
        with staging.writing("a", SCHEMA):
            staging.add("a", rows(1))
            raise OSError("gone")

    with pytest.raises(OSError, match="gone"):
        break_off()

    assert staging.size_bytes == 0
    with pytest.raises(NotFound):
        staging.take(["a"], SCHEMA)


def test_a_stream_that_has_not_ended_is_not_taken() -> None:
    staging = Staging(Clock(lambda: 0))

    with staging.writing("a", SCHEMA):
        staging.add("a", rows(1))
        with pytest.raises(NotFound, match="a part"):
            staging.take(["a"], SCHEMA)

    assert numbers_of(staging.take(["a"], SCHEMA)) == [1]


def test_a_token_is_written_once() -> None:
    staging = Staging(Clock(lambda: 0))
    stage(staging, "a", rows(1))

    with pytest.raises(InvalidRequest, match="in use"), staging.writing("a", SCHEMA):
        pass

    assert numbers_of(staging.take(["a"], SCHEMA)) == [1]


def test_rows_of_another_kind_are_refused() -> None:
    staging = Staging(Clock(lambda: 0))
    stage(staging, "a", rows(1))

    with pytest.raises(InvalidRequest, match="name"):
        staging.take(["a"], OTHER)

    assert numbers_of(staging.take(["a"], SCHEMA)) == [1]


def test_memory_is_bounded_over_all_tokens_and_freed() -> None:
    limit = held(rows(1, 2)) + BATCH_OVERHEAD_BYTES
    staging = Staging(Clock(lambda: 0), size_bytes_max=limit)
    stage(staging, "a", rows(1, 2))

    with pytest.raises(LimitExceeded) as caught:
        stage(staging, "b", rows(3, 4))
    assert caught.value.limit == limit

    assert staging.discard(["a", "unknown"]) == 1
    stage(staging, "b", rows(3, 4))
    assert numbers_of(staging.take(["b"], SCHEMA)) == [3, 4]


def test_what_nobody_commits_is_forgotten_when_it_is_old() -> None:
    now_ms = [1_000]
    staging = Staging(Clock(lambda: now_ms[0]), age_ms_max=500)
    stage(staging, "old", rows(1))
    now_ms[0] = 1_400
    stage(staging, "new", rows(2))

    now_ms[0] = 1_600

    assert len(staging) == 1
    assert staging.size_bytes == held(rows(2))
    with pytest.raises(NotFound, match="'old'"):
        staging.take(["old"], SCHEMA)
    assert numbers_of(staging.take(["new"], SCHEMA)) == [2]


def test_empty_batches_are_not_kept() -> None:
    staging = Staging(Clock(lambda: 0))

    stage(staging, "a", *[rows()] * 30_000)

    assert staging.size_bytes == STAGE_OVERHEAD_BYTES
    assert staging.take(["a"], SCHEMA) == []


def test_tokens_and_batches_count_beside_their_bytes() -> None:
    staging = Staging(Clock(lambda: 0), size_bytes_max=1 << 20)
    many = (1 << 20) // STAGE_OVERHEAD_BYTES

    for number in range(many):
        stage(staging, f"{number}")
    with pytest.raises(LimitExceeded):
        stage(staging, "one more")
    staging.discard([f"{number}" for number in range(many)])

    with pytest.raises(LimitExceeded):
        stage(staging, "small rows", *[rows(1)] * ((1 << 20) // BATCH_OVERHEAD_BYTES))
    assert staging.size_bytes == 0


def test_a_batch_counts_with_all_the_memory_that_it_keeps() -> None:
    staging = Staging(Clock(lambda: 0))
    whole = pa.py_buffer(bytes(1 << 20))
    column = pa.Array.from_buffers(pa.int64(), 1, [None, whole.slice(64, 8)])

    stage(staging, "a", pa.RecordBatch.from_arrays([column], schema=SCHEMA))

    assert staging.size_bytes >= 1 << 20


@pytest.mark.parametrize("token", ["", "x" * 257])
def test_a_token_has_a_bounded_name(token: str) -> None:
    with pytest.raises(InvalidRequest, match="token"):
        stage(Staging(Clock(lambda: 0)), token)
