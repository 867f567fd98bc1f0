"""Array functions against plain loops."""

from __future__ import annotations

from itertools import pairwise
from zlib import crc32

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.unit.store.recording import make_record
from tests.unit.store.test_record import RECORDS, V4, V6

from dueline.store import kernels
from dueline.store import record as records
from dueline.store.record import MARK_CHECK_MASK, Record

BYTES = st.binary(max_size=40)
ROWS = st.lists(BYTES, max_size=12)


def joined(rows: list[bytes]) -> tuple[kernels.Bytes8, kernels.Int64s, kernels.Int64s]:
    """Rows one after the other, with starts and sizes."""
    sizes = np.array([len(row) for row in rows], dtype=np.int64)
    starts = np.cumsum(sizes) - sizes
    return np.frombuffer(b"".join(rows), dtype=np.uint8), starts, sizes


@given(st.binary(min_size=1, max_size=60), st.data())
def test_slices_cut_what_a_loop_cuts(data: bytes, draw: st.DataObject) -> None:
    pairs = draw.draw(
        st.lists(
            st.integers(0, len(data)).flatmap(
                lambda start: st.tuples(st.just(start), st.integers(0, len(data) - start))
            ),
            max_size=10,
        )
    )
    starts = np.array([start for start, _ in pairs], dtype=np.int64)
    sizes = np.array([size for _, size in pairs], dtype=np.int64)

    found = kernels.slices(np.frombuffer(data, dtype=np.uint8), starts, sizes)

    assert found.to_pylist() == [data[start : start + size] for start, size in pairs]


@given(ROWS, st.integers(40, 50))
def test_padded_fills_with_zeros(rows: list[bytes], width: int) -> None:
    data, starts, sizes = joined(rows)

    found = kernels.padded(data, starts, sizes, width)

    assert [row.tobytes() for row in found] == [row.ljust(width, b"\0") for row in rows]


@given(st.lists(st.lists(RECORDS, max_size=4), min_size=1, max_size=3), st.randoms())
def test_gather_copies_records_from_several_buffers(
    groups: list[list[Record]], random: object
) -> None:
    buffers, rows = [], []
    for number, group in enumerate(groups):
        encoded = [records.seal(record) for record in group]
        at = 7
        for data in encoded:
            rows.append((number, at, data))
            at += len(data)
        buffers.append(pa.py_buffer(b"x" * 7 + b"".join(encoded)))
    random.shuffle(rows)  # type: ignore[attr-defined]

    found = kernels.gather(
        buffers,
        np.array([number for number, _, _ in rows], dtype=np.int32),
        np.array([at for _, at, _ in rows], dtype=np.int32),
        np.array([len(data) for _, _, data in rows], dtype=np.int32),
    )

    assert found.to_pylist() == [data for _, _, data in rows]


@given(ROWS, st.integers(0, 5), st.integers(0, 5))
def test_buffer_of_a_slice_gives_its_values(rows: list[bytes], start: int, count: int) -> None:
    for kind in (pa.binary(), pa.large_binary()):
        array = pa.array(rows, kind).slice(start, count)

        data, offsets = kernels.buffer_of(array)

        cut = [data[a:b].tobytes() for a, b in pairwise(offsets)]
        assert cut == rows[start : start + count]


def test_buffer_of_takes_chunks_too() -> None:
    data, offsets = kernels.buffer_of(pa.chunked_array([[b"ab"], [b"", b"c"]]))

    assert (data[: offsets[-1]].tobytes(), offsets.tolist()) == (b"abc", [0, 2, 2, 3])


@given(st.lists(st.integers(0, 1 << 40), max_size=10))
def test_offsets_of_sizes(sizes: list[int]) -> None:
    expected = [0]
    for size in sizes:
        expected.append(expected[-1] + size)

    assert kernels.offsets_of(np.array(sizes, dtype=np.int64)).tolist() == expected


@given(st.lists(st.lists(st.integers(), max_size=4), max_size=6), st.integers(0, 3))
def test_lengths_of_lists(lists: list[list[int]], start: int) -> None:
    array = pa.array([[0] * len(items) for items in lists], pa.list_(pa.int8())).slice(start)

    assert kernels.lengths_of(array).tolist() == [len(items) for items in lists[start:]]


