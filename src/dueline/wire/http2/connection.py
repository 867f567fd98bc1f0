"""The server's end of an HTTP/2 connection, without a socket (RFC 9113).

    bytes ──▶ receive ──▶ events: Request, Data, Reset
              send_headers, send_data, end, reset ──▶ output ──▶ bytes

All frames of one `receive` are handled together, and whatever is sent meanwhile leaves with one
`output`. Settings, pings, windows and priorities are dealt with here; nobody above sees them.

A peer that breaks a rule loses its stream or its connection (`fault`), as the rule says. Bounded:
streams at a time, the size and the number of pieces of a header block, the size of a frame, how
often a peer may ask for what costs it nothing (`patience`). What is not bounded here is for the
layer above, which knows about others: bytes of requests, which are told by `Data`, and
`queued_bytes` of answers.

Time does not pass here: `patience.renew` and `ping` are called from outside. For one thread.
"""

from __future__ import annotations

import struct
from collections.abc import Callable
from typing import Final

from dueline.wire.http2 import frames
from dueline.wire.http2.blocks import Block, BlockReader
from dueline.wire.http2.events import Data, Event, Limits, Request, Reset
from dueline.wire.http2.faults import ErrorCode, Fault
from dueline.wire.http2.frames import (
    FRAME_SIZE_MAX,
    HEAD,
    HEAD_SIZE,
    PREFACE,
    WORD,
    Flag,
    FrameType,
    Setting,
)
from dueline.wire.http2.header_block import HeaderDecoder, Headers
from dueline.wire.http2.outgoing import WINDOW_SIZE_DEFAULT, WINDOW_SIZE_MAX, Outgoing
from dueline.wire.http2.patience import Patience
from dueline.wire.http2.request import check_request, check_trailers, content_length
from dueline.wire.http2.stream import STREAM_WINDOW, Stream, check_length, data_fault

__all__ = ["ServerConnection"]

CONNECTION_WINDOW: Final = 16 << 20
REQUEST_COUNT_MAX: Final = 64
CLOSING_COUNT_MAX: Final = 4_096
"""Streams that we ended first and that the peer may still be sending on, without knowing."""

_SETTING: Final = struct.Struct(">HL")
_EMPTY_COST, _RESET_COST, _SETTINGS_COST = 1, 4, 20


