"""The remoting protocol of RocketMQ 4.x as pure codecs: bytes in, commands out, and back.

    bytes ──▶ frame.FrameDecoder ──▶ command.Command ──▶ headers.*, bodies.*, batch ──▶ your code
              └────── connection.Connection ───────┘

`Connection` is both ends of a connection: it pairs answers with requests and bounds what waits.
Nothing here knows sockets, time or the store. `docs/protocol/remoting.md` draws the bytes.
"""

from __future__ import annotations

from dueline.wire.codes import Language, RequestCode, ResponseCode, Serialization
from dueline.wire.command import Command
from dueline.wire.connection import Answered, Connection
from dueline.wire.frame import FRAME_SIZE_BYTES_MAX, Frame, FrameDecoder

__all__ = [
    "FRAME_SIZE_BYTES_MAX",
    "Answered",
    "Command",
    "Connection",
    "Frame",
    "FrameDecoder",
    "Language",
    "RequestCode",
    "ResponseCode",
    "Serialization",
]
