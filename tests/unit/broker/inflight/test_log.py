"""The receipts' file: what is torn stays away, whatever is written in its place."""

from __future__ import annotations

import errno
import re
import zlib
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.unit.broker.inflight.world import START_MS, World

from dueline.broker.inflight import log as receipt_log
from dueline.broker.inflight.lane import Entry, Lane
from dueline.broker.inflight.log import LaneName, ReceiptLog
from dueline.errors import OutcomeUnknown, StoreClosed
from dueline.store.files import Bytes, File, Files, byte_view
from dueline.testing import FaultyFiles, ManualClock


@pytest.fixture
def world(tmp_path: Path) -> Iterator[World]:
    made = World(tmp_path)
    yield made
    made.store.close()


def held(path: Path) -> list[int]:
    """The offsets that a reader of the file takes for received and not done."""
    log = ReceiptLog(path, Files(), ManualClock(1_000))
    (lane, _), *_ = log.open()
    log.close(list)
    return list(lane.entries)


def write(log: ReceiptLog, *changes: bytes) -> None:
    """One frame, on disk when it returns."""
    answers: list[BaseException | None] = []
    log.append(changes, answers.append)
    log.flush(list)
    assert answers == [None]


def open_with_three_held(path: Path, files: Files) -> tuple[ReceiptLog, Lane]:
    log = ReceiptLog(path, files, ManualClock(1_000))
    log.open()
    lane = Lane(number=1, queue_id=0, cursor=0)
    for offset in range(3):
        lane.hold(offset, Entry(attempt=1, visible_ms=5_000, serial=1))
    name = LaneName(group="g", topic="t")
    write(
        log, receipt_log.lane_change(lane, name), *(receipt_log.hold(lane, at) for at in range(3))
    )
    return log, lane


def test_acknowledgement_behind_a_torn_frame_does_not_come_back(tmp_path: Path) -> None:
    path = tmp_path / "receipts.log"
    log, lane = open_with_three_held(path, Files())
    torn_at = len(path.read_bytes().rstrip(b"\0"))
    write(log, receipt_log.finish(lane, 0))
    write(log, receipt_log.finish(lane, 1))
    log.close(list)
    data = bytearray(path.read_bytes())
    data[torn_at + 4] ^= 1  # its page was lost, the next frame's was not
    path.write_bytes(data)

    log = ReceiptLog(path, Files(), ManualClock(1_000))
    log.open()
    write(log, receipt_log.finish(lane, 2))  # a frame as long as the torn one
    log.close(list)

    assert held(path) == [0, 1]


class _FillingFiles(Files):
    """A disk that becomes full in the middle of a write."""

    is_full = False

    def open(self, path: Path, *, writable: bool = False) -> File:
        return _FillingFile(self, path, writable=writable)


