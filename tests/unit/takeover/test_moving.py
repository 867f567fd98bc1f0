"""Taking over a store: what arrives, once, and that it can be stopped at any moment."""

from __future__ import annotations

import random
import shutil
from dataclasses import replace
from pathlib import Path

import pytest
from tests.unit.store.making import Wall, bodies, carry_over, open_store, read_all
from tests.unit.takeover.conftest import LEVELS, TakeOver
from tests.unit.takeover.making import HALF_TOPIC, START_MS, FakeBroker

from dueline.broker.consumer_offsets import ConsumerOffsets
from dueline.errors import CorruptRecord, InvalidRequest, StoreError, StoreLocked
from dueline.message import Message
from dueline.store import Files, Store, StoreOptions
from dueline.store.imports import Imports
from dueline.takeover import Options, Source, moving, take_over
from dueline.takeover.moving import Destination
from dueline.takeover.rows import Kind
from dueline.testing import FaultyFiles, PowerCut


def reopened(to: Destination, wall: Wall) -> Store:
    return open_store(to.folder / "store", wall, to.store)


def test_pending_messages_arrive_with_their_due_times(
    fake: FakeBroker, move: TakeOver, to: Destination, wall: Wall
) -> None:
    fake.delayed("orders", 2, b"a minute", 5, TAGS="red", KEYS="k1 k2", mine="x")
    fake.now_ms += 7
    fake.delayed("orders", 2, b"ten seconds", 3, UNIQ_KEY="U2", reconsume_times=2)

    moved = move()

    assert moved.kinds == {Kind.WAITING: 2}
    assert (moved.due_min_ms, moved.due_max_ms) == (START_MS + 10_007, START_MS + 60_000)
    with reopened(to, wall) as store:
        (found,) = store.find_delayed("U2")
        assert (found.due_ms, found.topic, found.queue_id) == (START_MS + 10_007, "orders", 2)
        carry_over(store, ahead_ms=0)
        second, first = read_all(store, "orders", 2)
    assert (second.body, first.body) == (b"ten seconds", b"a minute")
    assert (second.reconsume_times, second.born_ms) == (2, START_MS + 4)
    assert first.born_host == b"\x0a\x00\x00\x05\x00\x00\x12\x67"
    assert first.flag == 7
    assert b"TAGS\x01red\x02KEYS\x01k1 k2\x02mine\x01x" in first.properties


def test_message_that_is_not_due_is_not_delivered_before(
    fake: FakeBroker, move: TakeOver, to: Destination, wall: Wall
) -> None:
    wall.now_ms = START_MS + 1
    fake.delayed("orders", 0, b"later", 4)

    move()

    with reopened(to, wall) as store:
        carry_over(store)
        wall.now_ms = START_MS + 29_999
        store.open_gate()
        assert bodies(store, "orders") == []
        wall.now_ms = START_MS + 30_000
        store.open_gate()
        (record,) = read_all(store, "orders")
    assert record.store_ms == START_MS + 30_000


def test_unread_messages_keep_their_offsets_and_groups_go_on(
    fake: FakeBroker, move: TakeOver, to: Destination, wall: Wall
) -> None:
    for number in range(20):
        fake.message("orders", number % 2, b"%d" % number)
    fake.offsets = {"orders@billing": {0: 7, 1: 9}, "orders@mail": {0: 5, 1: 9}}
    fake.groups = ["billing", "mail", "TOOLS_CONSUMER"]

    moved = move()

    assert moved.kinds == {Kind.VISIBLE: 6, Kind.READ: 14}
    assert (moved.topic_count, moved.group_count, moved.offset_count) == (1, 2, 4)
    with reopened(to, wall) as store:
        assert store.offset_range("orders", 0) == (5, 10)
        assert store.offset_range("orders", 1) == (9, 10)
        found = read_all(store, "orders", 0)
        assert [record.body for record in found] == [b"10", b"12", b"14", b"16", b"18"]
        assert [record.queue_offset for record in found] == [5, 6, 7, 8, 9]
    offsets = ConsumerOffsets(to.folder / "consumerOffset.json", Files())
    assert offsets.get("billing", "orders") == {0: 7, 1: 9}
    assert offsets.get("mail", "orders") == {0: 5, 1: 9}


