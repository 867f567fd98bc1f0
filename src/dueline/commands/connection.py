"""Which broker a command talks to."""

from __future__ import annotations

import argparse
import os
from typing import Final

from dueline.flight.control import ControlClient
from dueline.settings import parse_address

__all__ = ["add_broker_argument", "connect"]

_VARIABLE: Final = "DUELINE_BROKER"
_DEFAULT: Final = "127.0.0.1:8815"


def add_broker_argument(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--broker",
        metavar="HOST:PORT",
        help=f"the broker's Flight address (default: ${_VARIABLE}, else {_DEFAULT})",
    )


def connect(args: argparse.Namespace) -> ControlClient:
    """A client of the broker that the arguments name; nothing is sent yet."""
    address = args.broker or os.environ.get(_VARIABLE) or _DEFAULT
    parse_address(address)
    return ControlClient(address)
