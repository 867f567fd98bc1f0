"""What a page asks its reader to do: the commands and the programs on it, in their order."""

from __future__ import annotations

import re
import shlex
from collections.abc import Mapping
from pathlib import Path

__all__ = ["DOCS", "commands", "programs", "section"]

DOCS = Path(__file__).resolve().parents[2] / "docs"

_PROGRAM = re.compile(r"^```python\n(.*?)^```", re.MULTILINE | re.DOTALL)
_COMMAND = re.compile(r"^    (dueline .*)$", re.MULTILINE)


def section(page: str, heading: str | None = None) -> str:
    """A page, or what stands under one of its headings."""
    text = (DOCS / page).read_text()
    if heading is None:
        return text
    start = text.index(f"\n## {heading}\n")
    end = text.find("\n## ", start + 1)
    return text[start : end if end > 0 else len(text)]


def programs(text: str) -> list[str]:
    return _PROGRAM.findall(text)


def commands(text: str, places: Mapping[str, str]) -> list[list[str]]:
    """The `dueline` commands as words, with the places of the page replaced by real ones."""
    found = []
    for line in _COMMAND.findall(text):
        for place, real in places.items():
            line = line.replace(place, real)
        found.append(shlex.split(line, comments=True))
    return found
