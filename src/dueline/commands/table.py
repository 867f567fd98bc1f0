"""Tables that fit the terminal: a heading, a line for each row, long cells cut with an ellipsis.

Text of strangers is made plain before it is measured, so that what is printed is as wide as it was
counted to be. Where the output is a file or a pipe nothing is cut: programs look for whole words.
"""

from __future__ import annotations

import os
import shutil
import sys
import unicodedata
from collections.abc import Iterable, Sequence
from typing import Final

from dueline.commands.terminal import plain, say, say_heading

__all__ = ["Cell", "layout", "show_table"]

Cell = str | int | None

_GAP: Final = "  "
_WIDTH_MIN: Final = 4
"""No column is cut below this, however narrow the terminal is."""


def show_table(headings: Sequence[str], rows: Iterable[Sequence[Cell]]) -> None:
    """Print a table; its heading is bold on a terminal."""
    is_cut = sys.stdout.isatty() or "COLUMNS" in os.environ
    width = shutil.get_terminal_size().columns if is_cut else None
    heading, *lines = layout(headings, list(rows), width)
    say_heading(heading)
    if lines:
        say(*lines)


def layout(headings: Sequence[str], rows: Sequence[Sequence[Cell]], width: int | None) -> list[str]:
    """The lines of a table, no wider than `width` if that can be; numbers stand on the right.

    >>> layout(["topic", "pending"], [["orders", 1200], ["a long name", 7]], 18)
    ['topic      pending', 'orders       1,200', 'a long n…        7']
    """
    is_number = [
        all(isinstance(row[column], int | None) for row in rows) for column in range(len(headings))
    ]
    texts = [[_text(cell) for cell in row] for row in (headings, *rows)]
    widths = [max(_width(row[column]) for row in texts) for column in range(len(headings))]
    if width is not None:
        widths = _fitting(widths, width - len(_GAP) * (len(headings) - 1))
    return [_GAP.join(map(_padded, row, widths, is_number)).rstrip(" ") for row in texts]


def _text(cell: Cell) -> str:
    if isinstance(cell, int):
        return f"{cell:,}"
    return plain(cell or "")


def _fitting(widths: Sequence[int], total: int) -> list[int]:
    """Take from the widest column until all fit."""
    fitted = list(widths)
    while sum(fitted) > total and max(fitted) > _WIDTH_MIN:
        fitted[fitted.index(max(fitted))] -= 1
    return fitted


def _padded(text: str, width: int, is_number: bool) -> str:
    if _width(text) > width:
        while _width(text) > width - 1:
            text = text[:-1]
        text += "…"
    space = " " * (width - _width(text))
    return f"{space}{text}" if is_number else f"{text}{space}"


def _width(text: str) -> int:
    """In columns of a terminal: wide characters take two, combining ones none."""
    if text.isascii():
        return len(text)
    return sum(map(_character_width, text))


def _character_width(character: str) -> int:
    if unicodedata.combining(character):
        return 0
    return 2 if unicodedata.east_asian_width(character) in "WF" else 1
