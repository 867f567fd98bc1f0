"""What went wrong in a query, in one line: out of a stack trace of Java and Python.

Spark tells of an error in a task with hundreds of lines. What a person needs is the error itself
and, where a transform failed, the line of their own code:

    ZeroDivisionError: division by zero, at mytx.py:5 in half (return 1 / 0)
"""

from __future__ import annotations

import re
import traceback
from collections.abc import Sequence
from pathlib import Path
from typing import Final

import dueline
from dueline.errors import BrokerError

__all__ = ["one_line"]

SIZE_MAX: Final = 1_000

_FRAME: Final = re.compile(r'File "(?P<path>[^"]+)", line (?P<line>[0-9]+)(?:, in (?P<name>\S+))?')
_RAISED: Final = re.compile(r"(?P<kind>[A-Za-z_][\w.]*): (?P<text>.*)|[A-Z]\w*(?:Error|Exception)")
_CALLED_FROM: Final = re.compile(r"was called from\s+(?P<path>\S+?):(?P<line>[0-9]+)")
_OWN: Final = str(Path(dueline.__file__).parent)
_LIBRARY_MARKS: Final = ("/lib/python3", "-packages/", "/pyspark/", "/py4j/", "<frozen ")


def one_line(error: BaseException) -> str:
    """The line that says what happened.

    >>> one_line(ValueError("bad"))
    'ValueError: bad'
    """
    if isinstance(error, BrokerError):
        return error.message[:SIZE_MAX]
    text = "\n".join((*traceback.format_exception(error), str(error)))
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    ours = [line for line in lines if line.startswith("dueline.errors.")]
    if ours:
        return ours[-1][:SIZE_MAX]
    said = _raised_by_user(lines)
    if said is None:
        first = str(error).strip().splitlines()
        said = first[0] if first and _is_spark(error) else _plain(error)
        called = _CALLED_FROM.search(text)
        if called is not None:
            said = f"{said}, at {Path(called['path']).name}:{called['line']}"
    return said[:SIZE_MAX]


def _raised_by_user(lines: Sequence[str]) -> str | None:
    """The error that the user's own code raised, with the innermost line of theirs."""
    frames = [
        (at, match) for at, line in enumerate(lines) if (match := _FRAME.match(line)) is not None
    ]
    own = [(at, match) for at, match in frames if _is_users(match["path"])]
    if not own:
        return None
    at, frame = own[-1]
    code = lines[at + 1] if at + 1 < len(lines) and not _FRAME.match(lines[at + 1]) else ""
    # The error stands after the last frame of the same trace.
    raised = next((line for line in lines[at + 2 :] if _is_error(line)), "")
    place = f"{Path(frame['path']).name}:{frame['line']}"
    where = f" in {frame['name']}" if frame["name"] else ""
    return f"{raised or 'an error'}, at {place}{where}" + (f" ({code})" if code else "")


def _is_users(path: str) -> bool:
    return not path.startswith(_OWN) and not any(mark in path for mark in _LIBRARY_MARKS)


def _is_error(line: str) -> bool:
    """Whether a line ends a Python trace; lines of code and of frames do not."""
    match = _RAISED.fullmatch(line)
    if match is None or _FRAME.match(line):
        return False
    kind = (match["kind"] or line).rpartition(".")[2]
    return kind.endswith(("Error", "Exception", "Exit", "Interrupt", "Warning", "Invalid"))


def _is_spark(error: BaseException) -> bool:
    return type(error).__module__.startswith(("pyspark", "py4j"))


def _plain(error: BaseException) -> str:
    text = " ".join(str(error).split())
    return f"{type(error).__name__}: {text}" if text else type(error).__name__
