"""Frames as bytes, read by another's library."""

from __future__ import annotations

from typing import Any

import pytest
from hyperframe.frame import Frame

from dueline.wire.http2 import frames
from dueline.wire.http2.faults import Fault
from dueline.wire.http2.frames import Setting


def parsed(data: bytes) -> list[Any]:
    found, view = list[Any](), memoryview(data)
    while view:
        frame, size = Frame.parse_frame_header(view[:9], strict=True)
        frame.parse_body(view[9 : 9 + size])
        found.append(frame)
        view = view[9 + size :]
    return found


def test_frames_say_what_they_mean() -> None:
    (settings,) = parsed(frames.settings([(Setting.MAX_CONCURRENT_STREAMS, 7)]))
    assert settings.settings == {3: 7}
    (reset,) = parsed(frames.reset(5, 8))
    assert (reset.stream_id, reset.error_code) == (5, 8)
    (window,) = parsed(frames.window_update(0, 1 << 20))
    assert (window.stream_id, window.window_increment) == (0, 1 << 20)
    (goaway,) = parsed(frames.goaway(9, 11, "calm"))
    assert (goaway.last_stream_id, goaway.error_code, goaway.additional_data) == (9, 11, b"calm")


def test_long_headers_take_several_frames() -> None:
    block = bytes(range(256)) * 3
    found = parsed(frames.headers(3, block, is_end=True, size_max=300))

    assert [type(each).__name__ for each in found] == [
        "HeadersFrame",
        "ContinuationFrame",
        "ContinuationFrame",
    ]
    assert b"".join(each.data for each in found) == block
    assert [sorted(each.flags) for each in found] == [["END_STREAM"], [], ["END_HEADERS"]]
    (short,) = parsed(frames.headers(3, b"abc", is_end=False, size_max=300))
    assert sorted(short.flags) == ["END_HEADERS"]


def test_padding_and_priorities_are_taken_off() -> None:
    assert frames.unpadded(b"\x02abc\0\0") == b"abc"
    assert frames.unpadded(b"\x00") == b""
    assert frames.without_priority(b"\0\0\0\x05\x10rest", 3) == b"rest"
    for bad in (b"", b"\x01", b"\xffabc"):
        with pytest.raises(Fault):
            frames.unpadded(bad)
    for bad in (b"\0\0\0\x05", b"\x80\0\0\x03\x10"):
        with pytest.raises(Fault):
            frames.without_priority(bad, 3)