def test_queue_that_was_read_to_its_end_goes_on_counting(
    fake: FakeBroker, move: TakeOver, to: Destination, wall: Wall
) -> None:
    for _ in range(9):
        fake.message("orders", 0, b"read")
    fake.offsets = {"orders@billing": {0: 9}}

    move()

    with reopened(to, wall) as store:
        assert store.offset_range("orders", 0) == (9, 9)
        assert store.put(Message(topic="orders", body=b"new")).queue_offset == 9
    with reopened(to, wall) as store:
        assert bodies(store, "orders") == [b"new"]


def test_offsets_of_deleted_topics_bring_nothing_back(
    fake: FakeBroker, move: TakeOver, to: Destination, wall: Wall
) -> None:
    fake.message("orders", 0, b"x")
    fake.offsets = {"gone@billing": {0: 9}, "bad topic!@billing": {0: 9}, "orders@x": {-1: 4}}

    move()

    with reopened(to, wall) as store:
        assert store.queues() == [("orders", 0)]


def test_messages_follow_those_that_are_there(
    fake: FakeBroker, move: TakeOver, to: Destination, wall: Wall
) -> None:
    with reopened(to, wall) as store:
        for number in range(3):
            store.put(Message(topic="orders", body=b"here-%d" % number))
    offsets = ConsumerOffsets(to.folder / "consumerOffset.json", Files())
    offsets.set("done", "orders", {0: 3})
    offsets.set("behind", "orders", {0: 1})
    offsets.save()
    for number in range(5):
        fake.message("orders", 0, b"there-%d" % number)
    fake.offsets = {f"orders@{group}": {0: 2} for group in ("done", "behind", "new")}

    moved = move()

    with reopened(to, wall) as store:
        assert bodies(store, "orders") == [
            b"here-0", b"here-1", b"here-2", b"there-2", b"there-3", b"there-4"
        ]  # fmt: skip
    offsets = ConsumerOffsets(to.folder / "consumerOffset.json", Files())
    assert offsets.get("done", "orders") == {0: 3}
    assert offsets.get("new", "orders") == {0: 3}
    assert offsets.get("behind", "orders") == {0: 1}
    assert moved.kept_offset_count == 1


def test_pending_only_takes_nothing_else(
    fake: FakeBroker, move: TakeOver, to: Destination, wall: Wall
) -> None:
    fake.message("orders", 0, b"ordinary")
    fake.put(HALF_TOPIC, 0, b"half", UNIQ_KEY="H", REAL_TOPIC="orders", REAL_QID="0")
    fake.delayed("orders", 0, b"later", 1)
    fake.offsets = {"orders@billing": {0: 0}}

    moved = move(messages="none")

    assert moved.kinds == {Kind.NOT_ASKED: 2, Kind.WAITING: 1}
    with reopened(to, wall) as store:
        assert store.pending_count() == 1
        assert store.queues() == []
    assert not (to.folder / "consumerOffset.json").exists()


def test_all_messages_are_taken_if_asked_for(
    fake: FakeBroker, move: TakeOver, to: Destination, wall: Wall
) -> None:
    for number in range(4):
        fake.message("orders", 0, b"%d" % number)
    fake.offsets = {"orders@billing": {0: 4}}

    move(messages="all")

    with reopened(to, wall) as store:
        assert bodies(store, "orders") == [b"0", b"1", b"2", b"3"]
    offsets = ConsumerOffsets(to.folder / "consumerOffset.json", Files())
    assert offsets.get("billing", "orders") == {0: 4}


