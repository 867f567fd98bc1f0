"""One flipped bit anywhere in a store's files: noticed, reported, and nothing else is harmed.

A record of a log that is damaged is gone, but its neighbours are not. Everything else is derived
or kept twice: it is repaired, and every message still comes once and at its time.

The normal run flips bits at a sample of places in every file; `DUELINE_SOAK=1` tries every byte of
small files. The sample depends on DUELINE_CRASH_SEED alone.
"""

from __future__ import annotations

import copy
import os
import random
import shutil
import struct
import zlib
from dataclasses import dataclass
from pathlib import Path

import pytest
from tests.conftest import IS_SOAK
from tests.crash.model import Model
from tests.crash.observing import FAR_MS, HEADER, Queue, Seen, parse, properties_of
from tests.crash.script import OPTIONS, STEPS, Driver

from dueline.store import Files, Store, restore
from dueline.store.log import LogReader
from dueline.store.scan import scan
from dueline.testing import ManualClock

SEED = int(os.environ.get("DUELINE_CRASH_SEED", "1"))
FLIPS_PER_FILE = 100 if IS_SOAK else 2
EXHAUSTIVE_BYTES_MAX = 1_024
STEP_COUNT = len(STEPS) - 12  # before the last long wait: visible, pending and at the gate
RECORD_MAGIC = bytes.fromhex("DAA320A7")
PACKED_MAGIC = bytes.fromhex("D0E19ACD")
QUEUE_OFFSET = range(20, 28)
POSITION = range(28, 36)


@dataclass(frozen=True, slots=True)
class Place:
    """A record of a log file, as found by a plain walk."""

    start: int
    end: int
    uid: str
    topic: str
    is_packed: bool = False


@dataclass(frozen=True, slots=True)
class Finished:
    """A store that was closed cleanly, and what was promised."""

    path: Path
    model: Model
    wall_ms: int

    def copy_to(self, path: Path) -> Driver:
        shutil.copytree(self.path, path)
        driver = Driver(path, Files())
        driver.clock = ManualClock(self.wall_ms)
        driver.model = copy.deepcopy(self.model)
        return driver


@dataclass(slots=True)
class Contents:
    """What a store holds, with damage where there is any."""

    visible: dict[tuple[Queue, int], Seen]
    damaged: list[tuple[Queue, int]]
    pending: dict[str, int]
    damaged_pending: int
    at_gate: int


@dataclass(frozen=True, slots=True)
class Flip:
    """A flipped bit in a segment of a log, and the record it hit, if any."""

    log: str
    file: str
    position: int
    bit: int
    hit: Place | None

    @property
    def is_in_offset(self) -> bool:
        """In the one field without a check, which is known from the queue."""
        return self._is_in(QUEUE_OFFSET)

    @property
    def is_in_position(self) -> bool:
        """In what a record says of its place: a walk compares it, and a delivery writes it anew."""
        return self._is_in(POSITION)

    def _is_in(self, field: range) -> bool:
        if self.hit is None or self.hit.is_packed:
            return False
        return self.position - self.hit.start in field

    @property
    def victim(self) -> str:
        """The message that is damaged."""
        return "" if self.hit is None or self.is_in_offset else self.hit.uid


@pytest.fixture(scope="module")
def finished(tmp_path_factory: pytest.TempPathFactory) -> Finished:
    driver = Driver(tmp_path_factory.mktemp("finished") / "store", Files())
    driver.open()
    for step in STEPS[:STEP_COUNT]:
        step.action(driver)
    driver.put("late", delay_ms=1_500)
    driver.deliver(60_000)
    assert driver.store.gate_row_count > 0
    driver.put_many("z", [80_000 + n for n in range(9)])
    driver.store.checkpoint()
    driver.put("last", delay_ms=90_000)
    driver.close()
    return Finished(driver.path, driver.model, driver.clock.wall_ms)


def flip(path: Path, position: int, bit: int) -> None:
    with path.open("r+b") as file:
        file.seek(position)
        byte = file.read(1)[0]
        file.seek(position)
        file.write(bytes([byte ^ 1 << bit]))


def walk(path: Path) -> list[Place]:
    """The records of a segment file, found by their magic and their own position."""
    data = path.read_bytes()
    base = int(path.name)
    found = []
    at = data.find(RECORD_MAGIC)
    while at >= 0:
        start = at - 4
        fields = HEADER.unpack_from(data, start)
        if fields[6] == base + start:
            end = start + fields[0]
            tail = start + HEADER.size + fields[14]
            topic = data[tail + 1 : tail + 1 + data[tail]].decode()
            properties = properties_of(data[tail + 3 + data[tail] : end])
            found.append(Place(start, end, properties.get("UNIQ_KEY", ""), topic))
        at = data.find(RECORD_MAGIC, at + 1)
    at = data.find(PACKED_MAGIC)
    while at >= 0:
        found += packed_at(data, at - 4, base)
        at = data.find(PACKED_MAGIC, at + 1)
    return sorted(found, key=lambda place: place.start)


