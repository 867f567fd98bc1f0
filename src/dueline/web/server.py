"""The process: one event loop, one port, until a signal or the end of its standard input."""

from __future__ import annotations

import asyncio
import os
import socket
from collections.abc import Callable
from dataclasses import dataclass
from typing import IO, Final

import uvicorn

from dueline.credentials import Credentials
from dueline.errors import InvalidRequest, Unavailable
from dueline.server.tls import Tls
from dueline.settings import parse_address
from dueline.web.app import make_app
from dueline.web.gateway import Gateway
from dueline.web.listener import CONNECTION_COUNT_MAX, Listener
from dueline.web.security import is_loopback

__all__ = ["Listening", "WebOptions", "serve"]

BACKLOG: Final = 512
STOP_S_MAX: Final = 3


@dataclass(frozen=True, slots=True, kw_only=True)
class WebOptions:
    """Where to listen, and whom to ask."""

    listen: str
    broker: str
    has_users: bool = False
    """Access control is on, so others than this machine may call."""
    own: Credentials | None = None
    """Who asks whether the broker is ready."""
    tls: Tls | None = None
    """None: plain text only."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Listening:
    """Where it really is: a configured port of 0 takes a free one."""

    url: str


def serve(
    options: WebOptions,
    *,
    on_listening: Callable[[Listening], None],
    tether: IO[str] | None = None,
) -> None:
    """Serve until SIGTERM, SIGINT or the end of `tether`.

    Raises:
        InvalidRequest: an address that others could call.
        Unavailable: the port is taken.
    """
    host, _ = parse_address(options.listen)
    if not is_loopback(host) and not options.has_users:
        raise InvalidRequest(
            f"listen.http: expected an address of loopback, such as 127.0.0.1:8080, found "
            f"{options.listen}: without access control everybody could cancel messages",
            field="listen.http",
        )
    listener = _bound(options.listen)
    gateway = Gateway(options.broker, own=options.own)
    app = make_app(gateway, hosts=None if options.has_users else ())
    config = uvicorn.Config(
        app,
        log_level="warning",
        access_log=False,
        server_header=False,
        date_header=True,
        limit_concurrency=CONNECTION_COUNT_MAX,
        timeout_graceful_shutdown=STOP_S_MAX,
        lifespan="on",
        ws="none",
    )
    listener.listen(BACKLOG)
    server = Listener(config, options.tls)
    scheme = "https" if server.entrance.mode == "enforcing" else "http"
    on_listening(Listening(url=_url(scheme, host, listener.getsockname()[1])))
    asyncio.run(_run(server, listener, tether))


def _url(scheme: str, host: str, port: int) -> str:
    return f"{scheme}://[{host}]:{port}/" if ":" in host else f"{scheme}://{host}:{port}/"


async def _run(server: uvicorn.Server, listener: socket.socket, tether: IO[str] | None) -> None:
    if tether is not None:
        asyncio.get_running_loop().add_reader(tether, _on_tether, server, tether)
    await server.serve(sockets=[listener])


def _on_tether(server: uvicorn.Server, tether: IO[str]) -> None:
    """The other end was closed, as it is when our parent has died."""
    if not os.read(tether.fileno(), 4096):
        asyncio.get_running_loop().remove_reader(tether)
        server.should_exit = True


def _bound(address: str) -> socket.socket:
    host, port = parse_address(address)
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    listener = socket.socket(family, socket.SOCK_STREAM)
    listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        listener.bind((host, port))
    except OSError as error:
        listener.close()
        raise Unavailable(
            f"listen.http: expected to listen on {address}, found: {error.strerror}; is the port "
            "taken by another process?",
            address=address,
        ) from error
    return listener
