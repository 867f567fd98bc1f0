"""The one way codecs are tested: bytes to value and value to bytes."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import TypeVar

from dueline.wire import Command, FrameDecoder

T = TypeVar("T")


def assert_codec(
    data: bytes, value: T, *, decode: Callable[[bytes], T], encode: Callable[[T], bytes]
) -> None:
    """`data` says `value`, and `value` is written as `data`."""
    assert decode(data) == value
    assert encode(value) == data


def decode_command(data: bytes) -> Command:
    """The one command in these bytes."""
    (frame,) = FrameDecoder().feed(data)
    return Command.decode(frame)


def split_frame(data: bytes) -> tuple[int, bytes, bytes]:
    """Serialization, header and body of one frame, by hand."""
    assert int.from_bytes(data[:4], "big") == len(data) - 4
    header_end = 8 + int.from_bytes(data[5:8], "big")
    return data[4], data[8:header_end], data[header_end:]


def json_header(data: bytes) -> dict[str, object]:
    """The fields in a JSON frame's header, by the standard library."""
    serialization, header, _ = split_frame(data)
    assert serialization == 0
    fields = json.loads(header)
    assert isinstance(fields, dict)
    return fields