@given(st.lists(st.binary(min_size=3, max_size=3), max_size=6))
def test_fixed_rows_are_binary_values(rows: list[bytes]) -> None:
    array = np.frombuffer(b"".join(rows), dtype=np.uint8).reshape(len(rows), 3)

    assert kernels.fixed_rows(array).to_pylist() == rows


@given(st.lists(st.tuples(BYTES, st.one_of(st.none(), BYTES)), min_size=1, max_size=8))
def test_join_concatenates_row_by_row(rows: list[tuple[bytes, bytes | None]]) -> None:
    left = pa.array([row[0] for row in rows], pa.binary())
    right = pa.array([row[1] for row in rows], pa.binary())

    found = kernels.join(left, b"-", right)

    assert found.to_pylist() == [a + b"-" + (b or b"") for a, b in rows]


@given(st.lists(RECORDS, min_size=1, max_size=8))
def test_headers_are_the_fields(rows: list[Record]) -> None:
    data, starts, _ = joined([records.seal(record) for record in rows])

    found = kernels.headers(data, starts)

    decoded = [records.decode(records.seal(record)) for record in rows]
    for name in ("queue_id", "flag", "queue_offset", "position", "sys_flag", "born_ms", "store_ms",
                 "reconsume_times", "mark"):  # fmt: skip
        assert found[name].tolist() == [getattr(record, name) for record in decoded], name
    assert found["size"].tolist() == [record.size_bytes for record in decoded]
    assert found["body_size"].tolist() == [len(record.body) for record in decoded]
    assert [host.tobytes() for host in found["born_host"]] == [r.born_host[:8] for r in decoded]
    assert [host.tobytes() for host in found["store_host"]] == [r.store_host[:8] for r in decoded]


@given(st.lists(st.integers(0, (1 << 64) - 1), max_size=10))
def test_fold_words_is_the_scalar_fold(values: list[int]) -> None:
    found = kernels.fold_words(np.array(values, dtype=np.uint64))

    assert found.tolist() == [records.fold(value) for value in values]


@given(st.lists(RECORDS, min_size=1, max_size=6))
def test_header_fold_and_tail_check_make_the_scalar_check(rows: list[Record]) -> None:
    """For IPv4 hosts the two halves together are the check that the scalar codec makes."""
    rows = [
        make_record(
            queue_id=record.queue_id,
            flag=record.flag,
            born_ms=record.born_ms,
            store_ms=record.store_ms,
            reconsume_times=record.reconsume_times,
            mark=record.mark,
            body=record.body,
            topic=record.topic,
            properties=record.properties,
        )
        for record in rows
    ]
    encoded = [records.seal(record) for record in rows]
    data, starts, sizes = joined(encoded)
    headers = kernels.headers(data, starts)
    tails = starts + 88 + headers["body_size"].astype(np.int64)

    found = kernels.fold_headers(headers) ^ kernels.tail_checks(data, tails, starts + sizes)

    marks = [int.from_bytes(data[76:84], "big") for data in encoded]
    assert found.tolist() == [(mark & MARK_CHECK_MASK) >> 44 for mark in marks]


@given(ROWS)
def test_checksums_are_zlibs(rows: list[bytes]) -> None:
    data, starts, sizes = joined(rows)

    assert kernels.crc32_list(data, starts, starts + sizes) == [crc32(row) for row in rows]
    assert kernels.body_crcs(data, starts, starts + sizes).tolist() == [
        crc32(row) & 0x7FFFFFFF for row in rows
    ]
    assert kernels.tail_checks(data, starts, starts + sizes).tolist() == [
        records.tail_check(row) for row in rows
    ]


@pytest.mark.parametrize("width", [1, 8, 16])
def test_windows_overlap(width: int) -> None:
    data = np.arange(20, dtype=np.uint8)

    found = kernels.windows(data, width)

    assert [row.tobytes() for row in found] == [
        data[at : at + width].tobytes() for at in range(20 - width + 1)
    ]


def test_windows_of_too_little_data_are_none() -> None:
    assert len(kernels.windows(np.zeros(3, dtype=np.uint8), 8)) == 0


def test_sample_hosts_are_of_both_kinds() -> None:
    assert (len(V4), len(V6)) == (8, 20)