def packed_at(data: bytes, start: int, base: int) -> list[Place]:
    """The packed record that begins at a place (`docs/format/packed.md`), if one does."""
    size, _, crc = struct.unpack_from(">III", data, start)
    end, position = start + size, base + start
    if crc != zlib.crc32(data[start + 12 : end]) ^ size ^ position & 0xFFFFFFFF ^ position >> 32:
        return []
    flags, topic_size, _, id_size = data[start + 12 : start + 16]
    body_end = start + (76 if flags & 8 else 64) + int.from_bytes(data[start + 17 : start + 20])
    text = data[body_end + id_size : end - topic_size]
    uid = data[body_end : body_end + id_size].hex().upper() or properties_of(text)["UNIQ_KEY"]
    return [Place(start, end, uid, data[end - topic_size : end].decode(), is_packed=True)]


def positions_of(path: Path, rng: random.Random, *, log: bool) -> list[int]:
    """Places to flip: in a log, in every field of some records and some anywhere."""
    size = path.stat().st_size
    if not log:
        if IS_SOAK and size <= EXHAUSTIVE_BYTES_MAX:
            return list(range(size))
        ends = (
            [0, size - 1, size - 9, size - 15]
            if IS_SOAK
            else rng.sample([0, size - 1, size - 9], 1)
        )
        return sorted({*ends, *(rng.randrange(size) for _ in range(FLIPS_PER_FILE))})
    places = walk(path)
    chosen = places if IS_SOAK else rng.sample(places, min(2, len(places)))
    inner = (0, 3, 5, 9, 14, 18, 22, 30, 38, 44, 50, 60, 66, 74, 77, 82, 86, 89)
    fields = [place.start + at for place in chosen for at in (*inner, place.end - place.start - 1)]
    picked = fields if IS_SOAK else rng.sample(fields, min(len(fields), 2 * FLIPS_PER_FILE))
    return sorted({*picked, *(rng.randrange(size) for _ in range(2))})


def contents(store: Store) -> Contents:
    visible: dict[tuple[Queue, int], Seen] = {}
    damaged: list[tuple[Queue, int]] = []
    for queue in store.queues():
        offset, end = store.offset_range(*queue)
        while offset < end:
            result = store.read(*queue, offset, count_max=1)
            damaged += [(queue, at) for at in result.damaged]
            for view in result.records:
                visible[queue, offset] = parse(bytes(view))
            offset = result.next_offset
    corner = store.next_corner(until_ms=FAR_MS, row_count_max=1_000_000)
    window = store.read_window(store.window(corner))
    bad = restore.damaged(window)
    rows = zip(
        window.column("record").to_pylist(), window.column("due_ms").to_pylist(), bad, strict=True
    )
    pending = {parse(record).uid: due_ms for record, due_ms, is_bad in rows if not is_bad}
    return Contents(visible, damaged, pending, int(bad.sum()), store.gate_row_count)


def log_files(path: Path) -> list[Path]:
    return sorted([*(path / "commitlog").iterdir(), *(path / "delaylog").iterdir()])


def derived_files(path: Path) -> list[Path]:
    """All but the logs, and the rules of topics, which people have set."""
    others = {*log_files(path), path / "lock", path / "road.json"}
    return sorted(file for file in path.rglob("*") if file.is_file() and file not in others)


def damage_of(path: Path, name: str, size: int) -> list[tuple[int, int]]:
    """What a walk through a log reports."""
    reader = LogReader(Files(), path / name, size)
    bases = sorted(int(file.name) for file in (path / name).iterdir())
    found = [(damage.start, damage.end) for damage in scan(reader, bases[0], bases).damage]
    reader.close()
    return found


@pytest.mark.slow
@pytest.mark.parametrize("is_checkpoint_lost", [False, True], ids=["checkpoint", "no checkpoint"])
@pytest.mark.parametrize("name", ["commitlog", "delaylog"])
def test_damaged_record_is_reported_and_its_neighbours_survive(
    name: str, is_checkpoint_lost: bool, finished: Finished, fast_path: Path
) -> None:
    rng = random.Random(f"{SEED} {name} {is_checkpoint_lost}")
    driver = finished.copy_to(fast_path / "sound")
    driver.open()
    sound = contents(driver.store)
    driver.close()
    assert sound.damaged == []

    for file in sorted((finished.path / name).iterdir()):
        places = walk(file)
        for position in positions_of(file, rng, log=True):
            hit = [place for place in places if place.start <= position < place.end]
            flipped = Flip(name, file.name, position, rng.randrange(8), hit[0] if hit else None)
            driver = finished.copy_to(fast_path / "flipped")
            flip(driver.path / name / file.name, position, flipped.bit)
            if is_checkpoint_lost:
                (driver.path / "checkpoint.json").unlink()
                (driver.path / "checkpoint.json.mirror").unlink()
            try:
                _check_report(driver.path, flipped)
                driver.open()
                _check_survivors(driver.store, flipped, sound)
                driver.close()
            except BaseException as error:
                error.add_note(f"DUELINE_CRASH_SEED={SEED}: {flipped}")
                raise
            shutil.rmtree(driver.path)


