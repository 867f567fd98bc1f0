"""The checkpoint: from where recovery has to read, and which derived files are whole.

One small JSON file with a CRC in front, replaced atomically, kept twice. Everything it names was
synced before it was written. Without a valid one recovery reads the logs from their beginning.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import Any
from zlib import crc32

from dueline.errors import CorruptRecord
from dueline.store.files import Files
from dueline.store.states import mirror_of

__all__ = ["Checkpoint", "load", "save"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Checkpoint:
    """State of the derived data at one moment.

    `delay_position` / `commit_position`: records before it need not be read again. `commit_start`:
    where the commit log began; queues were trimmed to it. `commit_segments`: segments of the commit
    log in which everything was visible at a time. `index_ms` and `commit_end`: records before
    commit_end with a store time up to index_ms are in the consume queues, except for those at the
    positions `waiting`. `accepted_ms`: the latest store time of a delayed message.
    """

    delay_position: int = 0
    commit_position: int = 0
    commit_segments: dict[str, int] = field(default_factory=dict)
    commit_start: int = 0
    commit_end: int = 0
    index_ms: int = 0
    waiting: list[int] = field(default_factory=list)
    accepted_ms: int = 0
    next_seq: int = 0
    runs: list[str] = field(default_factory=list)
    delay_keys: list[str] = field(default_factory=list)
    commit_keys: list[str] = field(default_factory=list)
    commit_keys_end: int = 0
    queues: dict[str, dict[str, list[int]]] = field(default_factory=dict)
    queue_checks: dict[str, dict[str, dict[str, list[int]]]] = field(default_factory=dict)
    delay_queues: dict[str, int] = field(default_factory=dict)
    segments: dict[str, list[int]] = field(default_factory=dict)
    levels: list[list[Any]] = field(default_factory=list)


def save(files: Files, path: Path, checkpoint: Checkpoint) -> None:
    text = b"".join(_encoded(checkpoint))
    for target in (path, mirror_of(path)):
        files.replace(target, [f"{crc32(text):08x}\n".encode(), text])


def _encoded(checkpoint: Checkpoint) -> Iterator[bytes]:
    """The JSON in parts. With ten thousands of queues a single call would keep all other threads
    from working for as long as it takes."""
    separator = b"{"
    for each in fields(checkpoint):
        value = getattr(checkpoint, each.name)
        yield separator + json.dumps(each.name).encode() + b": "
        if isinstance(value, dict) and value:
            yield from _encoded_items(value)
        else:
            yield json.dumps(value).encode()
        separator = b", "
    yield b"}"


def _encoded_items(value: dict[str, Any]) -> Iterator[bytes]:
    separator = "{"
    for name, item in value.items():
        yield f"{separator}{json.dumps(name)}: {json.dumps(item)}".encode()
        separator = ", "
    yield b"}"


def load(files: Files, path: Path) -> Checkpoint:
    """Read one copy.

    Raises:
        FileNotFoundError: there is none.
        CorruptRecord: it is damaged, or was written by another version.
    """
    check, _, text = files.read(path).partition(b"\n")
    reason = "CRC does not match"
    try:
        if int(check, 16) == crc32(text):
            fields = json.loads(text)
            fields.pop("clock_ms", None)  # what earlier versions took for the clock's floor
            return Checkpoint(**fields)
    except (ValueError, TypeError) as error:
        reason = str(error)
    raise CorruptRecord(f"{path}: {reason}", path=str(path), position=0)
