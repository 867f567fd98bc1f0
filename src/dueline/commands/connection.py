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
from dueline.tls import CA

if TYPE_CHECKING:
    from dueline.flight.operators import OperatorClient

__all__ = [
    "add_broker_address_argument",
    "add_broker_argument",
    "add_name_server_argument",
    "broker_address",
    "connect",
    "name_server",
]

_BROKER: Final = "DUELINE_BROKER"
_NAME_SERVER: Final = "DUELINE_NAME_SERVER"
_LOOPBACK: Final = {"0.0.0.0": "127.0.0.1", "::": "::1"}


def add_broker_argument(parser: argparse.ArgumentParser) -> None:
    add_broker_address_argument(parser)
    _add_ca_argument(parser)


def add_broker_address_argument(parser: argparse.ArgumentParser) -> None:
    """For a command that says otherwise whom to believe."""
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
    _add_ca_argument(parser)


def _add_ca_argument(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--ca",
        metavar="FILE",
        help="encrypt, and believe the authorities in this PEM file, or `system` "
        f"(default: ${CA}; without an address also what the settings say)",
    )


def connect(args: argparse.Namespace) -> OperatorClient:
    """A Flight client of the broker that the arguments name; nothing is sent yet."""
    from dueline.flight.operators import (
        OperatorClient,  # loads Arrow, which `send` need not wait for
    )

    return OperatorClient(broker_address(args))


def broker_address(args: argparse.Namespace) -> str:
    """The Flight address that the arguments name."""
    address = args.broker or os.environ.get(_BROKER)
    if address is None:
        settings = _settings()
        address = _callable(settings.listen.flight)
        _encrypt(args, settings)
    else:
        _encrypt(args)
    parse_address(address)
    return str(address)


def name_server(args: argparse.Namespace) -> str:
    """The name server that the arguments name.

    Raises:
        Unavailable: the settings turn RocketMQ's protocol off.
    """
    named = args.name_server or os.environ.get(_NAME_SERVER)
    if named:
        _encrypt(args)
        for address in named.split(";"):
            parse_address(address.strip())
        return str(named)
    settings = _settings()
    _encrypt(args, settings)
    listen = settings.listen
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


def _encrypt(args: argparse.Namespace, settings: Config | None = None) -> None:
    """Tell the clients of this process whom to believe, where they look for it.

    Args:
        settings: those of the broker that is called, if it is the one that they describe.
    """
    if args.ca:
        os.environ[CA] = args.ca
    elif settings is not None and not os.environ.get(CA):
        os.environ.update(settings.client_environment())


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
