"""Putting place and time into the bytes of many encoded records at once.

A batch is encoded before the log's lock is taken, with zeros where the lock holder decides:
position, queue offset, store time and the mark's number. `seal` makes the checks of freshly
encoded records; `restamp` fills in the decided fields and corrects the check, which is an XOR and
so needs only the difference. Where kernels are compiled, one of them does it in one pass.
"""

from __future__ import annotations

from typing import Any, Final

import numpy as np
import numpy.typing as npt

from dueline import compiled
from dueline.message import SYS_STORE_HOST_V6
from dueline.store import kernels
from dueline.store.kernels import Int64s
from dueline.store.layout import (
    BORN_HOST_AT,
    HEADER_SIZE,
    HOST_SIZE,
    MARK_AT,
    POSITION_AT,
    QUEUE_OFFSET_AT,
    STORE_MS_AT,
    host_sizes,
)
from dueline.store.record import MARK_CHECK_MASK, MARK_CHECK_SHIFT, host_words

__all__ = ["STAMP_KERNELS", "checks_of", "restamp", "scatter", "seal"]

STAMP_KERNELS: Final = "dueline.store.stamp_kernels"

_UNCHECKED = np.uint64(~MARK_CHECK_MASK & (1 << 64) - 1)
_SHIFT = np.uint64(MARK_CHECK_SHIFT)
_KEEP: Final = np.empty(0, dtype=np.int64)


def seal(
    data: npt.NDArray[np.uint8],
    starts: Int64s,
    ends: Int64s,
    *,
    marks: npt.NDArray[np.uint64],
    store_ms: Int64s,
) -> None:
    """Give freshly joined records their marks, with right checks, and a store time, in place.

    Position and queue offset become 0. `marks` has flags and numbers, check bits zero.
    """
    headers = kernels.headers(data, starts)
    headers["mark"] = marks
    headers["store_ms"] = store_ms
    checks = checks_of(data, starts, ends, headers).astype(np.uint64)
    scatter(data, _mark_at(headers, starts), _big_endian(marks | checks << _SHIFT))
    scatter(data, _store_ms_at(headers, starts), _big_endian(store_ms))
    scatter(data, starts + QUEUE_OFFSET_AT, np.zeros((len(starts), 16), dtype=np.uint8))


def restamp(  # noqa: PLR0913 - the fields that a log decides, keyword-only
    data: npt.NDArray[np.uint8],
    starts: Int64s,
    *,
    positions: Int64s,
    store_ms: Int64s,
    queue_offsets: Int64s | None = None,
    marks: npt.NDArray[np.uint64] | None = None,
    store_host: bytes | None = None,
) -> None:
    """Write what the log decided into sealed records, in place, and keep their checks right.

    Args:
        marks: new flags and numbers (check bits zero); None keeps the old ones.
        store_host: the new store host of records with room for it; None keeps the old one.
    """
    stamp_kernels = compiled.ready(STAMP_KERNELS)
    if stamp_kernels is None:
        _restamp(data, starts, positions, store_ms, queue_offsets, marks, store_host)
        return
    is_done = stamp_kernels.restamp(
        data,
        *map(np.ascontiguousarray, (starts, positions, store_ms)),
        _KEEP if queue_offsets is None else np.ascontiguousarray(queue_offsets),
        _KEEP if marks is None else np.ascontiguousarray(marks).view(np.int64),
        np.frombuffer(store_host or b"", dtype=np.uint8),
    )
    assert is_done, "records stand within their array"


