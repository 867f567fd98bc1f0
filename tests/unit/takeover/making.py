"""A store as a RocketMQ broker leaves it, written field by field: no code of ours is used."""

from __future__ import annotations

import json
import struct
import zlib
from collections import defaultdict
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from tests.golden.layout import java_hash

START_MS = 1_700_000_000_000
LEVELS_MS = [1_000, 5_000, 10_000, 30_000, 60_000]
LEVEL_TOPIC = "SCHEDULE_TOPIC_XXXX"
TIMER_TOPIC = "rmq_sys_wheel_timer"
HALF_TOPIC = "RMQ_SYS_TRANS_HALF_TOPIC"
OUTCOME_TOPIC = "RMQ_SYS_TRANS_OP_HALF_TOPIC"


@dataclass
class FakeBroker:
    """Writes messages; `save` writes the files. Time stands still until a test moves it."""

    path: Path
    segment_size: int = 4096
    file_units: int = 8
    now_ms: int = START_MS
    base: int = 0  # where the log begins: what was before is deleted
    records: list[bytes] = field(default_factory=list)
    positions: list[int] = field(default_factory=list)
    ends: dict[tuple[str, int], int] = field(default_factory=lambda: defaultdict(int))
    units: dict[tuple[str, int], dict[int, tuple[int, int, int]]] = field(
        default_factory=lambda: defaultdict(dict)
    )
    offsets: dict[str, dict[int, int]] = field(default_factory=dict)
    delay_offsets: dict[int, int] | None = field(default_factory=dict)
    topics: dict[str, int] = field(default_factory=dict)
    groups: list[str] = field(default_factory=list)
    timer_check: tuple[int, int] | None = None

    def __post_init__(self) -> None:
        self._segments: dict[int, bytearray] = {}
        self._end = self.base
        self._ids = 0

    def put(  # noqa: PLR0913 - the fields of a record
        self, topic: str, queue_id: int, body: bytes, *, prepared: int = 0, sys_flag: int = 0,
        reconsume_times: int = 0, born_ms: int | None = None, tags_code: int | None = None,
        **properties: str,
    ) -> int:  # fmt: skip
        """Append one record; returns its position."""
        offset = self.ends[topic, queue_id]
        self.ends[topic, queue_id] = offset + 1
        text = "".join(f"{name}\x01{value}\x02" for name, value in properties.items()).encode()
        variable = struct.pack(">I", len(body)) + body
        variable += bytes((len(topic),)) + topic.encode() + struct.pack(">h", len(text)) + text
        size = 84 + len(variable)
        position = self._place(size)
        record = struct.pack(
            ">iIIiiqqiq4siq4siiq", size, 0xDAA320A7, zlib.crc32(body) & 0x7FFFFFFF, queue_id, 7,
            offset, position, sys_flag, self.now_ms - 3 if born_ms is None else born_ms,
            b"\x0a\x00\x00\x05", 4711, self.now_ms, b"\x0a\x00\x00\x01", 10911, reconsume_times,
            prepared,
        ) + variable  # fmt: skip
        base = position - position % self.segment_size
        self._segments[base][position - base : position - base + size] = record
        code = java_hash(properties.get("TAGS", "")) if tags_code is None else tags_code
        if sys_flag & 0xC in (0, 8):
            self.units[topic, queue_id][offset] = (position, size, code)
        return position

    def _place(self, size: int) -> int:
        base = self._end - self._end % self.segment_size
        if base in self._segments and self._end - base + size + 8 > self.segment_size:
            left = base + self.segment_size - self._end
            blank = struct.pack(">iI", left, 0xCBD43194)
            self._segments[base][self._end - base : self._end - base + 8] = blank
            self._end = base = base + self.segment_size
        if base not in self._segments:
            self._segments[base] = bytearray(self.segment_size)
        position, self._end = self._end, self._end + size
        return position

    def message(self, topic: str, queue_id: int, body: bytes, **more: Any) -> int:
        self.topics.setdefault(topic, 4)
        return self.put(topic, queue_id, body, UNIQ_KEY=self.unique_id(), **more)

    def delayed(self, topic: str, queue_id: int, body: bytes, level: int, **more: Any) -> int:
        """A message with a level; its unit has the due time."""
        self.topics.setdefault(topic, 4)
        more.setdefault("UNIQ_KEY", self.unique_id())
        due_ms = self.now_ms + LEVELS_MS[level - 1]
        return self.put(
            LEVEL_TOPIC, level - 1, body, REAL_TOPIC=topic, REAL_QID=str(queue_id),
            DELAY=str(level), **{"tags_code": due_ms, **more},
        )  # fmt: skip

    def timed(self, topic: str, queue_id: int, body: bytes, due_ms: int, **more: Any) -> int:
        """A message of the 5.x timer."""
        self.topics.setdefault(topic, 4)
        more.setdefault("UNIQ_KEY", self.unique_id())
        slot_ms = (due_ms - 1) // 1000 * 1000
        return self.put(
            TIMER_TOPIC, 0, body, REAL_TOPIC=topic, REAL_QID=str(queue_id),
            **{"TIMER_DELIVER_MS": str(due_ms), "TIMER_OUT_MS": str(slot_ms), **more},
        )  # fmt: skip

    def unique_id(self) -> str:
        self._ids += 1
        return f"ID{self._ids:08d}"

    def save(self) -> Path:
        """Write everything; returns the folder."""
        log = self.path / "commitlog"
        log.mkdir(parents=True)
        for base, data in self._segments.items():
            (log / f"{base:020d}").write_bytes(data)
        for (topic, queue_id), units in self.units.items():
            folder = self.path / "consumequeue" / topic / str(queue_id)
            folder.mkdir(parents=True)
            for first in range(0, max(units) + 1, self.file_units):
                packed = b"".join(
                    struct.pack(">qiq", *units.get(offset, (0, 0, 0)))
                    for offset in range(first, first + self.file_units)
                )
                (folder / f"{first * 20:020d}").write_bytes(packed)
        (self.path / "config").mkdir()
        self._save_config()
        (self.path / "lock").write_bytes(b"lock")
        return self.path

    def _save_config(self) -> None:
        topics = {
            name: {"topicName": name, "readQueueNums": n, "writeQueueNums": n, "perm": 6}
            for name, n in self.topics.items()
        }
        groups = {name: {"groupName": name, "retryMaxTimes": 3} for name in self.groups}
        self._write("topics.json", {"topicConfigTable": topics})
        self._write("subscriptionGroup.json", {"subscriptionGroupTable": groups})
        self._write("consumerOffset.json", {"offsetTable": self.offsets})
        if self.delay_offsets is not None:
            self._write("delayOffset.json", {"offsetTable": self.delay_offsets})
        if self.timer_check is not None:
            numbers = struct.pack(">4q", self.timer_check[0], 0, self.timer_check[1], 0)
            (self.path / "config" / "timercheck").write_bytes(numbers.ljust(4096, b"\0"))

    def _write(self, name: str, content: object) -> None:
        (self.path / "config" / name).write_text(json.dumps(content))
