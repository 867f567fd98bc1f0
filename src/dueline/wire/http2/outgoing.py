"""What goes to the peer: frames in order, and data as far as the peer's windows allow.

    send_headers, send_data, end ──▶ stream's queue ──▶ windows ──▶ frames ──▶ take

Data waits in its stream's queue until both windows, the connection's and the stream's, have room.
A stream that waits for the connection's window is in `_ready`, one that waits for its own is not,
so that a new window is used without looking at those that it does not help.

`hold` keeps all data back, for as long as the socket takes none; other frames are small and pass.
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass, field
from typing import Final

from dueline.wire.http2 import frames
from dueline.wire.http2.faults import ErrorCode, Fault
from dueline.wire.http2.frames import FRAME_SIZE_MAX, HEAD, FrameType

__all__ = ["WINDOW_SIZE_DEFAULT", "WINDOW_SIZE_MAX", "OutStream", "Outgoing"]

WINDOW_SIZE_DEFAULT: Final = 65_535
WINDOW_SIZE_MAX: Final = (1 << 31) - 1

_NO_TABLE: Final = b"\x20"
"""Before the first header block: we use no table, whatever size the peer has in mind."""


@dataclass(slots=True, eq=False)
class OutStream:
    """One stream's way out."""

    stream_id: int
    window: int
    queue: deque[bytes | memoryview] = field(default_factory=deque)
    queued_bytes: int = 0
    trailers: bytes | None = None
    """Goes when the queue is empty, and ends the stream."""


class Outgoing:
    """Everything that one connection sends."""

    def __init__(self) -> None:
        self.queued_bytes = 0
        """Data that waits for the peer's windows."""
        self.initial_window = WINDOW_SIZE_DEFAULT
        self.frame_size_max = FRAME_SIZE_MAX
        self._window = WINDOW_SIZE_DEFAULT
        self._is_held = False
        self._frames: list[bytes | memoryview] = []
        self._ready: dict[OutStream, None] = {}
        self._block_prefix = _NO_TABLE

    def take(self) -> bytes:
        """The bytes to send now."""
        data = b"".join(self._frames)
        self._frames.clear()
        return data

    def put(self, data: bytes) -> None:
        """A whole frame that no window counts."""
        self._frames.append(data)

    def new_stream(self, stream_id: int) -> OutStream:
        return OutStream(stream_id, self.initial_window)

    def send_headers(self, stream: OutStream, block: bytes, *, is_end: bool = False) -> None:
        """Headers, before any data of their stream."""
        prefix, self._block_prefix = self._block_prefix, b""
        self._frames.append(
            frames.headers(
                stream.stream_id, prefix + block, is_end=is_end, size_max=self.frame_size_max
            )
        )

    def send_data(self, stream: OutStream, data: bytes) -> None:
        if not data:
            return
        stream.queue.append(data)
        stream.queued_bytes += len(data)
        self.queued_bytes += len(data)
        self._pump(stream)

    def end(self, stream: OutStream, trailers: bytes) -> bool:
        """No more data; the stream ends with trailers. Is it over now?"""
        stream.trailers = trailers
        return self._try_end(stream)

    def drop(self, stream: OutStream) -> None:
        """What waits is not sent any more."""
        self.queued_bytes -= stream.queued_bytes
        stream.queued_bytes = 0
        stream.queue.clear()
        self._ready.pop(stream, None)

    # Windows

    def widen(self, stream: OutStream, size: int) -> bool:
        """The peer takes more of this stream. Is it over now?

        Raises:
            Fault: more than a window can be.
        """
        stream.window += size
        if stream.window > WINDOW_SIZE_MAX:
            raise Fault(
                ErrorCode.FLOW_CONTROL_ERROR,
                f"window: expected at most {WINDOW_SIZE_MAX}, found {stream.window}",
                stream_id=stream.stream_id,
            )
        self._pump(stream)
        return self._try_end(stream)

    def widen_all(self, size: int) -> list[OutStream]:
        """The peer takes more on the whole; returns the streams that are over now.

        Raises:
            Fault: more than a window can be.
        """
        self._window += size
        if self._window > WINDOW_SIZE_MAX:
            raise Fault(
                ErrorCode.FLOW_CONTROL_ERROR,
                f"window: expected at most {WINDOW_SIZE_MAX}, found {self._window}",
            )
        return self._pump_ready()

    def hold(self, is_held: bool) -> list[OutStream]:
        """Keep data back, or let it go again; returns the streams that are over now."""
        self._is_held = is_held
        return self._pump_ready()

    def _pump_ready(self) -> list[OutStream]:
        over = []
        while self._ready and self._window > 0 and not self._is_held:
            stream = next(iter(self._ready))
            del self._ready[stream]
            self._pump(stream)
            if self._try_end(stream):
                over.append(stream)
        return over

    def _try_end(self, stream: OutStream) -> bool:
        if stream.queue or stream.trailers is None:
            return False
        self.send_headers(stream, stream.trailers, is_end=True)
        return True

    def _pump(self, stream: OutStream) -> None:
        """Send what the windows allow."""
        queue = stream.queue
        while queue:
            size = min(self._window, stream.window, self.frame_size_max)
            if size <= 0 or self._is_held:
                if stream.window > 0:
                    self._ready[stream] = None
                return
            data = self._cut(stream, size)
            size = len(data)
            self._window -= size
            stream.window -= size
            stream.queued_bytes -= size
            self.queued_bytes -= size
            head = HEAD.pack(size >> 16, size & 0xFFFF, FrameType.DATA, 0, stream.stream_id)
            self._frames += (head, data)
        self._ready.pop(stream, None)

    def _cut(self, stream: OutStream, size: int) -> bytes | memoryview:
        """The first so many bytes of a queue, or all that the first piece has."""
        first = stream.queue.popleft()
        if len(first) <= size:
            return first
        whole = memoryview(first)  # no copy of the rest for every frame
        stream.queue.appendleft(whole[size:])
        return whole[:size]
