"""The ports, bound before anything else: an id of a message has the broker's address in it.

So the store must know the port when it opens, also if a free one was asked for (port 0), and a
taken port is noticed before the store is touched.
"""

from __future__ import annotations

import contextlib
import ipaddress
import socket
from dataclasses import dataclass
from typing import Final

from dueline.errors import Unavailable

__all__ = ["Listener", "primary_address"]

ANY_ADDRESSES: Final = ("0.0.0.0", "::", "")
# An address that no network has; nothing is sent to it.
_NOWHERE: Final = ("192.0.2.1", 9)


@dataclass(frozen=True, slots=True, kw_only=True)
class Listener:
    """A bound socket; `host` is what was asked for, `port` what was got."""

    socket: socket.socket
    host: str
    port: int

    @classmethod
    def bind(cls, name: str, host: str, port: int) -> Listener:
        """Take a port.

        Raises:
            Unavailable: it is taken, or the host is not one of this machine's.
        """
        try:
            family = socket.getaddrinfo(host or None, port, type=socket.SOCK_STREAM)[0][0]
            made = socket.create_server((host, port), family=family, backlog=1024)
        except OSError as error:
            raise Unavailable(
                f"{name}: expected to listen on {host}:{port}, found: {error.strerror or error}; "
                "is the port taken by another broker?",
                address=f"{host}:{port}",
            ) from error
        return cls(socket=made, host=host, port=int(made.getsockname()[1]))

    def close(self) -> None:
        self.socket.close()


def primary_address(host: str) -> str:
    """An address that others can call: the host itself, or for "everywhere" this machine's own."""
    if host not in ANY_ADDRESSES:
        with contextlib.suppress(ValueError):
            return str(ipaddress.ip_address(host))
        with contextlib.suppress(OSError):
            return str(socket.getaddrinfo(host, None, type=socket.SOCK_STREAM)[0][4][0])
        return "127.0.0.1"
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
        try:
            probe.connect(_NOWHERE)
            return str(probe.getsockname()[0])
        except OSError:
            return "127.0.0.1"
