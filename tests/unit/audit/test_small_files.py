"""A broker's small files: readable, and in agreement with its queues."""

from __future__ import annotations

import json
import struct
import zlib
from collections.abc import Sequence
from pathlib import Path

import pytest
from tests.unit.audit.making import FILES, told

from dueline.audit.commits import CheckedQueue
from dueline.audit.findings import Findings
from dueline.audit.small_files import TableCheck, whole_frames

HEADER = b"DUEPOP01" + bytes(4)


def frame(payload: bytes) -> bytes:
    return struct.pack(">II", len(payload), zlib.crc32(payload)) + payload


TIME = frame(struct.pack(">cQ", b"T", 17))
DROP = frame(struct.pack(">cI", b"D", 1))
"""A group was deleted, and nothing else happened in that write."""


def checked(data: Path, queues: Sequence[CheckedQueue] = ()) -> Findings:
    findings = Findings()
    check = TableCheck(data, data / "store", FILES, findings)
    check.read()
    check.compare(queues)
    return findings


def queue(topic: str, queue_id: int, end: int) -> CheckedQueue:
    return CheckedQueue(topic, queue_id, 0, end)


def write_topics(data: Path, **queue_counts: int) -> None:
    table = {
        name: {"topicName": name, "readQueueNums": count, "writeQueueNums": count, "perm": 6}
        for name, count in queue_counts.items()
    }
    (data / "store" / "config").mkdir(parents=True)
    (data / "store" / "config" / "topics.json").write_text(
        json.dumps({"topicConfigTable": table, "dataVersion": {"counter": 1, "timestamp": 1}})
    )


def test_nothing_is_missed_in_an_empty_folder(tmp_path: Path) -> None:
    assert told(checked(tmp_path)) == set()


@pytest.mark.parametrize(
    "name",
    ["consumerOffset.json", "store/config/topics.json", "store/config/subscriptionGroup.json"],
)
@pytest.mark.parametrize("content", [b"", b"{", b"[1]", b"\xff\xfe"])
def test_a_table_that_cannot_be_read_keeps_a_broker_from_starting(
    tmp_path: Path, name: str, content: bytes
) -> None:
    path = tmp_path / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(content)

    findings = checked(tmp_path)

    assert told(findings) == {("loss", "table")}
    assert findings.kept[0].subject == path.name


def test_offsets_lie_within_their_queues(tmp_path: Path) -> None:
    write_topics(tmp_path, t=4)
    offsets = {"t@g": {"0": 5, "1": 6}, "gone@g": {"0": 0}}
    (tmp_path / "consumerOffset.json").write_text(json.dumps({"offsetTable": offsets}))

    findings = checked(tmp_path, [queue("t", 0, 5), queue("t", 1, 5)])

    (found,) = findings.kept
    assert (found.kind, found.subject) == ("consumer offset", "g t/1")
    assert "offset 6 of t/1, which ends at 5" in found.text


def test_messages_outside_of_a_topics_queues_are_noted(tmp_path: Path) -> None:
    write_topics(tmp_path, t=2, u=2)

    findings = checked(tmp_path, [queue("t", 2, 1), queue("u", 2, 0), queue("u", 1, 9)])

    (found,) = findings.kept
    assert (found.severity.name, found.subject) == ("NOTE", "t")
    assert told(checked(tmp_path / "none", [queue("t", 0, 1)])) == {("note", "table")}


@pytest.mark.parametrize(
    ("rest", "expected"),
    [
        (b"", set()),
        (TIME + DROP + bytes(50), set()),
        (DROP, set()),
        (TIME + TIME[:-1], {("repair", "receipts")}),
        (TIME + TIME[:-1] + b"x", {("repair", "receipts")}),
        (TIME + b"x" * 9 + TIME, {("loss", "receipts")}),
        (TIME + b"x" * 9 + DROP, {("loss", "receipts")}),
    ],
    ids=["none", "all", "one", "torn", "torn and more", "behind damage", "dropped behind damage"],
)
def test_receipts_are_whole_torn_or_damaged(
    tmp_path: Path, rest: bytes, expected: set[tuple[str, str]]
) -> None:
    (tmp_path / "receipts.log").write_bytes(HEADER + rest)

    assert told(checked(tmp_path)) == expected


@pytest.mark.parametrize("content", [b"", b"DUEPOP01", b"OTHER   " + bytes(4)])
def test_a_file_of_something_else_is_not_receipts(tmp_path: Path, content: bytes) -> None:
    (tmp_path / "receipts.log").write_bytes(content)

    assert told(checked(tmp_path)) == {("loss", "receipts")}


def test_the_last_whole_frame_ends_them() -> None:
    assert whole_frames(HEADER) == 12
    assert whole_frames(HEADER + TIME + DROP + b"\0" * 7) == 12 + len(TIME) + len(DROP)


def test_a_store_alone_has_no_broker_files(tmp_path: Path) -> None:
    (tmp_path / "receipts.log").write_bytes(b"x")
    findings = Findings()
    check = TableCheck(None, tmp_path, FILES, findings)
    check.read()
    check.compare([queue("t", 0, 1)])

    assert told(findings) == set()
