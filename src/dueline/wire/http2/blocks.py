"""Header blocks put together from their frames: HEADERS, and CONTINUATION until it is whole.

Nothing else may come between the frames of a block, and a block has a bound in bytes and frames.
"""

from __future__ import annotations

from typing import Final, NamedTuple

from dueline.wire.http2.faults import ErrorCode, Fault
from dueline.wire.http2.frames import Flag, unpadded, without_priority

__all__ = ["Block", "BlockReader"]

FRAME_COUNT_MAX: Final = 16


class Block(NamedTuple):
    """A whole one."""

    stream_id: int
    is_end: bool
    """Nothing more comes on its stream."""
    data: bytes


class BlockReader:
    """The block that is on its way, if there is one."""

    def __init__(self, size_max: int) -> None:
        self._size_max: Final = size_max
        self._begun: Block | None = None
        self._parts: list[bytes] = []

    @property
    def is_open(self) -> bool:
        """Must a CONTINUATION come next?"""
        return self._begun is not None

    def on_headers(self, flags: int, stream_id: int, payload: bytes) -> Block | None:
        """A HEADERS frame; returns the block if it is whole."""
        if not stream_id & 1:
            raise Fault(
                ErrorCode.PROTOCOL_ERROR, f"headers: found stream {stream_id}, not a client's"
            )
        if flags & Flag.PADDED:
            payload = unpadded(payload)
        if flags & Flag.PRIORITY:
            payload = without_priority(payload, stream_id)
        block = Block(stream_id, bool(flags & Flag.END_STREAM), payload)
        if flags & Flag.END_HEADERS:
            return block
        self._begun, self._parts = block, [payload]
        return None

    def on_continuation(self, flags: int, stream_id: int, payload: bytes) -> Block | None:
        """A CONTINUATION frame; returns the block if it is whole."""
        begun = self._begun
        if begun is None or begun.stream_id != stream_id:
            raise Fault(ErrorCode.PROTOCOL_ERROR, "continuation: expected none here")
        self._parts.append(payload)
        if sum(map(len, self._parts)) > self._size_max or len(self._parts) > FRAME_COUNT_MAX:
            raise Fault(
                ErrorCode.ENHANCE_YOUR_CALM,
                f"headers: expected at most {self._size_max} bytes in {FRAME_COUNT_MAX} frames, "
                "found more",
            )
        if not flags & Flag.END_HEADERS:
            return None
        self._begun = None
        return Block(stream_id, begun.is_end, b"".join(self._parts))
