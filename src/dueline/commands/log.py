"""`dueline log DIR`: print the records of a store, Dueline's or RocketMQ's, without touching it."""

from __future__ import annotations

import argparse
from pathlib import Path

from dueline.errors import Unavailable

__all__ = ["configure", "run"]


def configure(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments."""
    parser.add_argument("path", type=Path, help="a store, a folder of segments, or one segment")


def run(args: argparse.Namespace) -> int:
    """Print the records."""
    raise Unavailable(f"cannot read {args.path} yet")