def test_second_run_takes_nothing(
    fake: FakeBroker, move: TakeOver, to: Destination, wall: Wall
) -> None:
    fake.delayed("orders", 0, b"later", 1)
    fake.message("orders", 0, b"now")
    move()

    again = move()

    assert again.finished_before_ms == wall.now_ms
    with reopened(to, wall) as store:
        assert store.pending_count() == 1
        assert bodies(store, "orders") == [b"now"]


def test_source_that_has_grown_since_is_refused(
    fake: FakeBroker, move: TakeOver, tmp_path: Path
) -> None:
    fake.delayed("orders", 0, b"later", 1)
    move()
    shutil.rmtree(fake.path)
    fake.message("orders", 0, b"after")
    fake.save()

    with pytest.raises(InvalidRequest, match="a broker ran on it since"):
        move()


def test_other_choice_for_the_same_source_is_refused(fake: FakeBroker, move: TakeOver) -> None:
    fake.message("orders", 0, b"now")
    move(messages="none")

    with pytest.raises(InvalidRequest, match="into a new folder"):
        move()


def test_two_sources_come_together(
    fake: FakeBroker, move: TakeOver, to: Destination, wall: Wall, tmp_path: Path
) -> None:
    other = FakeBroker(tmp_path / "other", now_ms=START_MS + 5)
    for broker, name in ((fake, b"a"), (other, b"b")):
        broker.message("orders", 0, name)
        broker.delayed("orders", 0, name, 1)
    move()
    with Source(other.save()) as source:
        take_over(source, to, Options(levels=LEVELS))

    with reopened(to, wall) as store:
        assert bodies(store, "orders") == [b"a", b"b"]
        assert store.pending_count() == 2


def test_dry_run_writes_nothing(fake: FakeBroker, move: TakeOver, to: Destination) -> None:
    fake.delayed("orders", 0, b"later", 1)
    fake.message("orders", 0, b"now")

    moved = move(dry_run=True)

    assert moved.kinds == {Kind.WAITING: 1, Kind.VISIBLE: 1}
    assert not to.folder.exists()


def test_used_destination_is_refused(
    fake: FakeBroker, move: TakeOver, to: Destination, wall: Wall
) -> None:
    fake.message("orders", 0, b"now")

    with reopened(to, wall), pytest.raises(StoreLocked):
        _in_another_process(fake, to)


def _in_another_process(fake: FakeBroker, to: Destination) -> None:
    """A lock of this process does not stop this process: ask a lock that is held as by another."""

    class Locked(Files):
        def lock(self, path: Path) -> object:  # type: ignore[override]
            raise StoreLocked(f"{path}: in use")

    with Source(fake.save()) as source:
        take_over(source, replace(to, files=Locked()), Options(levels=LEVELS))


def test_damage_is_refused_or_left_behind(
    fake: FakeBroker, move: TakeOver, to: Destination, wall: Wall
) -> None:
    positions = [fake.message("orders", 0, b"body-%d" % number) for number in range(4)]
    fake.offsets = {"orders@billing": {0: 3}, "orders@mail": {0: 0}}
    segment = fake.save() / "commitlog" / ("0" * 20)
    data = bytearray(segment.read_bytes())
    data[positions[1] + 90] ^= 1
    segment.write_bytes(data)

    with pytest.raises(CorruptRecord, match="--skip-damaged"):
        move()
    assert not to.folder.exists()
    moved = move(skip_damaged=True)

    assert [one.start for one in moved.survey.damage] == [positions[1]]
    with reopened(to, wall) as store:
        assert bodies(store, "orders") == [b"body-0", b"body-2", b"body-3"]
    offsets = ConsumerOffsets(to.folder / "consumerOffset.json", Files())
    assert offsets.get("billing", "orders") == {0: 2}, "one of three may be gone: never skip"
    assert offsets.get("mail", "orders") == {0: 0}


