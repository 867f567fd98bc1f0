"""The saved inputs: a file per target, a line of base64 per input."""

from __future__ import annotations

import base64
from collections.abc import Iterable
from pathlib import Path

_FOLDER = Path(__file__).parent / "saved"


def saved(name: str) -> list[bytes]:
    """What was saved for a target; nothing if it is new."""
    path = _FOLDER / f"{name}.txt"
    if not path.exists():
        return []
    return [base64.b64decode(line) for line in path.read_text().splitlines()]


def write(name: str, inputs: Iterable[bytes], size_bytes_max: int) -> None:
    """Save inputs, the short ones first, until there are enough."""
    lines: list[str] = []
    size_bytes = 0
    for data in sorted(inputs, key=lambda data: (len(data), data)):
        line = base64.b64encode(data).decode()
        size_bytes += len(line) + 1
        if size_bytes > size_bytes_max:
            break
        lines.append(line)
    _FOLDER.mkdir(exist_ok=True)
    (_FOLDER / f"{name}.txt").write_text("".join(f"{line}\n" for line in lines))
