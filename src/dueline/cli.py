"""The command `dueline`: a thin dispatcher over `dueline.commands`.

    dueline COMMAND [OPTIONS]

`dueline.commands.catalogue` lists the commands. Only the module of the command that was asked for
is imported, so that printing a log does not start by loading Spark.

Exit codes: 0 done, 1 done and something is wrong (each command says what), 2 cannot be done, with
one line on the error output that says why, 130 interrupted.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from typing import NoReturn

from dueline import __version__
from dueline.commands.catalogue import COMMANDS
from dueline.commands.catalogue import command as _command
from dueline.commands.suggestions import did_you_mean, flags_of
from dueline.commands.terminal import drop_output, plain, say
from dueline.errors import BrokerError

__all__ = ["main"]


def main(argv: Sequence[str] | None = None) -> int:
    """Run one command; returns the exit code."""
    words = list(sys.argv[1:] if argv is None else argv)
    try:
        return _run(_parse(words))
    except BrokenPipeError:  # the reader (`| head`) has seen enough
        drop_output()
        return 0
    except KeyboardInterrupt:
        return 130


def _run(args: argparse.Namespace) -> int:
    try:
        code = _command(args.command).run(args)
    except BrokerError as error:
        say(*f"dueline {args.command}: {error}".split("\n"), file=sys.stderr)
        return 2
    sys.stdout.flush()  # here, where a closed pipe is expected
    return code


def _parse(words: list[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="dueline", description="A delayed-message broker: send now, receive when it is due."
    )
    parser.add_argument("--version", action="version", version=f"dueline {__version__}")
    commands = parser.add_subparsers(dest="command", metavar="COMMAND", required=True)
    chosen = next((word for word in words if not word.startswith("-")), None)
    parsers = {
        name: commands.add_parser(name, help=summary, description=summary)
        for name, summary in COMMANDS.items()
    }
    if chosen is not None and chosen not in COMMANDS:
        hint = did_you_mean(chosen, COMMANDS) or "; `dueline --help` lists them"
        parser.error(f"expected a command, found {plain(chosen)!r}{hint}")
    if chosen is not None:
        _command(chosen).configure(parsers[chosen])
    args, unknown = parser.parse_known_args(words)
    if unknown:
        _refuse(parsers[args.command], unknown)
    return args


def _refuse(parser: argparse.ArgumentParser, unknown: Sequence[str]) -> NoReturn:
    flag = next((word for word in unknown if word.startswith("--")), "")
    hint = did_you_mean(flag.partition("=")[0], flags_of(parser))
    parser.error(f"unrecognized arguments: {' '.join(map(plain, unknown))}{hint}")
