"""`dueline deliver`: run the pipeline by itself, for brokers elsewhere."""

from __future__ import annotations

import argparse
import os
import sys
from pathlib import Path

from dueline.commands.examples import show_examples
from dueline.commands.settings import add_settings_arguments, load_settings
from dueline.commands.terminal import say_json
from dueline.errors import InvalidRequest
from dueline.server.driver import check_driver, driver_arguments, driver_environment
from dueline.settings import parse_address

__all__ = ["configure", "run"]


def configure(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments."""
    parser.add_argument(
        "--broker",
        required=True,
        metavar="HOST:PORT,…",
        help="Flight addresses of the brokers, one for each shard",
    )
    add_settings_arguments(parser, ("--master", "--transform", "--checkpoint", "--ahead"))
    parser.add_argument(
        "--json", action="store_true", help="first a JSON object with the process and its brokers"
    )
    show_examples(
        parser,
        """
        dueline deliver --broker 10.0.0.5:8815 --master spark://10.0.0.9:7077
        dueline deliver --broker 10.0.0.5:8815,10.0.0.6:8815 --transform orders:unpaid_only

        The brokers then run with `dueline serve --no-spark`.
        """,
    )


def run(args: argparse.Namespace) -> int:
    """Deliver until interrupted; 1 if the pipeline gave up, 2 if it cannot work as it is set up."""
    brokers = [address.strip() for address in args.broker.split(",") if address.strip()]
    if not brokers:
        raise InvalidRequest(f"--broker: expected host:port, found {args.broker!r}")
    for address in brokers:
        parse_address(address)
    settings = load_settings(args).config.delivery
    check_driver(settings)
    sys.path.insert(0, str(Path.cwd()))  # where people keep their transform; `python -m` does so
    os.environ.update(driver_environment(settings, os.environ))

    if args.json:
        say_json({"pid": os.getpid(), "brokers": brokers, "master": settings.master})

    from dueline.spark import delivery  # Spark is loaded only by those who run it

    return delivery.main(driver_arguments(settings, brokers))
