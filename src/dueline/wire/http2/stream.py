"""One stream as its connection sees it, and what may be wrong with its body."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from dueline.wire.http2.faults import ErrorCode, Fault
from dueline.wire.http2.outgoing import OutStream

__all__ = ["STREAM_WINDOW", "Stream", "check_length", "data_fault"]

STREAM_WINDOW: Final = 1 << 20


@dataclass(slots=True, eq=False)
class Stream:
    """A request and its answer."""

    out: OutStream
    window: int = STREAM_WINDOW
    is_ended: bool = False
    """The peer has sent all."""
    length_left: int | None = None
    """Of the announced content-length."""


def data_fault(stream: Stream) -> Fault:
    """What is wrong with data behind the end, or beyond the window."""
    stream_id = stream.out.stream_id
    if stream.is_ended:
        text = "data: found some behind the end of their stream"
        return Fault(ErrorCode.STREAM_CLOSED, text, stream_id=stream_id)
    text = "data: found more than the window has"
    return Fault(ErrorCode.FLOW_CONTROL_ERROR, text, stream_id=stream_id)


def check_length(stream: Stream) -> None:
    """At the end of a body.

    Raises:
        Fault: it is not as long as it was said to be.
    """
    if stream.length_left:
        raise Fault(
            ErrorCode.PROTOCOL_ERROR,
            "request: expected as many bytes as content-length says",
            stream_id=stream.out.stream_id,
        )
