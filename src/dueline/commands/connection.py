"""Which broker a command talks to, and by which of its ports.

`send` and `tail` are clients like others, and `topics`, `groups` and `dead-letters` ask all
brokers: they use `dueline.client` and begin with the name server. The commands that look into one
broker (`pending`, `messages`, `cancel`, `reschedule`, `stats`, `backup`) use its Flight port. Where
no flag and no variable says otherwise, the address is the one that `dueline serve` would listen on
with the same settings.
"""

from __future__ import annotations

import argparse
import os
from pathlib import Path
from typing import TYPE_CHECKING, Final

from dueline.config import Config, load
from dueline.errors import InvalidRequest, Unavailable
from dueline.settings import parse_address

if TYPE_CHECKING:
    from dueline.flight.operators import OperatorClient

__all__ = ["add_broker_argument", "add_name_server_argument", "connect", "name_server"]

_BROKER: Final = "DUELINE_BROKER"
_NAME_SERVER: Final = "DUELINE_NAME_SERVER"
_LOOPBACK: Final = {"0.0.0.0": "127.0.0.1", "::": "::1"}


def add_broker_argument(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--broker",
        metavar="HOST:PORT",
        help=f"the broker's Flight address (default: ${_BROKER}, else the setting listen.flight)",
    )


def add_name_server_argument(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--name-server",
        metavar="HOST:PORT",
        help="the name server, Dueline's or RocketMQ's; several with ; between them "
        f"(default: ${_NAME_SERVER}, else the setting listen.name_server)",
    )


def connect(args: argparse.Namespace) -> OperatorClient:
    """A Flight client of the broker that the arguments name; nothing is sent yet."""
    from dueline.flight.operators import (
        OperatorClient,  # loads Arrow, which `send` need not wait for
    )

    address = args.broker or os.environ.get(_BROKER)
    if address is None:
        address = _callable(_settings().listen.flight)
    parse_address(address)
    return OperatorClient(address)


def name_server(args: argparse.Namespace) -> str:
    """The name server that the arguments name.

    Raises:
        Unavailable: the settings turn RocketMQ's protocol off.
    """
    named = args.name_server or os.environ.get(_NAME_SERVER)
    if named:
        for address in named.split(";"):
            parse_address(address.strip())
        return str(named)
    listen = _settings().listen
    for name, address in (
        ("listen.name_server", listen.name_server),
        ("listen.remoting", listen.remoting),
    ):
        if address is None:
            raise Unavailable(
                f"{name}: expected an address, found off in the settings; `dueline "
                f"{args.command}` speaks RocketMQ's 4.x protocol: turn it on for the broker, or "
                "name another one with --name-server"
            )
    assert listen.name_server is not None
    return _callable(listen.name_server)


def _settings() -> Config:
    file = os.environ.get("DUELINE_CONFIG")
    return load(file=Path(file) if file else None, environ=os.environ).config


def _callable(address: str) -> str:
    """Where to call what is listened on: an address that means "all" is none to call."""
    host, port = parse_address(address)
    if port == 0:
        raise InvalidRequest(
            f"address: expected a port in the settings, found {address}, which takes any free one; "
            "`dueline serve` prints which: name it on the command line"
        )
    host = _LOOPBACK.get(host, host)
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"
