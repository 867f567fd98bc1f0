"""The command `dueline`: a thin dispatcher over `dueline.commands`.

    dueline COMMAND [OPTIONS]

A command is a module of `dueline.commands` with two functions: `configure(parser)` declares its
arguments, `run(args)` does the work and returns the exit code. A new command is a new module and a
line in `COMMANDS`. Only the module of the command that was asked for is imported, so that printing
a log does not start by loading Spark.

Exit codes: 0 done, 1 done and something is wrong (each command says what), 2 cannot be done, with
one line on the error output that says why, 130 interrupted.
"""

from __future__ import annotations

import argparse
import importlib
import sys
from collections.abc import Sequence
from typing import Final, Protocol, cast

from dueline import __version__
from dueline.commands.terminal import drop_output, say
from dueline.errors import BrokerError

__all__ = ["COMMANDS", "main"]

COMMANDS: Final = {
    "serve": "run a broker, and the Spark pipeline beside it",
    "deliver": "run the Spark pipeline by itself, for brokers elsewhere",
    "cluster": "run a master or a worker of a Spark standalone cluster",
    "demo": "watch delayed messages arrive: everything in a temporary folder, two minutes at most",
    "send": "send a message, now or for later",
    "tail": "print messages as they become visible, and how late each came",
    "pending": "show what waits, by due time, or what became of one message",
    "cancel": "take delayed messages back before they are due",
    "reschedule": "let delayed messages be due at another time",
    "stats": "show how the broker is doing",
    "config": "print every setting, its value and where that comes from",
    "check": "read a whole store and say what is damaged, missing or inconsistent",
    "backup": "copy a broker's data, running or stopped; only what is new is copied",
    "restore": "make a broker's data folder again from a backup, and check it",
    "log": "print the records of a store, Dueline's or RocketMQ's",
    "import": "take over the store of an Apache RocketMQ broker",
}
_MODULES: Final = {"import": "importing"}
"""Commands whose name is no name of a module."""


class CommandModule(Protocol):
    """What a module of `dueline.commands` has to offer."""

    def configure(self, parser: argparse.ArgumentParser) -> None: ...

    def run(self, args: argparse.Namespace) -> int: ...


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
    for name, summary in COMMANDS.items():
        command_parser = commands.add_parser(name, help=summary, description=summary)
        if name == chosen:
            _command(name).configure(command_parser)
    return parser.parse_args(words)


def _command(name: str) -> CommandModule:
    return cast(
        CommandModule, importlib.import_module(f"dueline.commands.{_MODULES.get(name, name)}")
    )
