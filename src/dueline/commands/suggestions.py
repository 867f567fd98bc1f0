"""What was meant, where a word is not known: the known one that it is most like."""

from __future__ import annotations

import argparse
import difflib
from collections.abc import Iterable, Iterator

__all__ = ["did_you_mean", "flags_of"]


def did_you_mean(word: str, known: Iterable[str]) -> str:
    """A question to put behind an error, or nothing.

    >>> did_you_mean("snd", ["send", "tail"])
    '; did you mean send?'
    >>> did_you_mean("xyz", ["send", "tail"])
    ''
    """
    found = difflib.get_close_matches(word, list(known), n=1)
    return f"; did you mean {found[0]}?" if found else ""


def flags_of(parser: argparse.ArgumentParser) -> list[str]:
    """The long flags of a command and of what it can do, in their order."""
    flags = dict.fromkeys(
        flag
        for each in (parser, *_actions_of(parser))
        for action in each._actions
        for flag in action.option_strings
        if flag.startswith("--")
    )
    return list(flags)


def _actions_of(parser: argparse.ArgumentParser) -> Iterator[argparse.ArgumentParser]:
    for action in parser._actions:
        if isinstance(action, argparse._SubParsersAction):
            yield from action.choices.values()