def _restamp(  # noqa: PLR0913 - the fields that a log decides, private
    data: npt.NDArray[np.uint8],
    starts: Int64s,
    positions: Int64s,
    store_ms: Int64s,
    queue_offsets: Int64s | None,
    marks: npt.NDArray[np.uint64] | None,
    store_host: bytes | None,
) -> None:
    """`stamp_kernels.restamp` with arrays."""
    headers = kernels.headers(data, starts)
    old = headers["mark"].astype(np.uint64)
    new = old & _UNCHECKED if marks is None else marks
    times: npt.NDArray[np.uint64] = headers["store_ms"].astype(np.uint64)
    times = times ^ store_ms.astype(np.uint64)
    if store_host is not None:
        times = times ^ _replace_hosts(data, starts, headers, store_host)
    change = kernels.fold_words((old & _UNCHECKED) ^ new ^ times)
    new = new | (old & ~_UNCHECKED) ^ (change.astype(np.uint64) << _SHIFT)
    scatter(data, _mark_at(headers, starts), _big_endian(new))
    scatter(data, starts + POSITION_AT, _big_endian(positions))
    scatter(data, _store_ms_at(headers, starts), _big_endian(store_ms))
    if queue_offsets is not None:
        scatter(data, starts + QUEUE_OFFSET_AT, _big_endian(queue_offsets))


def _replace_hosts(
    data: npt.NDArray[np.uint8], starts: Int64s, headers: npt.NDArray[Any], store_host: bytes
) -> npt.NDArray[np.uint64]:
    """Write a store host where it fits; returns what each record's check covers of the change."""
    change = np.zeros(len(starts), dtype=np.uint64)
    if len(store_host) > HOST_SIZE:
        return change
    rows = np.flatnonzero(headers["sys_flag"] & SYS_STORE_HOST_V6 == 0)
    old = headers["store_host"].copy().view(">u8").astype(np.uint64)
    change[rows] = old[rows] ^ np.uint64(int.from_bytes(store_host, "big"))
    host = np.frombuffer(store_host, dtype=np.uint8)
    scatter(data, _store_ms_at(headers, starts)[rows] + 8, np.tile(host, (len(rows), 1)))
    return change


def checks_of(
    data: npt.NDArray[np.uint8], starts: Int64s, ends: Int64s, headers: npt.NDArray[Any]
) -> npt.NDArray[np.uint16]:
    """The check that each record should have."""
    body_at = kernels.body_starts(headers, starts)
    tail_at = body_at + headers["body_size"].astype(np.int64)
    folded = kernels.fold_headers(headers)
    for row in np.flatnonzero(body_at - starts > HEADER_SIZE).tolist():
        folded[row] ^= _wide_correction(data, int(starts[row]), headers[row])
    return kernels.tail_checks(data, tail_at, ends) ^ folded


def scatter(data: npt.NDArray[np.uint8], starts: Int64s, rows: npt.NDArray[np.uint8]) -> None:
    """data[start : start + w] = row, for every row of an n x w array."""
    width = rows.shape[1]
    target = np.lib.stride_tricks.as_strided(
        data, shape=(max(len(data) - width + 1, 0), width), strides=(1, 1), writeable=True
    )
    target[starts] = rows


def _mark_at(headers: npt.NDArray[Any], starts: Int64s) -> Int64s:
    return kernels.body_starts(headers, starts) - (HEADER_SIZE - MARK_AT)


def _store_ms_at(headers: npt.NDArray[Any], starts: Int64s) -> Int64s:
    return starts + STORE_MS_AT + kernels.born_extra(headers)


def _big_endian(values: npt.NDArray[Any]) -> npt.NDArray[np.uint8]:
    swapped = np.ascontiguousarray(values.astype(values.dtype.newbyteorder(">")))
    return swapped.view(np.uint8).reshape(len(values), 8)


def _wide_correction(data: npt.NDArray[np.uint8], start: int, header: Any) -> int:
    """`fold_headers` saw 8 bytes of each host; this adds what it missed of IPv6 ones."""
    born_size, store_size = host_sizes(int(header["sys_flag"]))
    born_end = start + BORN_HOST_AT + born_size
    store_end = born_end + 8 + store_size
    seen = host_words(header["born_host"].tobytes()) ^ host_words(header["store_host"].tobytes())
    real = host_words(data[start + BORN_HOST_AT : born_end].tobytes())
    real ^= host_words(data[born_end + 8 : store_end].tobytes())
    missed = seen ^ real
    return (missed >> 16 ^ missed) & 0xFFFF