class _FillingFile(File):
    def __init__(self, files: _FillingFiles, path: Path, *, writable: bool) -> None:
        super().__init__(path, writable=writable)
        self._files = files

    def write_at(self, position: int, data: Bytes) -> None:
        view = byte_view(data)
        super().write_at(position, view[: len(view) * 3 // 4] if self._files.is_full else view)
        if self._files.is_full:
            raise OSError(errno.ENOSPC, "full")


def test_part_of_a_write_that_a_full_disk_stopped_is_overwritten(tmp_path: Path) -> None:
    path = tmp_path / "receipts.log"
    files = _FillingFiles()
    log, lane = open_with_three_held(path, files)
    start = len(path.read_bytes().rstrip(b"\0"))
    files.is_full = True
    answers: list[BaseException | None] = []
    log.append([b"\xff" * 400], answers.append)
    log.flush(list)
    assert isinstance(answers[0], OutcomeUnknown)

    files.is_full = False
    log._gathered.clear()
    write(log, receipt_log.finish(lane, 0))
    log.close(list)

    frame_size = 8 + len(receipt_log.finish(lane, 0))
    assert path.read_bytes()[start + frame_size :].strip(b"\0") == b""
    assert held(path) == [1, 2]


@pytest.mark.parametrize("size", [1, 9, 4_096, 10_000])
def test_bytes_behind_the_last_frame_are_zeroed_when_it_is_opened(
    tmp_path: Path, size: int
) -> None:
    path = tmp_path / "receipts.log"
    log, _ = open_with_three_held(path, Files())
    log.close(list)
    end = len(path.read_bytes().rstrip(b"\0"))
    path.write_bytes(path.read_bytes()[:end] + b"\xff" * size)

    assert held(path) == [0, 1, 2]
    assert path.read_bytes()[end:] == bytes(size)


def fields_of(data: bytes) -> list[tuple[str, dict[str, int], bytes]]:
    """The changes of a file, taken apart by the tables of the page that specifies it."""
    page = (Path(__file__).resolve().parents[4] / "docs/format/receipts.md").read_text()
    kinds = {}
    for kind, size, text in re.findall(r"^\| `(.)` \| (\d+) \| ([^|]*) \|", page, re.MULTILINE):
        fields = [(name, int(length)) for name, length in re.findall(r"(\w+) (\d+)", text)]
        assert int(size) == 1 + sum(length for _, length in fields)
        kinds[kind] = fields
    assert data[:8] == b"DUEPOP01"
    changes, at = [], 12
    while size := int.from_bytes(data[at : at + 4], "big"):
        frame = data[at + 8 : at + 8 + size]
        assert int.from_bytes(data[at + 4 : at + 8], "big") == zlib.crc32(frame)
        at += 8 + size
        while frame:
            kind, frame, values = chr(frame[0]), frame[1:], {}
            for name, length in kinds[kind]:
                values[name], frame = int.from_bytes(frame[:length], "big"), frame[length:]
            tail_size = values.get("group_size", 0) + values.get("topic_size", 0)
            changes.append((kind, values, frame[:tail_size]))
            frame = frame[tail_size:]
    return changes


def test_the_file_is_what_its_page_says(tmp_path: Path) -> None:
    log = ReceiptLog(tmp_path / "receipts.log", Files(), ManualClock(1_234))
    log.open()
    lane = Lane(number=7, queue_id=3, cursor=41)
    lane.hold(40, Entry(attempt=2, visible_ms=5_000, serial=9))
    changes = [receipt_log.hold(lane, 40), receipt_log.advance(lane), receipt_log.finish(lane, 40)]
    changes.append(receipt_log.drop(lane))
    write(log, receipt_log.lane_change(lane, LaneName(group="g", topic="top")))
    write(log, *changes)
    log.close(list)

    timed, named, held_one, advanced, finished, dropped = fields_of(
        (tmp_path / "receipts.log").read_bytes()
    )
    sizes = {"group_size": 1, "topic_size": 3}
    assert timed == ("T", {"time": 1_234}, b"")
    assert named == ("L", {"lane": 7, "queue": 3, "cursor": 41, **sizes}, b"gtop")
    message = {"offset": 40, "message_group": 0, "attempt": 2, "serial": 9, "visible_ms": 5_000}
    assert held_one == ("H", {"lane": 7, **message}, b"")
    assert advanced == ("C", {"lane": 7, "cursor": 41}, b"")
    assert finished == ("F", {"lane": 7, "offset": 40}, b"")
    assert dropped == ("D", {"lane": 7}, b"")


# The file of a whole state


def test_torn_end_of_the_file_is_forgotten(world: World) -> None:
    world.send("a", "b")
    first, second = world.take().messages
    world.finish(first.receipt)
    whole = world.path.read_bytes()
    world.finish(second.receipt)
    longer = world.path.read_bytes()
    end = next(at for at in range(len(whole)) if whole[at] != longer[at])

    for cut in range(end, len(longer.rstrip(b"\0"))):
        world.path.write_bytes(longer[:cut])
        world.restart(is_flushed=False)
        world.clock.advance(10_000)
        again = world.take().messages
        assert [held.record.body for held in again] == [b"b"], cut
        world.path.write_bytes(longer)


def test_rewritten_file_says_the_same_and_stays_small(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(receipt_log, "REWRITE_SIZE_BYTES", 2_000)
    world.inflight = world.open()
    for number in range(200):
        world.send(str(number))
        held = world.take().messages
        if number % 20:
            world.finish(held[0].receipt)
            world.clock.advance(1)
    written = world.path.read_bytes().rstrip(b"\0")
    world.restart()

    assert len(written) < 6_000
    assert world.inflight.held_count("g", "t") == 10
    world.clock.advance(10_000)
    assert sorted(map(int, world.bodies(100))) == list(range(0, 200, 20))


@pytest.mark.parametrize("restart_count", [1, 2, 3])
@pytest.mark.parametrize("rewrite_size", [1, 1 << 20])
def test_receipt_of_a_fast_clock_hides_its_message_no_longer_than_was_asked(
    world: World, monkeypatch: pytest.MonkeyPatch, restart_count: int, rewrite_size: int
) -> None:
    monkeypatch.setattr(receipt_log, "REWRITE_SIZE_BYTES", rewrite_size)
    world.send("a", "b", "c")
    assert world.bodies(1) == ["a"]
    world.clock.advance(8 * 3_600_000)
    assert world.bodies(1) == ["a"]
    world.clock.advance(3_000)
    assert world.bodies(1) == ["b"]
    world.inflight.flush()

    world.clock = ManualClock(START_MS + 20_000)  # set right while the broker was down
    for _ in range(restart_count):
        world.restart()

    assert world.bodies() == ["c"]
    world.clock.advance(6_999)
    assert world.bodies() == []
    world.clock.advance(1)
    assert world.bodies() == ["a"]
    world.clock.advance(2_999)
    assert world.bodies() == []
    world.restart()
    world.clock.advance(1)
    assert sorted(world.bodies()) == ["b", "c"]


def test_restart_without_a_step_of_the_clock_changes_no_duration(world: World) -> None:
    world.send("a")
    assert world.bodies() == ["a"]
    for _ in range(9):
        world.clock.advance(1_000)
        world.restart()

    world.clock.advance(999)
    assert world.bodies() == []
    world.clock.advance(1)
    assert world.bodies() == ["a"]


@pytest.mark.parametrize("seed", range(20))
def test_acknowledged_stays_acknowledged_after_a_power_cut(tmp_path: Path, seed: int) -> None:
    files = FaultyFiles()
    world = World(tmp_path, files)
    world.send("a", "b", "c")
    first, second, _ = world.take().messages
    world.finish(first.receipt)
    world.inflight.extend("g", "t", second.receipt, 0)
    world.inflight.flush()

    files.power_cut(seed=seed)
    world.files = Files()
    world.restart(is_flushed=False)

    world.clock.advance(10_000)
    assert sorted(world.bodies()) == ["b", "c"]
    world.store.close()


def test_failed_write_closes_the_receipts(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    world.send("a")
    (held,) = world.take().messages
    world.inflight.flush()

    def broken(self: object) -> None:
        raise OSError(5, "Input/output error")

    world.send("b")
    monkeypatch.setattr("dueline.store.files.File.sync", broken)
    with pytest.raises(StoreClosed):
        world.finish(held.receipt)

    assert isinstance(world.answers[0], StoreClosed)
    with pytest.raises(StoreClosed):
        world.take()
