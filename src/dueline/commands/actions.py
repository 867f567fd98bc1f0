"""What a command can do beside listing: `dueline topics create …`.

Flags that all of them have may stand before the action or behind it.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable
from typing import Final

from dueline.commands.examples import show_examples

__all__ = ["Actions"]


class Actions:
    """The actions of a command; `args.action` says which, or None."""

    def __init__(
        self, parser: argparse.ArgumentParser, *shared: Callable[[argparse.ArgumentParser], None]
    ) -> None:
        """Declare the flags that all actions share."""
        for declare in shared:
            declare(parser)
        self._shared: Final = shared
        self._parsers = parser.add_subparsers(dest="action", metavar="ACTION", title="actions")

    def add(self, name: str, summary: str, examples: str) -> argparse.ArgumentParser:
        """An action; its own arguments are declared with what this returns."""
        parser = self._parsers.add_parser(
            name,
            help=summary,
            description=summary,
            # What is not said behind the action must not undo what was said before it.
            argument_default=argparse.SUPPRESS,
        )
        for declare in self._shared:
            declare(parser)
        show_examples(parser, examples)
        return parser