def test_store_that_was_used_in_between_is_noticed(
    fake: FakeBroker, move: TakeOver, to: Destination, wall: Wall, monkeypatch: pytest.MonkeyPatch
) -> None:
    fake.message("orders", 0, b"now")
    with monkeypatch.context() as patch:
        patch.setattr(moving._Mover, "_take", lambda *_: (_ for _ in ()).throw(KeyboardInterrupt))
        with pytest.raises(KeyboardInterrupt):
            move()
    with reopened(to, wall) as store:
        store.put_all([Message(topic="orders", body=b"stranger")] * 3)

    with pytest.raises(StoreError, match="used in between"):
        move()


def fill(fake: FakeBroker) -> None:
    """A bit of everything, over several segments and batches."""
    rng = random.Random(7)
    for number in range(60):
        fake.now_ms += 10
        body = b"%d-" % number + bytes(rng.randrange(200))
        if number % 3:
            fake.message(rng.choice(["orders", "mails"]), rng.randrange(2), body)
        else:
            fake.delayed("orders", rng.randrange(2), body, rng.randrange(1, 6))
    fake.offsets = {"orders@billing": {0: 4, 1: 2}, "mails@post": {0: 1, 1: 0}}
    fake.put(HALF_TOPIC, 0, b"half", UNIQ_KEY="H", REAL_TOPIC="orders", REAL_QID="0", PGROUP="g")


def contents(to: Destination, wall: Wall) -> dict[str, list[tuple[int, bytes]]]:
    """Everything that consumers could ever see, by queue."""
    with reopened(to, wall) as store:
        while carry_over(store, row_count_max=7).delivered_count:
            pass
        wall.now_ms += 1 << 30
        store.open_gate()
        return {
            f"{topic}/{queue_id}": [
                (record.queue_offset, record.body) for record in read_all(store, topic, queue_id)
            ]
            for topic, queue_id in sorted(store.queues())
        }


def is_power_cut(error: BaseException | None) -> bool:
    return error is not None and (isinstance(error, PowerCut) or is_power_cut(error.__context__))


@pytest.mark.parametrize("seed", range(12))
def test_import_that_is_stopped_anywhere_is_finished_by_the_next(
    fake: FakeBroker, tmp_path: Path, seed: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Killed, or cut off from power, at any disk operation, several times over."""
    monkeypatch.setattr(moving, "ROWS_MAX", 5)
    fill(fake)
    fake.save()
    rng = random.Random(seed)
    wall = Wall(START_MS + 1_000)
    to = Destination(
        folder=tmp_path / "whole",
        store=replace(StoreOptions(), commit_segment_size_bytes=16_384,
                      delay_segment_size_bytes=16_384, queue_file_units=7, levels=LEVELS),
        clock=wall.clock(), files=FaultyFiles(),
    )  # fmt: skip
    with Source(fake.path) as source:
        take_over(source, to, Options(levels=LEVELS))
    assert isinstance(to.files, FaultyFiles)
    operations = to.files.operation_count
    expected = contents(to, Wall(wall.now_ms))
    files = FaultyFiles()
    broken = replace(to, folder=tmp_path / "broken", files=files)

    crashes = 0
    for _ in range(4):
        files.stop_at(
            files.operation_count + rng.randrange(1, operations), midway=rng.random() < 0.5
        )
        try:
            with Source(fake.path) as source:
                take_over(source, replace(broken, clock=wall.clock()), Options(levels=LEVELS))
        except BaseException as error:  # closing the dead store may fail for reasons of its own
            if not is_power_cut(error):
                raise
            crashes += 1
            files.power_cut(rng.randrange(1 << 30)) if rng.random() < 0.5 else files.restart()
    files.stop_at(None)
    with Source(fake.path) as source:
        take_over(source, replace(broken, clock=wall.clock()), Options(levels=LEVELS))

    assert Imports(broken.folder, Files()).unfinished is None
    assert contents(broken, Wall(wall.now_ms)) == expected
    assert crashes
