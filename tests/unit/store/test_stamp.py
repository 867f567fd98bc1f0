"""Stamping many records at once gives what encoding them one by one would."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
from hypothesis import given
from hypothesis import strategies as st
from tests.unit.store.recording import make_record
from tests.unit.store.test_record import RECORDS, V4, V6

from dueline.message import pack_host
from dueline.store import record as records
from dueline.store import stamp
from dueline.store.kernels import Bytes8, Int64s
from dueline.store.record import MARK_DELAYED, MARK_PRESENT, Record

MS = st.integers(0, (1 << 62) - 1)
OTHER_HOST = pack_host("192.168.7.8", 99)


def laid_out(rows: list[bytes]) -> tuple[Int64s, Int64s, Bytes8]:
    sizes = np.array([len(row) for row in rows], dtype=np.int64)
    ends = np.cumsum(sizes)
    return ends - sizes, ends, np.frombuffer(b"".join(rows), dtype=np.uint8).copy()


def cut(data: Bytes8, starts: Int64s, ends: Int64s) -> list[bytes]:
    return [data[start:end].tobytes() for start, end in zip(starts, ends, strict=True)]


@given(st.lists(st.tuples(RECORDS, MS, st.integers(0, (1 << 44) - 1)), min_size=1, max_size=6))
def test_seal_makes_what_the_scalar_seal_makes(rows: list[tuple[Record, int, int]]) -> None:
    starts, ends, data = laid_out([record.encode() for record, _, _ in rows])
    marks = np.array([MARK_PRESENT | MARK_DELAYED | number for _, _, number in rows], np.uint64)
    times = np.array([store_ms for _, store_ms, _ in rows], dtype=np.int64)

    stamp.seal(data, starts, ends, marks=marks, store_ms=times)

    assert cut(data, starts, ends) == [
        records.seal(
            replace(
                record, store_ms=store_ms, mark=MARK_DELAYED | number, position=0, queue_offset=0
            )
        )
        for record, store_ms, number in rows
    ]


@given(
    st.lists(st.tuples(RECORDS, MS, MS, MS, st.integers(0, (1 << 44) - 1)), min_size=1, max_size=6),
    st.booleans(),
    st.booleans(),
    st.sampled_from([None, OTHER_HOST, V6]),
)
def test_restamp_keeps_the_checks_right(
    rows: list[tuple[Record, int, int, int, int]],
    with_marks: bool,
    with_offsets: bool,
    host: bytes | None,
) -> None:
    starts, ends, data = laid_out([records.seal(row[0]) for row in rows])
    positions, times, offsets, numbers = (
        np.array([row[column] for row in rows], dtype=np.int64) for column in (1, 2, 3, 4)
    )

    stamp.restamp(
        data,
        starts,
        positions=positions,
        store_ms=times,
        queue_offsets=offsets if with_offsets else None,
        marks=(numbers.astype(np.uint64) | np.uint64(MARK_PRESENT)) if with_marks else None,
        store_host=host,
    )

    expected = []
    for record, position, store_ms, offset, number in rows:
        changed = replace(record, position=position, store_ms=store_ms)
        if with_marks:
            changed = replace(changed, mark=number)
        if with_offsets:
            changed = replace(changed, queue_offset=offset)
        if host is OTHER_HOST and len(record.store_host) == len(host):
            changed = replace(changed, store_host=host)
        expected.append(records.seal(changed))
    assert cut(data, starts, ends) == expected


def test_scatter_writes_rows_at_their_places() -> None:
    data = np.zeros(10, dtype=np.uint8)

    stamp.scatter(data, np.array([7, 1]), np.array([[1, 2, 3], [4, 5, 6]], dtype=np.uint8))

    assert data.tolist() == [0, 4, 5, 6, 0, 0, 0, 1, 2, 3]


def test_samples_have_both_kinds_of_hosts() -> None:
    assert {len(V4), len(V6)} == {8, 20}
    assert make_record().size_bytes == len(records.seal(make_record()))
