"""What the commands print: text of strangers that cannot move a cursor or forge a line.

A key or a body is whatever its producer chose. Printed as it is, an escape sequence in it could
clear the screen, change the window's title or retype a command, and a line break could pretend to
be another message. So everything goes through `say`, which shows what is not printable as an
escape; and JSON through `to_json`, in which it stays the same value.

    >>> plain("red \\x1b[31m")
    'red \\\\x1b[31m'
"""

from __future__ import annotations

import argparse
import json
import os
import sys
import unicodedata
from collections.abc import Sequence
from typing import IO, Any, Self

__all__ = [
    "Screen",
    "add_json_argument",
    "clear_status",
    "drop_output",
    "plain",
    "say",
    "say_heading",
    "say_json",
    "show_status",
    "to_json",
]

_TO_LINE_START = "\r\x1b[K"
_OWN_SCREEN, _OLD_SCREEN = "\x1b[?1049h\x1b[?25l", "\x1b[?25h\x1b[?1049l"
_TO_TOP, _TO_LINE_END, _TO_SCREEN_END = "\x1b[H", "\x1b[K", "\x1b[J"
_BOLD, _NORMAL = "\x1b[1m", "\x1b[0m"


def plain(text: str) -> str:
    """One line that is safe to print: unprintable characters, line breaks too, as escapes."""
    if text.isprintable():
        return text
    return "".join(map(_plain_character, text))


def _plain_character(character: str) -> str:
    if _is_harmless(character):
        return character
    return character.encode("unicode_escape", "surrogatepass").decode("ascii")


def _is_harmless(character: str) -> bool:
    """Printable, or one of the wide and narrow spaces that many scripts have."""
    return character.isprintable() or unicodedata.category(character) == "Zs"


def say(*lines: str, file: IO[str] | None = None) -> None:
    """Print lines; whatever stands in one of them, it stays one line."""
    print("\n".join(map(plain, lines)), file=file or sys.stdout, flush=True)


def say_heading(text: str) -> None:
    """Print a line, bold on a terminal; `NO_COLOR` turns that off."""
    if sys.stdout.isatty() and not os.environ.get("NO_COLOR"):
        print(f"{_BOLD}{plain(text)}{_NORMAL}", flush=True)
    else:
        say(text)


def drop_output() -> None:
    """Nobody reads what we print (`| head`): print into nothing from now on.

    The interpreter must not fail on its last flush either.
    """
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def show_status(text: str, file: IO[str] | None = None) -> None:
    """Write over the last line of a terminal, without a line break."""
    print(f"{_TO_LINE_START}{plain(text)}", end="", file=file or sys.stdout, flush=True)


def clear_status(file: IO[str] | None = None) -> None:
    """Empty the last line of a terminal."""
    show_status("", file)


class Screen:
    """A terminal's screen for one command, that is as it was before when the command ends."""

    def __init__(self, *, is_on: bool) -> None:
        self.is_on = is_on

    def __enter__(self) -> Self:
        if self.is_on:
            print(_OWN_SCREEN, end="", flush=True)
        return self

    def __exit__(self, *_: object) -> None:
        if self.is_on:
            print(_OLD_SCREEN, end="", flush=True)

    def show(self, lines: Sequence[str]) -> None:
        """Let these lines be all that there is; no wider and no more than it has room for."""
        shown = "\n".join(f"{plain(line)}{_TO_LINE_END}" for line in lines)
        print(f"{_TO_TOP}{shown}{_TO_SCREEN_END}", end="", flush=True)


def add_json_argument(parser: argparse.ArgumentParser) -> None:
    """`--json`, for commands that print a JSON object per line."""
    parser.add_argument(
        "--json", action="store_true", help="one JSON object per line; times in ms since 1970"
    )


def add_limit_argument(parser: argparse.ArgumentParser, default: int, text: str) -> None:
    """`--limit N`, for commands that list."""
    parser.add_argument(
        "--limit", type=int, default=default, metavar="N", help=f"{text} (default: %(default)s)"
    )


def say_json(value: Any) -> None:
    """Print JSON on one line."""
    say(*to_json(value))


def to_json(value: Any, *, indent: int | None = None) -> list[str]:
    """JSON as lines to `say`, readable in any script, with escapes for what is not printable."""
    text = json.dumps(value, ensure_ascii=False, indent=indent)
    return ["".join(map(_json_character, line)) for line in text.split("\n")]


def _json_character(character: str) -> str:
    return character if _is_harmless(character) else json.dumps(character)[1:-1]
