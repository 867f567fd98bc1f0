"""Reconciling as arrays agrees with a plain loop over rows."""

import hypothesis.strategies as st
import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given

from dueline.broker.pipeline.reconcile import reconcile
from dueline.errors import InvalidRequest

Row = tuple[int, int]


def batches_of(rows: list[Row], cut: int) -> list[pa.RecordBatch]:
    parts = [rows[:cut], rows[cut:]]
    return [
        pa.RecordBatch.from_pydict(
            {
                "origin": pa.array([origin for origin, _ in part], pa.int64()),
                "due_ms": pa.array([due for _, due in part], pa.int64()),
                "place": pa.array(range(start, start + len(part)), pa.int64()),
            }
        )
        for part, start in zip(parts, (0, cut), strict=True)
    ]


def plain(read: list[Row], rows: list[Row]) -> tuple[list[int], list[int], int]:
    """Places of the rows that are kept, missing origins, and how many were left out."""
    due = dict(read)
    seen: set[int] = set()
    kept = []
    for place, (origin, due_ms) in enumerate(rows):
        if due.get(origin) != due_ms:
            raise InvalidRequest("not as it was read")
        if origin not in seen:
            kept.append(place)
        seen.add(origin)
    return kept, sorted(set(due) - seen), len(rows) - len(kept)


READ = st.dictionaries(st.integers(0, 30), st.integers(0, 5)).map(lambda read: list(read.items()))


@given(st.data())
def test_arrays_agree_with_a_loop(data: st.DataObject) -> None:
    read = data.draw(READ)
    good = st.sampled_from(read) if read else st.nothing()
    any_row = st.one_of(good, good, good, st.tuples(st.integers(0, 40), st.integers(0, 6)))
    rows = data.draw(st.one_of(st.just(read), st.lists(any_row, max_size=20)))
    cut = data.draw(st.integers(0, len(rows)))
    repeats = data.draw(st.integers(1, 2))
    given_out = np.array(read * repeats, dtype=np.int64).reshape(-1, 2)

    def run() -> tuple[list[int], list[int], int]:
        result = reconcile(
            batches_of(rows, cut),
            origins=given_out[:, 0],
            due_ms=given_out[:, 1],
            is_distinct=repeats == 1,
        )
        places = [place for batch in result.batches for place in batch["place"].to_pylist()]
        return places, result.missing.tolist(), result.repeated_count

    try:
        expected = plain(read, rows)
    except InvalidRequest:
        with pytest.raises(InvalidRequest, match="must keep the column"):
            run()
        return
    assert run() == expected
