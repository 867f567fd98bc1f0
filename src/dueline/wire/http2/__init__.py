"""HTTP/2 as gRPC needs it, the server's end, without sockets: bytes in, events out, and back.

    bytes ──▶ connection.ServerConnection ──▶ events.Request, Data, Reset ──▶ your code
    bytes ◀──         outgoing.Outgoing   ◀── headers, data, trailers    ◀──┘

    frames.py         frames as bytes                  blocks.py     header blocks from their frames
    header_block.py   header blocks: bytes to fields   request.py    are the fields a request?
    header_table.py, huffman.py                        patience.py   floods of what costs nothing

No push, no priorities, no upgrade from HTTP/1.1. Nothing here knows sockets or time.
"""

from __future__ import annotations

from dueline.wire.http2.connection import ServerConnection
from dueline.wire.http2.events import Data, Event, Limits, Request, Reset
from dueline.wire.http2.faults import ErrorCode, Fault
from dueline.wire.http2.header_block import Headers, literal

__all__ = [
    "Data",
    "ErrorCode",
    "Event",
    "Fault",
    "Headers",
    "Limits",
    "Request",
    "Reset",
    "ServerConnection",
    "literal",
]
