"""What a connection tells the layer above, and what it lets a peer do."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

from dueline.wire.http2.header_block import Headers

__all__ = ["Data", "Event", "Limits", "Request", "Reset"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """What a peer may do."""

    stream_count_max: int = 100
    header_list_size_max: int = 16 << 10
    header_block_size_max: int = 32 << 10


class Request(NamedTuple):
    """A stream has begun."""

    stream_id: int
    headers: Headers | None
    """None: larger than they may be."""
    is_end: bool


class Data(NamedTuple):
    """A part of a request's body; possibly empty at its end."""

    stream_id: int
    data: bytes
    is_end: bool


class Reset(NamedTuple):
    """The peer gave a stream up, or broke a rule on it; nothing can be sent on it any more."""

    stream_id: int
    code: int


Event = Request | Data | Reset
