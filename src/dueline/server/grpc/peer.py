"""The other end of a connection: where it is, and what it has shown about itself."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from dueline.errors import BrokerError
from dueline.message import HOST_UNKNOWN, pack_host
from dueline.server.connections import peer_of
from dueline.server.shares import Share, Shares

__all__ = ["Peer"]


@dataclass(eq=False)
class Peer:
    """One connection's; asked for every call, so what costs time is found once."""

    host: str
    port: int
    certificate: dict[str, Any] | None = None
    """What a client has shown, if it was asked to; as `ssl` says it."""

    @cached_property
    def packed(self) -> bytes:
        """As a record has it."""
        try:
            return pack_host(self.host, self.port)
        except BrokerError:
            return HOST_UNKNOWN

    @cached_property
    def key(self) -> str:
        """Who counts as one, when something is shared out."""
        return peer_of(self.host)

    def take(self, shares: Shares, give_up: Callable[[], None] | None = None) -> Share:
        """A share for this connection; see `Shares.take`."""
        return shares.take(self.key, self, give_up)
