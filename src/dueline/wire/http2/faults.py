"""What a peer did wrong, in the protocol's own numbers (RFC 9113, 7)."""

from __future__ import annotations

import enum
from typing import Any, Final

from dueline.errors import RemoteProtocolError

__all__ = ["ErrorCode", "Fault"]


class ErrorCode(enum.IntEnum):
    """Why a stream or a connection ends, as far as we say so."""

    NO_ERROR = 0
    PROTOCOL_ERROR = 1
    FLOW_CONTROL_ERROR = 3
    STREAM_CLOSED = 5
    FRAME_SIZE_ERROR = 6
    REFUSED_STREAM = 7
    CANCEL = 8
    COMPRESSION_ERROR = 9
    ENHANCE_YOUR_CALM = 11


class Fault(RemoteProtocolError):
    """The peer broke a rule; the connection ends, or one stream if it names one."""

    def __init__(self, code: ErrorCode, message: str, *, stream_id: int = 0) -> None:
        super().__init__(message)
        self.code: Final = code
        self.stream_id: Final = stream_id

    def __reduce__(self) -> tuple[Any, ...]:
        return _rebuilt, (self.code, self.message, self.stream_id)


def _rebuilt(code: ErrorCode, message: str, stream_id: int) -> Fault:
    return Fault(code, message, stream_id=stream_id)
