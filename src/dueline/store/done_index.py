"""The outcome of delayed messages whose records are gone: the memory behind definite answers.

A delayed message that was cancelled or dropped stands in no log once its delay segment is deleted
or compacted. Later questions about it must not be answered with "unknown". So before a
record goes, its names are entered here, 9 bytes each:

    hash   (8)   BLAKE2b of a name; sorted
    state  (1)   cancelled, dropped, moved or expired

The names of a message are `TOPIC LF UNIQUE_ID` and, for questions without a topic, `LF WORD` for
its unique id and each word of its KEYS. A delivered message is not entered: its record in the
commit log tells. One file (`columns.py`) for each segment that was deleted or compacted; a file is
kept for the commit log's retention, so that cancelled messages are known as long as delivered ones.

The truth, not derived: a file that is damaged is reported and left out. Not thread-safe: its owner
holds the store's lock; `write` needs none.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from hashlib import blake2b
from pathlib import Path
from typing import Final

import numpy as np

from dueline.errors import CorruptRecord
from dueline.message import key_words
from dueline.store.columns import ColumnFile, write_columns
from dueline.store.files import Files

__all__ = ["DONE_NAME", "DoneIndex", "DoneMessage"]

DoneMessage = tuple[str, str, str, int]
"""Topic, unique id, KEYS and state of a message."""

_HASH_SIZE: Final = 8
DONE_NAME: Final = re.compile("[0-9]{16}-[0-9]{20}")


class DoneIndex:
    """The files of one store, the newest last."""

    def __init__(self, files: Files, folder: Path) -> None:
        self._files = files
        self._folder = folder
        self._parts: list[ColumnFile] = []
        files.make_folder(folder)

    def load(self) -> list[str]:
        """Open what is there; returns what is wrong with files that cannot be used."""
        faults = []
        for name in self._files.names(self._folder, DONE_NAME):
            try:
                self._parts.append(ColumnFile(self._files, self._folder / name))
            except CorruptRecord as error:
                faults.append(error.message)
        return faults

    def write(self, messages: Iterable[DoneMessage], *, base: int, made_ms: int) -> Path | None:
        """Write the messages of a segment as a file; None if there are none.

        Raises:
            Unavailable: the disk is full.
        """
        entries = sorted((_hash(name), state) for name, state in _named(messages))
        if not entries:
            return None
        hashes, states = zip(*entries, strict=True)
        path = self._folder / f"{made_ms:016d}-{base:020d}"
        columns = [
            ("hash", lambda: np.array(hashes, dtype="<u8")),
            ("state", lambda: np.array(states, dtype=np.uint8)),
        ]
        write_columns(self._files, path, columns, {"made_ms": made_ms})
        return path

    def add(self, path: Path | None) -> None:
        """Use a written file from now on."""
        if path is not None:
            self._parts.append(ColumnFile(self._files, path))

    def find(self, text: str, topic: str | None) -> int | None:
        """The state under which a message was entered last; None if it is not known."""
        wanted = np.uint64(_hash(f"{topic or ''}\n{text}"))
        for part in reversed(self._parts):
            at = int(np.searchsorted(part["hash"], wanted))
            if at < len(part["hash"]) and part["hash"][at] == wanted:
                return int(part["state"][at])
        return None

    def drop_before(self, made_ms: int) -> list[Path]:
        """Forget files that are older; returns them to be removed."""
        old = [part for part in self._parts if int(part.meta["made_ms"]) < made_ms]
        self._parts = [part for part in self._parts if part not in old]
        for part in old:
            part.close()
        return [part.path for part in old]

    def close(self) -> None:
        for part in self._parts:
            part.close()


def _named(messages: Iterable[DoneMessage]) -> Iterator[tuple[str, int]]:
    """Every name of every message, with its state."""
    for topic, unique_id, keys, state in messages:
        yield f"{topic}\n{unique_id}", state
        for word in {unique_id, *key_words(keys)}:
            yield f"\n{word}", state


def _hash(name: str) -> int:
    digest = blake2b(name.encode("utf-8", "surrogateescape"), digest_size=_HASH_SIZE).digest()
    return int.from_bytes(digest, "little")
