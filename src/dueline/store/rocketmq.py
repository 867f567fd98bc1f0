"""Reading a store that RocketMQ has written: log, queues, keys, configuration, what is pending.

    commitlog/00000000000000000000              records, one layout with ours (see `record`)
    consumequeue/TOPIC/QUEUE/0000…              20-byte units; a delayed one has its due time where
                                                others have the tag's hash
    index/20261115190733708                     key hashes in chains, newest first
    config/delayOffset.json                     level -> next unit to deliver

An index file is a header, an array of slots and an array of entries:

    | begin ms (8) | end ms (8) | begin position (8) | end position (8) | used (4) | next (4) |
    | slot (4): the newest entry with this hash modulo the number of slots, 0 for none | … |
    | hash (4) | position (8) | seconds since begin (4) | the entry before in this slot (4) | …

Entry 0 is not used. Nothing in here writes, locks or keeps anything; lengths of segments and index
files are taken from the files themselves. The configuration is JSON with bare numbers as names,
which Java's library writes and no JSON reader accepts, so they are read leniently.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from dueline.errors import CorruptRecord, NotFound
from dueline.message import LEVEL_TOPIC, decode_properties, string_hash
from dueline.schedule import LEVEL_NAME, DelayLevels
from dueline.store.consume_queue import UNIT_DTYPE, UNIT_SIZE
from dueline.store.files import POSITION_NAME, Files
from dueline.store.log import LogReader
from dueline.store.reading import has_key, read_record
from dueline.store.record import Record
from dueline.store.scan import Scan, scan

__all__ = [
    "ENTRY_DTYPE",
    "QUEUE_NAME",
    "TOPIC_NAME",
    "IndexFile",
    "PendingDelayed",
    "RocketmqStore",
    "due_of_unit",
    "index_hash",
    "level_due_ms",
    "parse_lenient",
]

TOPIC_NAME: Final = re.compile("[%|a-zA-Z0-9_-]+")
QUEUE_NAME: Final = re.compile("[0-9]{1,5}")
INDEX_NAME: Final = re.compile("[0-9]+")

HEADER_DTYPE: Final = np.dtype(
    [
        ("begin_ms", ">i8"),
        ("end_ms", ">i8"),
        ("begin_position", ">i8"),
        ("end_position", ">i8"),
        ("used_slots", ">i4"),
        ("next_entry", ">i4"),
    ]
)
ENTRY_DTYPE: Final = np.dtype(
    [("hash", ">i4"), ("position", ">i8"), ("seconds", ">i4"), ("previous", ">i4")]
)
SLOT_SIZE: Final = 4
ENTRIES_PER_SLOT: Final = 4  # RocketMQ's own proportion: 5 million slots, 20 million entries
UNKNOWN_LEVEL_DELAY_MS: Final = 1_000
assert HEADER_DTYPE.itemsize == 40
assert ENTRY_DTYPE.itemsize == 20

_TOKEN: Final = re.compile(r'"(?:[^"\\]|\\.)*"|([{,]\s*)(-?\d+)(\s*:)', re.DOTALL)


@dataclass(frozen=True, slots=True, kw_only=True)
class PendingDelayed:
    """A delayed message that RocketMQ had not delivered yet."""

    level: int
    queue_offset: int
    due_ms: int
    record: Record


class RocketmqStore:
    """A folder that RocketMQ has written."""

    def __init__(
        self, path: Path, files: Files | None = None, *, commit_log: Path | None = None
    ) -> None:
        self._path = path
        self._files = files or Files()
        folder = commit_log or path / "commitlog"
        self.bases = [int(name) for name in self._files.names(folder, POSITION_NAME)]
        if not self.bases:
            raise NotFound(f"{folder}: expected segments of a commit log, found none")
        first = self._files.open(folder / f"{self.bases[0]:020d}")
        self.log: Final = LogReader(self._files, folder, first.size_bytes, is_foreign=True)
        first.close()

    def records(self) -> Scan:
        """Every sound record of the commit log."""
        return scan(self.log, self.bases[0], self.bases)

    # Queues

    def queues(self) -> list[tuple[str, int]]:
        """Every topic and queue id."""
        folder = self._path / "consumequeue"
        return [
            (topic, queue_id)
            for topic in self._files.names(folder, TOPIC_NAME, are_folders=True)
            for queue_id in sorted(
                map(int, self._files.names(folder / topic, QUEUE_NAME, are_folders=True))
            )
        ]

    def units(self, topic: str, queue_id: int) -> tuple[int, npt.NDArray[Any]]:
        """The offset of a queue's first unit, and its units (UNIT_DTYPE) up to the first empty one.

        RocketMQ fills the part of a file before a queue's first unit with units of size 2^31 - 1 at
        position 0; these are left out.
        """
        folder = self._path / "consumequeue" / topic / str(queue_id)
        names = self._files.names(folder, POSITION_NAME)
        if not names:
            return 0, np.empty(0, dtype=UNIT_DTYPE)
        data = b"".join(self._files.read(folder / name) for name in names)
        units = np.frombuffer(data[: len(data) - len(data) % UNIT_SIZE], dtype=UNIT_DTYPE)
        empty = np.flatnonzero((units["size"] <= 0) | (units["position"] < 0))
        units = units[: int(empty[0])] if len(empty) else units
        real = np.flatnonzero((units["position"] != 0) | (units["size"] != 0x7FFFFFFF))
        skipped = int(real[0]) if len(real) else len(units)
        return int(names[0]) // UNIT_SIZE + skipped, units[skipped:]

    # Keys

    def indexes(self) -> list[IndexFile]:
        """The key index files, the oldest first."""
        folder = self._path / "index"
        return [
            IndexFile.decode(self._files.read(folder / name), path=str(folder / name))
            for name in self._files.names(folder, INDEX_NAME)
        ]

    def find(self, topic: str, key: str) -> list[Record]:
        """Messages of a topic with this key or unique id, the newest first."""
        found = []
        for index in reversed(self.indexes()):
            for position in index.find(index_hash(topic, key)):
                try:
                    record = read_record(self.log, position)
                except NotFound:
                    continue
                if record.topic == topic.encode() and has_key(record, key):
                    found.append(record)
        return found

    # Configuration

    def config(self, name: str) -> Any:
        """A file of the configuration as plain values; the backup if the file is missing."""
        folder = self._path / "config"
        for path in (folder / name, folder / (name + ".bak")):
            try:
                return parse_lenient(self._files.read(path).decode("utf-8"), path=str(path))
            except FileNotFoundError:
                continue
        raise NotFound(f"{folder / name}: expected a configuration file, found none")

    def delay_offsets(self) -> dict[int, int]:
        """Level -> the next unit of its queue to be delivered; levels never used are missing."""
        try:
            table = self.config("delayOffset.json").get("offsetTable", {})
        except NotFound:
            return {}
        return {int(level): int(offset) for level, offset in table.items()}

    # Delayed messages

    def pending(self, *, levels: DelayLevels, now_ms: int) -> list[PendingDelayed]:
        """What RocketMQ would still deliver, in due order.

        Progress before a queue's first unit or beyond its last one is corrected as RocketMQ does
        when it starts. Units whose record cannot be read are passed over, as it does too.
        """
        progress = self.delay_offsets()
        found: list[PendingDelayed] = []
        for topic, queue_id in self.queues():
            if topic == LEVEL_TOPIC:
                start = progress.get(queue_id + 1, 0)
                found += self._pending_of(queue_id + 1, start, levels, now_ms)
        return sorted(found, key=lambda message: (message.due_ms, message.record.position))

    def _pending_of(
        self, level: int, start: int, levels: DelayLevels, now_ms: int
    ) -> Iterator[PendingDelayed]:
        first, units = self.units(LEVEL_TOPIC, level - 1)
        start = min(max(start, first), first + len(units))
        for offset, unit in enumerate(units[start - first :], start=start):
            try:
                record = read_record(self.log, int(unit["position"]))
            except NotFound:
                continue
            due_ms = due_of_unit(int(unit["tags_code"]), level, levels=levels, now_ms=now_ms)
            yield PendingDelayed(level=level, queue_offset=offset, due_ms=due_ms, record=record)


@dataclass(frozen=True, slots=True, kw_only=True)
class IndexFile:
    """One decoded index file; `entries[0]` is not used."""

    begin_ms: int
    end_ms: int
    begin_position: int
    end_position: int
    used_slots: int
    slots: npt.NDArray[np.int32]
    entries: npt.NDArray[Any]

    @classmethod
    def decode(cls, data: bytes, *, path: str = "") -> IndexFile:
        """Read a whole file.

        Raises:
            CorruptRecord: a length or a count that no index file has.
        """
        per_slot = SLOT_SIZE + ENTRIES_PER_SLOT * ENTRY_DTYPE.itemsize
        slot_count, rest = divmod(len(data) - HEADER_DTYPE.itemsize, per_slot)
        if slot_count < 1 or rest:
            raise CorruptRecord(
                f"{path}: expected 40 bytes and {per_slot} for each slot, found {len(data)}",
                path=path,
                position=0,
            )
        head = np.frombuffer(data, dtype=HEADER_DTYPE, count=1)[0]
        next_entry = int(head["next_entry"])
        if not 0 <= next_entry <= ENTRIES_PER_SLOT * slot_count:
            raise CorruptRecord(
                f"{path}: expected at most {ENTRIES_PER_SLOT * slot_count} entries, "
                f"found {next_entry}",
                path=path,
                position=36,
            )
        slots_end = HEADER_DTYPE.itemsize + SLOT_SIZE * slot_count
        return cls(
            begin_ms=int(head["begin_ms"]),
            end_ms=int(head["end_ms"]),
            begin_position=int(head["begin_position"]),
            end_position=int(head["end_position"]),
            used_slots=int(head["used_slots"]),
            slots=np.frombuffer(data[HEADER_DTYPE.itemsize : slots_end], dtype=">i4").astype(
                np.int32
            ),
            entries=np.frombuffer(
                data, dtype=ENTRY_DTYPE, offset=slots_end, count=max(next_entry, 1)
            ),
        )

    def find(self, key_hash: int) -> list[int]:
        """Positions entered under a hash, the newest first."""
        found = []
        number = int(self.slots[key_hash % len(self.slots)])
        while 0 < number < len(self.entries):
            entry = self.entries[number]
            if int(entry["hash"]) == key_hash:
                found.append(int(entry["position"]))
            previous = int(entry["previous"])
            if previous >= number:  # a chain only leads back; anything else would go in circles
                break
            number = previous
        return found


def index_hash(topic: str, key: str) -> int:
    """The hash under which RocketMQ enters a key.

    >>> index_hash("TopicT", "key1")
    1185812048
    """
    value = abs(string_hash(f"{topic}#{key}"))
    return 0 if value == 1 << 31 else value


def level_due_ms(record: Record, levels: DelayLevels) -> int:
    """When RocketMQ makes a record of a level due: an unknown level means one second."""
    text = decode_properties(record.properties).get(LEVEL_NAME, "")
    level = int(text) if text.isascii() and text.isdigit() else 0
    known = 1 <= level <= levels.level_max
    return record.store_ms + (levels.delay_ms(level) if known else UNKNOWN_LEVEL_DELAY_MS)


def due_of_unit(deliver_ms: int, level: int, *, levels: DelayLevels, now_ms: int) -> int:
    """When RocketMQ delivers a unit: a time further away than the level's whole delay means that
    the clock went back or the table was changed, and then it is due now."""
    known = 1 <= level <= levels.level_max
    delay_ms = levels.delay_ms(level) if known else UNKNOWN_LEVEL_DELAY_MS
    return now_ms if deliver_ms > now_ms + delay_ms else deliver_ms


def parse_lenient(text: str, *, path: str = "") -> Any:
    """JSON in which the names of an object may be bare whole numbers.

    Raises:
        CorruptRecord: text that is not even that.

    >>> parse_lenient('{"offsetTable":{2:1,3:1}}')
    {'offsetTable': {'2': 1, '3': 1}}
    """
    try:
        return json.loads(_TOKEN.sub(_quoted, text))
    except ValueError as error:
        raise CorruptRecord(
            f"{path or 'configuration'}: expected JSON, found {text[:80]!r}: {error}",
            path=path,
            position=0,
        ) from error


def _quoted(match: re.Match[str]) -> str:
    lead, number, colon = match.groups()
    return match.group() if number is None else f'{lead}"{number}"{colon}'
