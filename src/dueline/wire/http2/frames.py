"""Frames as bytes (RFC 9113, 4 and 6).

+-----------------+----------+-----------+------------------+----------------+
| length (24)     | type (8) | flags (8) | 0, stream (31)   | payload …      |
+-----------------+----------+-----------+------------------+----------------+
"""

from __future__ import annotations

import enum
import struct
from collections.abc import Iterable
from typing import Final

from dueline.wire.http2.faults import ErrorCode, Fault

__all__ = [
    "FRAME_SIZE_MAX",
    "HEAD",
    "HEAD_SIZE",
    "PREFACE",
    "WORD",
    "Flag",
    "FrameType",
    "Setting",
    "frame",
    "goaway",
    "headers",
    "reset",
    "settings",
    "unpadded",
    "window_update",
    "without_priority",
]

PREFACE: Final = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"
FRAME_SIZE_MAX: Final = 16_384
"""The largest payload that either end may send unless it is told otherwise."""

HEAD: Final = struct.Struct(">BHBBL")
"""The high and the low part of the length, type, flags, stream."""
HEAD_SIZE: Final = HEAD.size
assert HEAD_SIZE == 9
WORD: Final = struct.Struct(">L")
_SETTING: Final = struct.Struct(">HL")


class FrameType:
    """Numbers, not an enumeration: they are compared for every frame."""

    DATA: Final = 0
    HEADERS: Final = 1
    PRIORITY: Final = 2
    RST_STREAM: Final = 3
    SETTINGS: Final = 4
    PUSH_PROMISE: Final = 5
    PING: Final = 6
    GOAWAY: Final = 7
    WINDOW_UPDATE: Final = 8
    CONTINUATION: Final = 9


class Flag:
    """Likewise. What they mean depends on the type."""

    END_STREAM: Final = 0x1
    ACK: Final = 0x1
    END_HEADERS: Final = 0x4
    PADDED: Final = 0x8
    PRIORITY: Final = 0x20


class Setting(enum.IntEnum):
    """What each end may tell the other."""

    ENABLE_PUSH = 2
    MAX_CONCURRENT_STREAMS = 3
    INITIAL_WINDOW_SIZE = 4
    MAX_FRAME_SIZE = 5
    MAX_HEADER_LIST_SIZE = 6


def frame(kind: int, flags: int, stream_id: int, payload: bytes = b"") -> bytes:
    """A whole frame."""
    size = len(payload)
    return HEAD.pack(size >> 16, size & 0xFFFF, kind, flags, stream_id) + payload


def headers(stream_id: int, block: bytes, *, is_end: bool, size_max: int) -> bytes:
    """A header block, in as many frames as it needs."""
    end_stream = Flag.END_STREAM if is_end else 0
    if len(block) <= size_max:
        return frame(FrameType.HEADERS, Flag.END_HEADERS | end_stream, stream_id, block)
    parts = [block[start : start + size_max] for start in range(0, len(block), size_max)]
    last = len(parts) - 1
    return b"".join(
        frame(
            FrameType.CONTINUATION if number else FrameType.HEADERS,
            (Flag.END_HEADERS if number == last else 0) | (0 if number else end_stream),
            stream_id,
            part,
        )
        for number, part in enumerate(parts)
    )


def settings(values: Iterable[tuple[Setting, int]]) -> bytes:
    payload = b"".join(_SETTING.pack(*each) for each in values)
    return frame(FrameType.SETTINGS, 0, 0, payload)


def reset(stream_id: int, code: int) -> bytes:
    return frame(FrameType.RST_STREAM, 0, stream_id, WORD.pack(code))


def window_update(stream_id: int, size: int) -> bytes:
    return frame(FrameType.WINDOW_UPDATE, 0, stream_id, WORD.pack(size))


def goaway(last_stream_id: int, code: int, words: str = "") -> bytes:
    payload = WORD.pack(last_stream_id) + WORD.pack(code) + words.encode()[:256]
    return frame(FrameType.GOAWAY, 0, 0, payload)


def unpadded(payload: bytes) -> bytes:
    """What a padded frame holds.

    Raises:
        Fault: more padding than frame.
    """
    if not payload or payload[0] >= len(payload):
        raise Fault(ErrorCode.PROTOCOL_ERROR, "padding: expected less than the frame has")
    return payload[1 : len(payload) - payload[0]]


def without_priority(payload: bytes, stream_id: int) -> bytes:
    """What stands behind a priority, which is read and not obeyed.

    Raises:
        Fault: it cannot be one.
    """
    if len(payload) < 5:
        raise Fault(ErrorCode.FRAME_SIZE_ERROR, "priority: expected 5 bytes")
    if WORD.unpack_from(payload)[0] & 0x7FFFFFFF == stream_id:
        raise Fault(ErrorCode.PROTOCOL_ERROR, f"priority: found stream {stream_id} after itself")
    return payload[5:]
