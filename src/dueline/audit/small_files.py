"""The small files beside the logs: topics, groups, consumer offsets, receipts, imports.

They have no copies. One that cannot be read keeps a broker from starting, and says so.
"""

from __future__ import annotations

import json
import struct
import zlib
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any, Final

import numpy as np

from dueline.audit.commits import CheckedQueue
from dueline.audit.findings import Findings
from dueline.errors import BrokerError, CorruptRecord
from dueline.store.columns import ColumnFile
from dueline.store.done_index import DONE_NAME
from dueline.store.files import Files
from dueline.store.imports import IMPORTS_FILE, Imports
from dueline.wire.admin_bodies import GroupConfigs, TopicConfigs

__all__ = ["OFFSETS_FILE", "RECEIPTS_FILE", "TableCheck", "whole_frames"]

OFFSETS_FILE: Final = "consumerOffset.json"
RECEIPTS_FILE: Final = "receipts.log"
_RECEIPTS_MAGIC: Final = b"DUEPOP01"
_HEADER_SIZE: Final = 12
_FRAME: Final = struct.Struct(">II")
_KINDS: Final = b"LCHFTD"
_LOOKS_MAX: Final = 100_000


class TableCheck:
    """Reads the small files once, before the logs: what a running broker adds later is not missed
    then."""

    def __init__(self, data: Path | None, root: Path, files: Files, findings: Findings) -> None:
        self._data = data
        self._root = root
        self._files = files
        self._findings = findings
        self._offsets: dict[tuple[str, str], dict[int, int]] = {}
        self._topics: dict[str, int] | None = None

    def read(self) -> None:
        topics = self._load(self._root / "config" / "topics.json", TopicConfigs.decode)
        if topics is not None:
            table = topics.topic_config_table
            self._topics = {name: config.read_queue_nums for name, config in table.items()}
        self._load(self._root / "config" / "subscriptionGroup.json", GroupConfigs.decode)
        for name in self._files.names(self._root / "done", DONE_NAME):
            self._check_done(self._root / "done" / name)
        if self._data is None:
            return
        self._offsets = self._load(self._data / OFFSETS_FILE, _decode_offsets) or {}
        self._check_receipts(self._data / RECEIPTS_FILE)
        self._check_imports(self._data)

    def _load(self, path: Path, decode: Callable[[bytes], Any]) -> Any:
        try:
            return decode(self._files.read(path))
        except FileNotFoundError:
            return None
        except (BrokerError, ValueError, KeyError, TypeError, AttributeError) as error:
            self._findings.loss(
                "table",
                path.name,
                f"cannot be read: {error}; a broker does not start with it",
                "restore the file from a backup, or remove it and lose what it says",
            )
            return None

    def _check_done(self, path: Path) -> None:
        """The outcome of messages whose records are gone stands nowhere else."""
        try:
            ColumnFile(self._files, path).close()
        except FileNotFoundError:
            return  # its time was over
        except (CorruptRecord, ValueError, KeyError, TypeError) as error:
            self._findings.loss(
                "done",
                f"done/{path.name}",
                f"damaged ({error}): whether its messages were cancelled is not known any more",
                "restore a backup",
            )

    def _check_imports(self, data: Path) -> None:
        try:
            entry = Imports(data, self._files).unfinished
        except (BrokerError, AttributeError) as error:
            self._findings.loss("table", IMPORTS_FILE, f"cannot be read: {error}")
            return
        if entry is not None:
            self._findings.loss(
                "table",
                IMPORTS_FILE,
                f"the import from {entry.source} is not finished; a broker does not start",
                "run the import again: it goes on where it stopped",
            )

    # Against the queues

    def compare(self, queues: Iterable[CheckedQueue]) -> None:
        """Offsets lie within their queues, and each topic with messages is known."""
        by_topic: dict[str, dict[int, CheckedQueue]] = {}
        for queue in queues:
            by_topic.setdefault(queue.topic, {})[queue.queue_id] = queue
        for (topic, group), offsets in self._offsets.items():
            for queue_id, offset in offsets.items():
                known = by_topic.get(topic, {}).get(queue_id)
                end = known.log_end if known is not None else 0
                if offset > end:
                    self._findings.loss(
                        "consumer offset",
                        f"{group} {topic}/{queue_id}",
                        f"group {group} goes on at offset {offset} of {topic}/{queue_id}, which "
                        f"ends at {end}: it would skip messages",
                        "reset the group's offset (mqadmin resetOffsetByTime)",
                    )
        self._compare_topics(by_topic)

    def _compare_topics(self, by_topic: dict[str, dict[int, CheckedQueue]]) -> None:
        if self._topics is None:
            if self._data is not None and by_topic:
                # Not wrong by itself: topics of bulk jobs are in no table until the broker stops.
                text = "missing; topics that hold messages are found again, with default settings"
                self._findings.note("table", "topics.json", text)
            return
        for topic, queues in by_topic.items():
            count = self._topics.get(topic)
            last = max(queues)
            if count is not None and last >= count and queues[last].log_end:
                self._findings.note(
                    "topic",
                    topic,
                    f"topic {topic} has {count} queues, and messages in queue {last}, which "
                    "consumers do not read",
                )

    # Receipts

    def _check_receipts(self, path: Path) -> None:
        try:
            data = self._files.read(path)
        except FileNotFoundError:
            return
        if len(data) < _HEADER_SIZE or not data.startswith(_RECEIPTS_MAGIC):
            self._findings.loss(
                "receipts",
                path.name,
                f"expected receipts ({_RECEIPTS_MAGIC!r}), found {data[:8]!r}; a broker does not "
                "start with it",
                "restore the file from a backup, or remove it: groups then receive anew from "
                "their offsets",
            )
            return
        end = whole_frames(data)
        rest = data[end:].rstrip(b"\0")
        if not rest:
            return
        if _has_frame(data, end):
            self._findings.loss(
                "receipts",
                path.name,
                f"damaged at byte {end}: what stands behind is not read, and messages that were "
                "acknowledged come again",
            )
        else:
            text = f"torn at byte {end}: {len(rest)} bytes are forgotten"
            self._findings.repair("receipts", path.name, text)


def whole_frames(data: bytes) -> int:
    """Where the last whole frame of receipts ends."""
    at = _HEADER_SIZE
    while (end := _frame_end(data, at)) is not None:
        at = end
    return at


def _frame_end(data: bytes, at: int) -> int | None:
    """Where the frame at `at` ends; None if there is no sound one."""
    if at + _FRAME.size > len(data):
        return None
    size, crc = _FRAME.unpack_from(data, at)
    start, end = at + _FRAME.size, at + _FRAME.size + size
    if not size or end > len(data) or data[start] not in _KINDS:
        return None
    return end if zlib.crc32(memoryview(data)[start:end]) == crc else None


def _has_frame(data: bytes, start: int) -> bool:
    """Does a sound frame begin behind `start`?"""
    view = np.frombuffer(data, dtype=np.uint8)[start + 1 :]
    if len(view) <= _FRAME.size:
        return False
    kinds = np.isin(view[_FRAME.size :], np.frombuffer(_KINDS, dtype=np.uint8))
    places = (np.flatnonzero(kinds) + start + 1)[:_LOOKS_MAX]
    return any(_frame_end(data, at) is not None for at in places.tolist())


def _decode_offsets(data: bytes) -> dict[tuple[str, str], dict[int, int]]:
    found = {}
    for name, queues in json.loads(data)["offsetTable"].items():
        topic, _, group = name.partition("@")
        found[topic, group] = {int(queue_id): int(at) for queue_id, at in queues.items()}
    return found