def _check_report(path: Path, flipped: Flip) -> None:
    """A walk through the log reports the damaged record, and no other."""
    size = OPTIONS.commit_segment_size_bytes
    if flipped.log == "delaylog":
        size = OPTIONS.delay_segment_size_bytes
    reported = damage_of(path, flipped.log, size)
    if flipped.hit is not None and not flipped.is_in_offset:
        base = int(flipped.file)
        start, end = base + flipped.hit.start, base + flipped.hit.end
        assert any(first <= base + flipped.position < last for first, last in reported), reported
        assert all(start <= first < end for first, _ in reported), reported


def _check_survivors(store: Store, flipped: Flip, sound: Contents) -> None:
    found = contents(store)
    is_commit = flipped.log == "commitlog"
    victims = {at for at, seen in sound.visible.items() if is_commit and seen.uid == flipped.victim}
    visible = {at: seen for at, seen in sound.visible.items() if at not in victims}
    if victims and found.visible != visible:
        # Without a checkpoint there is no place in a queue for a record that cannot be read.
        assert store.report.damage
        uids = [seen.uid for _, seen in sorted(visible.items())]
        assert [seen.uid for _, seen in sorted(found.visible.items())] == uids
    else:
        assert found.visible == visible
        assert set(found.damaged) == victims or (not found.damaged and store.report.damage)
    pending = dict(sound.pending)
    # A waiting record is found through the timeline and known by its number: it is still whole.
    is_whole = flipped.is_in_position and flipped.victim in found.pending
    if not is_commit and not is_whole and pending.pop(flipped.victim, None) is not None:
        assert found.damaged_pending == 1 or store.report.damage
    assert found.pending == pending
    if found.at_gate != sound.at_gate:
        assert found.at_gate == sound.at_gate - 1
        assert is_commit
        assert store.report.damage


@pytest.mark.slow
def test_damage_in_derived_files_is_repaired(finished: Finished, fast_path: Path) -> None:
    rng = random.Random(f"{SEED} derived")
    noticed: set[str] = set()

    for file in derived_files(finished.path):
        for position in positions_of(file, rng, log=False):
            path = fast_path / "flipped"
            driver = finished.copy_to(path)
            bit = rng.randrange(8)
            flip(path / file.relative_to(finished.path), position, bit)
            try:
                driver.open()
                if driver.store.report.rebuilt:
                    noticed.add(file.parent.name if file.parent != finished.path else file.name)
                driver.store.open_gate()
                driver.model.settle(driver.store)
                _finish(driver)
            except BaseException as error:
                error.add_note(f"SEED={SEED}: {file} byte {position} bit {bit}")
                raise
            shutil.rmtree(path)

    # Second copies are looked at only if the first is damaged; queues are when they are read.
    names = {"timeline", "delaylog", "commitlog", "checkpoint.json", "timeline.states", "done"}
    assert noticed == names


@pytest.mark.slow
@pytest.mark.parametrize(
    "part", ["timeline", "index/delaylog", "index/commitlog", "consumequeue", "checkpoint.json"]
)
def test_missing_derived_files_are_made_again(
    part: str, finished: Finished, fast_path: Path
) -> None:
    driver = finished.copy_to(fast_path / "store")
    target = driver.path / part
    if target.is_dir():
        for file in [file for file in target.rglob("*") if file.is_file()]:
            file.unlink()
    else:
        target.unlink()

    driver.open()
    driver.store.open_gate()
    driver.model.settle(driver.store)

    _finish(driver)


def test_everything_derived_can_be_lost_at_once(finished: Finished, fast_path: Path) -> None:
    """Runs, indexes, queues and checkpoint; the logs and the states are what it takes."""
    driver = finished.copy_to(fast_path / "store")
    for file in derived_files(driver.path):
        if not file.name.startswith("timeline.states"):
            file.unlink()

    driver.open()
    driver.store.open_gate()
    driver.model.settle(driver.store)

    _finish(driver)


def _finish(driver: Driver) -> None:
    """Everything that is left is delivered, once and in time."""
    driver.put("after the damage", delay_ms=10)
    driver.deliver(500_000)
    driver.clock.advance(500_000)
    driver.open_gate()
    driver.store.checkpoint()
    driver.reopen()
    driver.model.check_all_delivered(driver.store)
    driver.close()
