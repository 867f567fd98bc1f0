"""`dueline web`: pages, an HTTP API, health and metrics of a broker, in a process of its own."""

from __future__ import annotations

import argparse
import logging
import os
import sys

from dueline.commands.connection import add_broker_argument, broker_address
from dueline.commands.examples import show_examples
from dueline.commands.settings import add_settings_arguments, load_settings
from dueline.commands.terminal import add_json_argument, say, say_json
from dueline.credentials import TOKEN, TOKEN_FILE, Credentials
from dueline.errors import BrokerError, InvalidRequest

__all__ = ["configure", "run"]

log = logging.getLogger(__name__)


def configure(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments."""
    add_broker_argument(parser)
    add_settings_arguments(parser, ("--http",))
    parser.add_argument(
        "--tethered", action="store_true", help="stop when standard input is closed"
    )
    add_json_argument(parser)
    show_examples(
        parser,
        """
        dueline web
        dueline web --broker 10.0.0.5:8815 --http 127.0.0.1:8090
        """,
    )


def run(args: argparse.Namespace) -> int:
    """Serve until SIGTERM or Ctrl-C."""
    os.environ.setdefault("GRPC_VERBOSITY", "NONE")  # errors are told by us
    config = load_settings(args).config
    if config.listen.http is None:
        raise InvalidRequest("listen.http: expected an address, found off in the settings")
    broker = broker_address(args)

    from dueline.server.encryption import tls_of_web
    from dueline.web.server import Listening, WebOptions, serve  # loads Arrow

    def tell(listening: Listening) -> None:
        text = f"pages, API and metrics on {listening.url}"
        if args.json:  # `type` and `text` are for `dueline serve`, whose child this may be
            found = {"pid": os.getpid(), "url": listening.url, "broker": broker}
            say_json({"type": "ready", "text": text, **found})
        else:
            say(f"{text}, of the broker at {broker}")
        sys.stdout.flush()

    logging.basicConfig(format="%(asctime)s %(levelname)s %(name)s: %(message)s")
    # Who calls says who asks: nobody acts with the rights of the one who started this process.
    own = Credentials.from_environment(os.environ)
    for name in (TOKEN, TOKEN_FILE):
        os.environ.pop(name, None)
    try:
        options = WebOptions(
            listen=config.listen.http,
            broker=broker,
            has_users=config.access.enabled,
            own=own,
            tls=tls_of_web(config),
        )
        serve(options, on_listening=tell, tether=sys.stdin if args.tethered else None)
    except BrokerError as error:
        if args.tethered:  # the parent tells the last error of the log
            log.error("%s", error)  # noqa: TRY400 - it says everything
        raise
    return 0
