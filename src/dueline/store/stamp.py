"""Putting place and time into the bytes of many encoded records at once.

A batch is encoded before the log's lock is taken, with zeros where the lock holder decides:
position, queue offset, store time and the mark's number. `seal` makes the checks of freshly
encoded records; `restamp` fills in the decided fields and corrects the check, which is an XOR and
so needs only the difference.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from dueline.store import kernels
from dueline.store.kernels import Int64s
from dueline.store.record import (
    HEADER_SIZE,
    HOST_V6_EXTRA,
    MARK_CHECK_MASK,
    MARK_CHECK_SHIFT,
    host_words,
)

__all__ = ["checks_of", "restamp", "scatter", "seal"]

_UNCHECKED = np.uint64(~MARK_CHECK_MASK & (1 << 64) - 1)
_SHIFT = np.uint64(MARK_CHECK_SHIFT)


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
    scatter(data, starts + 20, np.zeros((len(starts), 16), dtype=np.uint8))


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
    scatter(data, starts + 28, _big_endian(positions))
    scatter(data, _store_ms_at(headers, starts), _big_endian(store_ms))
    if queue_offsets is not None:
        scatter(data, starts + 20, _big_endian(queue_offsets))


def _replace_hosts(
    data: npt.NDArray[np.uint8], starts: Int64s, headers: npt.NDArray[Any], store_host: bytes
) -> npt.NDArray[np.uint64]:
    """Write a store host where it fits; returns what each record's check covers of the change."""
    change = np.zeros(len(starts), dtype=np.uint64)
    if len(store_host) > 8:
        return change
    rows = np.flatnonzero(headers["sys_flag"] & 0x20 == 0)
    raw = headers.view(np.uint8).reshape(len(headers), HEADER_SIZE)
    old = np.ascontiguousarray(raw[:, 64:72]).view(">u8")[:, 0].astype(np.uint64)
    change[rows] = old[rows] ^ np.uint64(int.from_bytes(store_host, "big"))
    host = np.frombuffer(store_host, dtype=np.uint8)
    scatter(data, _store_ms_at(headers, starts)[rows] + 8, np.tile(host, (len(rows), 1)))
    return change


def checks_of(
    data: npt.NDArray[np.uint8], starts: Int64s, ends: Int64s, headers: npt.NDArray[Any]
) -> npt.NDArray[np.uint16]:
    """The check that each record should have."""
    extra = HOST_V6_EXTRA * ((headers["sys_flag"] >> 4 & 1) + (headers["sys_flag"] >> 5 & 1))
    tail_at = starts + HEADER_SIZE + extra + headers["body_size"].astype(np.int64)
    folded = kernels.fold_headers(headers)
    for row in np.flatnonzero(extra).tolist():
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
    sys_flag = headers["sys_flag"]
    extra = HOST_V6_EXTRA * ((sys_flag >> 4 & 1) + (sys_flag >> 5 & 1)).astype(np.int64)
    result: Int64s = starts + HEADER_SIZE - 12 + extra
    return result


def _store_ms_at(headers: npt.NDArray[Any], starts: Int64s) -> Int64s:
    result: Int64s = starts + 56 + HOST_V6_EXTRA * (headers["sys_flag"] >> 4 & 1).astype(np.int64)
    return result


def _big_endian(values: npt.NDArray[Any]) -> npt.NDArray[np.uint8]:
    swapped = np.ascontiguousarray(values.astype(values.dtype.newbyteorder(">")))
    return swapped.view(np.uint8).reshape(len(values), 8)


def _wide_correction(data: npt.NDArray[np.uint8], start: int, header: Any) -> int:
    """`fold_headers` saw 8 bytes of each host; this adds what it missed of IPv6 ones."""
    flags = int(header["sys_flag"])
    born_end = start + 48 + (20 if flags & 0x10 else 8)
    store_end = born_end + 8 + (20 if flags & 0x20 else 8)
    seen = host_words(header["born_host"].tobytes()) ^ host_words(header["store_host"].tobytes())
    real = host_words(data[start + 48 : born_end].tobytes())
    real ^= host_words(data[born_end + 8 : store_end].tobytes())
    missed = seen ^ real
    return (missed >> 16 ^ missed) & 0xFFFF