class ServerConnection:
    """One connection; see the module."""

    def __init__(self, limits: Limits) -> None:
        self.fault: Fault | None = None
        """Why the connection is over, if the peer broke a rule."""
        self.is_closing = False
        """New streams are not taken any more."""
        self.has_settings = False
        """The peer has said what a client says first."""
        self.patience: Final = Patience()
        self._limits: Final = limits
        self._headers = HeaderDecoder(list_size_max=limits.header_list_size_max)
        self._out = Outgoing()
        self._streams: dict[int, Stream] = {}
        self._closing: dict[int, None] = {}
        self._last_id = 0
        self._window = CONNECTION_WINDOW
        self._buffer = b""
        self._preface_left = PREFACE
        self._blocks = BlockReader(limits.header_block_size_max)
        self._events: list[Event] = []
        self._requests: dict[Headers, int | None] = {}
        """Headers that were found to be a request, and the size of its body."""
        self._handlers: Final[dict[int, Callable[[int, int, bytes], None]]] = {
            FrameType.DATA: self._on_data,
            FrameType.HEADERS: self._on_headers,
            FrameType.PRIORITY: self._on_priority,
            FrameType.RST_STREAM: self._on_reset,
            FrameType.SETTINGS: self._on_settings,
            FrameType.PUSH_PROMISE: self._on_push,
            FrameType.PING: self._on_ping,
            FrameType.GOAWAY: self._on_goaway,
            FrameType.WINDOW_UPDATE: self._on_window,
            FrameType.CONTINUATION: self._on_continuation,
        }
        self._greet()

    def _greet(self) -> None:
        settings = [
            (Setting.MAX_CONCURRENT_STREAMS, self._limits.stream_count_max),
            (Setting.INITIAL_WINDOW_SIZE, STREAM_WINDOW),
            (Setting.MAX_HEADER_LIST_SIZE, self._limits.header_list_size_max),
        ]
        self._out.put(frames.settings(settings))
        self._out.put(frames.window_update(0, CONNECTION_WINDOW - WINDOW_SIZE_DEFAULT))

    # What the layer above asks

    @property
    def queued_bytes(self) -> int:
        """Of answers that wait for the peer to take them."""
        return self._out.queued_bytes

    def output(self) -> bytes:
        """What to send now."""
        return self._out.take()

    def is_open(self, stream_id: int) -> bool:
        """Can something be sent on it?"""
        return stream_id in self._streams

    def queued_bytes_of(self, stream_id: int) -> int:
        stream = self._streams.get(stream_id)
        return stream.out.queued_bytes if stream is not None else 0

    # What the layer above says

    def send_headers(self, stream_id: int, block: bytes) -> None:
        """Begin an answer; nothing happens if the stream is over."""
        stream = self._streams.get(stream_id)
        if stream is not None:
            self._out.send_headers(stream.out, block)

    def send_data(self, stream_id: int, data: bytes) -> None:
        """A part of an answer."""
        stream = self._streams.get(stream_id)
        if stream is not None:
            self._out.send_data(stream.out, data)

    def end(self, stream_id: int, trailers: bytes) -> None:
        """The end of an answer, behind all of its data."""
        stream = self._streams.get(stream_id)
        if stream is not None and self._out.end(stream.out, trailers):
            self._finish(stream)

    def refuse(self, stream_id: int, block: bytes) -> None:
        """An answer that is nothing but headers."""
        stream = self._streams.get(stream_id)
        if stream is not None:
            self._out.send_headers(stream.out, block, is_end=True)
            self._finish(stream)

    def reset(self, stream_id: int, code: ErrorCode) -> None:
        """Give a stream up; what waits on it is not sent."""
        stream = self._streams.get(stream_id)
        if stream is not None:
            self._out.put(frames.reset(stream_id, code))
            self._forget(stream)

    def credit(self, stream_id: int, size: int) -> None:
        """So many bytes of a request are dealt with: its peer may send as many more."""
        stream = self._streams.get(stream_id)
        if stream is None or stream.is_ended:
            return
        stream.window += size
        self._out.put(frames.window_update(stream_id, size))

    def hold(self, is_held: bool) -> None:
        """Keep data back while the socket does not take more; then let it go again."""
        for out in self._out.hold(is_held):
            self._finish(self._streams[out.stream_id])

    def ping(self) -> None:
        """Ask for a sign of life."""
        self._out.put(frames.frame(FrameType.PING, 0, 0, b"dueline?"))

    def close(self, code: ErrorCode = ErrorCode.NO_ERROR, words: str = "") -> None:
        """Take no new streams; those that are there may go on to their end."""
        self.is_closing = True
        self._out.put(frames.goaway(self._last_id, code, words))

    def _finish(self, stream: Stream) -> None:
        """Our answer is complete; a peer that is still sending need not go on."""
        if not stream.is_ended:
            self._out.put(frames.reset(stream.out.stream_id, ErrorCode.NO_ERROR))
        self._forget(stream)

    def _forget(self, stream: Stream) -> None:
        stream_id = stream.out.stream_id
        self._out.drop(stream.out)
        del self._streams[stream_id]
        if not stream.is_ended:
            self._note_closing(stream_id)

    def _note_closing(self, stream_id: int) -> None:
        if len(self._closing) >= CLOSING_COUNT_MAX:
            del self._closing[next(iter(self._closing))]
        self._closing[stream_id] = None

    # What comes

    def receive(self, data: bytes) -> list[Event]:
        """What bytes of the peer mean; nothing more once there was a fault."""
        if self.fault is not None:
            return []
        if self._buffer:
            data = self._buffer + data
        try:
            at = self._read_preface(data) if self._preface_left else 0
            at = self._read_frames(data, at)
        except Fault as fault:
            self.fault = fault
            self.close(fault.code, fault.message)
            at = len(data)
        self._buffer = data[at:]
        events, self._events = self._events, []
        return events

    def _read_preface(self, data: bytes) -> int:
        start = data[: len(self._preface_left)]
        if not self._preface_left.startswith(start):
            raise Fault(ErrorCode.PROTOCOL_ERROR, "connection: expected the preface of HTTP/2")
        self._preface_left = self._preface_left[len(start) :]
        return len(start)

    def _read_frames(self, data: bytes, at: int) -> int:
        """Handle all whole frames; returns where the rest begins."""
        end, unpack, handlers = len(data), HEAD.unpack_from, self._handlers
        while end - at >= HEAD_SIZE:
            high, low, kind, flags, stream_id = unpack(data, at)
            size = high << 16 | low
            if size > FRAME_SIZE_MAX:
                raise Fault(
                    ErrorCode.FRAME_SIZE_ERROR,
                    f"frame: expected at most {FRAME_SIZE_MAX} bytes, found {size}",
                )
            next_at = at + HEAD_SIZE + size
            if next_at > end:
                break
            payload = data[at + HEAD_SIZE : next_at]
            at = next_at
            if self._blocks.is_open and kind != FrameType.CONTINUATION:
                raise Fault(ErrorCode.PROTOCOL_ERROR, "frames: expected the rest of a header block")
            if not self.has_settings and (kind != FrameType.SETTINGS or flags & Flag.ACK):
                raise Fault(ErrorCode.PROTOCOL_ERROR, "frames: expected settings first")
            handler = handlers.get(kind)
            if handler is None:
                self.patience.spend(_EMPTY_COST)  # of a kind that is not known: to be ignored
                continue
            try:
                handler(flags, stream_id & 0x7FFFFFFF, payload)
            except Fault as fault:
                self._stream_fault(fault)
        return at

    def _stream_fault(self, fault: Fault) -> None:
        """What is wrong with one stream ends that one; everything else is for the caller."""
        if not fault.stream_id:
            raise fault
        self.patience.spend(_RESET_COST)
        self._out.put(frames.reset(fault.stream_id, fault.code))
        stream = self._streams.get(fault.stream_id)
        if stream is not None:
            self._forget(stream)
            self._events.append(Reset(fault.stream_id, fault.code))
        elif fault.code is not ErrorCode.STREAM_CLOSED:
            self._note_closing(fault.stream_id)

    # Requests

    def _on_headers(self, flags: int, stream_id: int, payload: bytes) -> None:
        self._on_block(self._blocks.on_headers(flags, stream_id, payload))

    def _on_continuation(self, flags: int, stream_id: int, payload: bytes) -> None:
        self._on_block(self._blocks.on_continuation(flags, stream_id, payload))

    def _on_block(self, block: Block | None) -> None:
        if block is None:
            return
        fields = self._headers.decode(block.data)  # always: the next block stands on its table
        stream = self._streams.get(block.stream_id)
        if stream is not None:
            self._on_trailers(stream, block, fields)
            return
        if block.stream_id <= self._last_id:
            self._on_closed(block.stream_id)
            return
        if self.is_closing:  # it was told up to which stream we look
            return
        self._last_id = block.stream_id
        if len(self._streams) >= self._limits.stream_count_max:
            raise Fault(
                ErrorCode.REFUSED_STREAM,
                f"streams: expected at most {self._limits.stream_count_max} at a time",
                stream_id=block.stream_id,
            )
        length = None if fields is None else self._length_of(fields, block.stream_id)
        stream = Stream(self._out.new_stream(block.stream_id), is_ended=block.is_end)
        stream.length_left = length
        self._streams[block.stream_id] = stream
        if block.is_end:
            check_length(stream)
        self._events.append(Request(block.stream_id, fields, block.is_end))

    def _length_of(self, fields: Headers, stream_id: int) -> int | None:
        """The body's size, of headers that are a request; those of a client are alike."""
        known = self._requests.get(fields, -1)
        if known != -1:
            return known
        check_request(fields, stream_id)
        length = content_length(fields, stream_id)
        if len(self._requests) >= REQUEST_COUNT_MAX:
            self._requests.clear()
        self._requests[fields] = length
        return length

    def _on_trailers(self, stream: Stream, block: Block, fields: Headers | None) -> None:
        if stream.is_ended:
            raise Fault(
                ErrorCode.STREAM_CLOSED,
                "headers: found some behind the end of their stream",
                stream_id=block.stream_id,
            )
        if not block.is_end:
            raise Fault(
                ErrorCode.PROTOCOL_ERROR,
                "trailers: expected them to end their stream",
                stream_id=block.stream_id,
            )
        check_trailers(fields or (), block.stream_id)
        self._end(stream, b"")

    def _on_data(self, flags: int, stream_id: int, payload: bytes) -> None:
        size = len(payload)
        self._window -= size
        if self._window < CONNECTION_WINDOW // 2:
            self._widen()
        stream = self._streams.get(stream_id)
        if stream is None:
            self._on_closed(stream_id)
            return
        stream.window -= size
        if stream.is_ended or stream.window < 0:
            raise data_fault(stream)
        if flags & Flag.PADDED:
            payload = frames.unpadded(payload)
            self.credit(stream_id, size - len(payload))
        if stream.length_left is not None:
            stream.length_left -= len(payload)
        if flags & Flag.END_STREAM:
            self._end(stream, payload)
        elif payload:
            self._events.append(Data(stream_id, payload, False))
        else:
            self.patience.spend(_EMPTY_COST)

    def _widen(self) -> None:
        """Data is taken as it comes: the layer above bounds what it keeps of it."""
        if self._window < 0:
            raise Fault(ErrorCode.FLOW_CONTROL_ERROR, "data: found more than the window has")
        self._out.put(frames.window_update(0, CONNECTION_WINDOW - self._window))
        self._window = CONNECTION_WINDOW

    def _end(self, stream: Stream, payload: bytes) -> None:
        stream.is_ended = True
        check_length(stream)
        self._events.append(Data(stream.out.stream_id, payload, True))

    def _on_closed(self, stream_id: int) -> None:
        """A frame of a stream that is not there."""
        if stream_id == 0 or stream_id > self._last_id:
            if self.is_closing and stream_id & 1:
                return
            raise Fault(ErrorCode.PROTOCOL_ERROR, f"frame: found stream {stream_id} not opened")
        if stream_id in self._closing:
            return  # sent before the peer knew that we ended it
        raise Fault(
            ErrorCode.STREAM_CLOSED, f"frame: found stream {stream_id} closed", stream_id=stream_id
        )

    def _on_reset(self, flags: int, stream_id: int, payload: bytes) -> None:
        if len(payload) != 4:
            raise Fault(ErrorCode.FRAME_SIZE_ERROR, "reset: expected 4 bytes")
        self.patience.spend(_RESET_COST)
        self._closing.pop(stream_id, None)
        stream = self._streams.get(stream_id)
        if stream is None:
            if stream_id == 0 or (stream_id > self._last_id and not self.is_closing):
                raise Fault(ErrorCode.PROTOCOL_ERROR, f"reset: found stream {stream_id} not opened")
            return
        stream.is_ended = True
        self._forget(stream)
        self._events.append(Reset(stream_id, WORD.unpack(payload)[0]))

    # The connection

    def _on_priority(self, flags: int, stream_id: int, payload: bytes) -> None:
        if stream_id == 0:
            raise Fault(ErrorCode.PROTOCOL_ERROR, "priority: expected a stream's")
        if len(payload) != 5:
            raise Fault(
                ErrorCode.FRAME_SIZE_ERROR, "priority: expected 5 bytes", stream_id=stream_id
            )
        self.patience.spend(_EMPTY_COST)
        frames.without_priority(payload, stream_id)

    def _on_settings(self, flags: int, stream_id: int, payload: bytes) -> None:
        if stream_id:
            raise Fault(ErrorCode.PROTOCOL_ERROR, "settings: expected the connection's")
        if len(payload) % 6 or (flags & Flag.ACK and payload):
            raise Fault(ErrorCode.FRAME_SIZE_ERROR, "settings: expected whole entries")
        self.has_settings = True
        if flags & Flag.ACK:
            self.patience.spend(_EMPTY_COST)
            return
        self.patience.spend(_SETTINGS_COST + len(payload) // 6)
        for number, value in _SETTING.iter_unpack(payload):
            self._set(number, value)
        self._out.put(frames.frame(FrameType.SETTINGS, Flag.ACK, 0))

    def _set(self, number: int, value: int) -> None:
        if number == Setting.ENABLE_PUSH and value > 1:
            raise Fault(ErrorCode.PROTOCOL_ERROR, f"push: expected 0 or 1, found {value}")
        if number == Setting.MAX_FRAME_SIZE:
            if not FRAME_SIZE_MAX <= value < 1 << 24:
                raise Fault(ErrorCode.PROTOCOL_ERROR, f"frame size: found {value}")
            self._out.frame_size_max = min(value, 1 << 16)
        if number == Setting.INITIAL_WINDOW_SIZE:
            if value > WINDOW_SIZE_MAX:
                raise Fault(ErrorCode.FLOW_CONTROL_ERROR, f"window: found {value}")
            self._set_initial_window(value)

    def _set_initial_window(self, value: int) -> None:
        change = value - self._out.initial_window
        self._out.initial_window = value
        for stream in list(self._streams.values()) if change else ():
            try:
                is_over = self._out.widen(stream.out, change)
            except Fault as fault:  # of the connection, since it was said for all
                raise Fault(fault.code, fault.message) from fault
            if is_over:
                self._finish(stream)

    def _on_push(self, flags: int, stream_id: int, payload: bytes) -> None:
        raise Fault(ErrorCode.PROTOCOL_ERROR, "push: expected none from a client")

    def _on_ping(self, flags: int, stream_id: int, payload: bytes) -> None:
        if stream_id:
            raise Fault(ErrorCode.PROTOCOL_ERROR, "ping: expected the connection's")
        if len(payload) != 8:
            raise Fault(ErrorCode.FRAME_SIZE_ERROR, "ping: expected 8 bytes")
        self.patience.spend(_EMPTY_COST)
        if not flags & Flag.ACK:
            self._out.put(frames.frame(FrameType.PING, Flag.ACK, 0, payload))

    def _on_goaway(self, flags: int, stream_id: int, payload: bytes) -> None:
        """The peer opens no more streams; it closes when it has its answers."""
        if stream_id:
            raise Fault(ErrorCode.PROTOCOL_ERROR, "goaway: expected the connection's")
        if len(payload) < 8:
            raise Fault(ErrorCode.FRAME_SIZE_ERROR, "goaway: expected at least 8 bytes")
        self.patience.spend(_EMPTY_COST)

    def _on_window(self, flags: int, stream_id: int, payload: bytes) -> None:
        if len(payload) != 4:
            raise Fault(ErrorCode.FRAME_SIZE_ERROR, "window: expected 4 bytes")
        size = WORD.unpack(payload)[0] & WINDOW_SIZE_MAX
        if not size:
            raise Fault(
                ErrorCode.PROTOCOL_ERROR, "window: expected more than 0", stream_id=stream_id
            )
        if stream_id == 0:
            for out in self._out.widen_all(size):
                self._finish(self._streams[out.stream_id])
            return
        stream = self._streams.get(stream_id)
        if stream is not None:
            if self._out.widen(stream.out, size):
                self._finish(stream)
        elif stream_id > self._last_id and not self.is_closing:
            raise Fault(ErrorCode.PROTOCOL_ERROR, f"window: found stream {stream_id} not opened")
