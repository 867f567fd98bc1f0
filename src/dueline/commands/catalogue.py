"""Which commands there are.

A command is a module of `dueline.commands` with two functions: `configure(parser)` declares its
arguments, `run(args)` does the work and returns the exit code. A new command is a new module and a
line in `COMMANDS`.
"""

from __future__ import annotations

import argparse
import importlib
from typing import Final, Protocol, cast

__all__ = ["COMMANDS", "command", "parser_of"]

COMMANDS: Final = {
    "serve": "run a broker, and the Spark pipeline beside it",
    "restart": "replace the processes of a running `serve` by new ones, without a stop",
    "web": "serve pages, an HTTP API, health and metrics of a broker",
    "deliver": "run the Spark pipeline by itself, for brokers elsewhere",
    "cluster": "run a master or a worker of a Spark standalone cluster",
    "demo": "watch delayed messages arrive: everything in a temporary folder, two minutes at most",
    "send": "send a message, now or for later",
    "tail": "print messages as they become visible, and how late each came",
    "pending": "show what waits, by due time, or the state of one message",
    "messages": "browse the messages of a topic with their bodies, delivered or pending",
    "sql": "ask Spark about what waits, what was delivered, and every outcome",
    "cancel": "take delayed messages back before they are due",
    "reschedule": "let delayed messages be due at another time",
    "topics": "list topics with what they hold; create, delete, pause or slow one",
    "groups": "list consumer groups with their lag and clients; let one read again",
    "dead-letters": "list what a group could not handle, and send it again",
    "user": "list users; add, change and delete them, turn their secrets over",
    "grant": "list what users may do; allow and forbid it",
    "audit": "show who was refused what, and who has changed what",
    "stats": "show how the broker is doing",
    "top": "watch what waits, falls due and comes late, as it happens",
    "config": "print every setting, its value and where that comes from",
    "check": "read a whole store and say what is damaged, missing or inconsistent",
    "backup": "copy a broker's data, running or stopped; only what is new is copied",
    "restore": "make a broker's data folder again from a backup, and check it",
    "log": "print the records of a store, Dueline's or RocketMQ's",
    "import": "take over the store of an Apache RocketMQ broker",
    "completion": "print what makes a shell complete commands and flags",
}
_MODULES: Final = {"import": "importing", "dead-letters": "dead_letters"}
"""Commands whose name is no name of a module."""


class CommandModule(Protocol):
    """What a module of `dueline.commands` has to offer."""

    def configure(self, parser: argparse.ArgumentParser) -> None: ...

    def run(self, args: argparse.Namespace) -> int: ...


def command(name: str) -> CommandModule:
    """The module of a command; imported only now."""
    return cast(
        CommandModule, importlib.import_module(f"dueline.commands.{_MODULES.get(name, name)}")
    )


def parser_of(name: str) -> argparse.ArgumentParser:
    """The arguments of one command, as `dueline NAME --help` shows them."""
    parser = argparse.ArgumentParser(prog=f"dueline {name}", description=COMMANDS[name])
    command(name).configure(parser)
    return parser
