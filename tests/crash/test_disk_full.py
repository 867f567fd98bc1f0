"""A full disk: puts are refused with a clear error, nothing is lost, and it works again later.

The disk is a real one: a file system in memory of a few hundred kilobytes, mounted for the test.
"""

from __future__ import annotations

import errno
from collections import Counter
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pyarrow as pa
import pytest
from tests.crash.observing import FAR_MS, observe
from tests.small_disk import SmallDisk, mounted

from dueline.errors import StoreClosed, Unavailable
from dueline.message import Message
from dueline.store import Store, StoreOptions, restore
from dueline.testing import FaultyFiles, ManualClock

DISK_SIZE_BYTES = 2 << 20
OPTIONS = StoreOptions(
    commit_segment_size_bytes=64 << 10,
    delay_segment_size_bytes=64 << 10,
    queue_file_units=100,
    disk_used_ratio_max=1.0,
)


@pytest.fixture
def disk(tmp_path: Path) -> Iterator[SmallDisk]:
    with mounted(tmp_path / "disk", DISK_SIZE_BYTES) as disk:
        yield disk


def ordinary(uid: str, queue_id: int = 0) -> Message:
    return Message(
        topic="t", queue_id=queue_id, body=uid.encode() * 20, properties={"UNIQ_KEY": uid}
    )


def delayed(uid: str, delay_ms: int, queue_id: int = 0) -> Message:
    message = ordinary(uid, queue_id)
    return replace(message, properties={**message.properties, "TIMER_DELAY_MS": str(delay_ms)})


def table(uids: list[str]) -> pa.Table:
    return pa.table(
        {
            "topic": ["t"] * len(uids),
            "body": [uid.encode() * 20 for uid in uids],
            "unique_id": uids,
            "delay_ms": [60_000] * len(uids),
        }
    )


def deliver_all(store: Store) -> None:
    corner = store.next_corner(until_ms=FAR_MS, row_count_max=1_000_000)
    store.deliver([restore.deliveries(store.read_window(store.window(corner)))])


def all_uids(store: Store, uids: set[str]) -> Counter[str]:
    found = observe(store, sorted(uids))
    counts = found.visible_counts()
    counts.update({uid: len(units) for uid, units in found.pending.items()})
    counts.update(found.at_gate.keys())
    return counts


def put_until_refused(store: Store, prefix: str, accepted: set[str]) -> str:
    """Put ordinary and delayed messages and tables until the disk is full; returns the reason."""
    for number in range(10_000):
        uids = [f"{prefix}{number}"]
        try:
            if number % 3 == 0:
                store.put(ordinary(uids[0], queue_id=number % 2))
            elif number % 3 == 1:
                store.put(delayed(uids[0], delay_ms=60_000))
            else:
                uids = [f"{prefix}{number}-{row}" for row in range(20)]
                store.put_many(table(uids))
        except Unavailable as error:
            return error.message
        accepted.update(uids)
    raise AssertionError("the disk never became full")


@pytest.mark.slow
def test_full_disk_refuses_puts_and_freed_space_takes_them_again(disk: SmallDisk) -> None:
    clock = ManualClock()
    accepted: set[str] = set()
    store = Store.open(disk.path / "store", OPTIONS, clock=clock)
    store.put(ordinary("first"))
    accepted.add("first")
    disk.fill(but_bytes=300 << 10)

    reason = put_until_refused(store, "a", accepted)
    disk.fill()

    assert "disk full" in reason
    assert "free disk space" in reason
    assert len(accepted) > 100
    assert all_uids(store, accepted) == dict.fromkeys(accepted, 1)
    disk.free()
    disk.fill(but_bytes=100 << 10)
    put_until_refused(store, "b", accepted)
    disk.free()
    store.put(ordinary("last"))
    accepted.add("last")
    deliver_all(store)
    clock.advance(120_000)
    store.open_gate()
    assert observe(store, []).visible_counts() == dict.fromkeys(accepted, 1)
    store.close()


@pytest.mark.slow
def test_store_closes_and_opens_again_on_a_full_disk(disk: SmallDisk) -> None:
    clock = ManualClock()
    accepted: set[str] = set()
    store = Store.open(disk.path / "store", OPTIONS, clock=clock)
    disk.fill(but_bytes=300 << 10)
    put_until_refused(store, "a", accepted)
    disk.fill()

    store.close()
    store = Store.open(disk.path / "store", OPTIONS, clock=clock)

    assert all_uids(store, accepted) == dict.fromkeys(accepted, 1)
    with pytest.raises(Unavailable):
        store.put_many(table([f"x{row}" for row in range(400)]))
    with pytest.raises(Unavailable):
        store.checkpoint()
    disk.free()
    store.checkpoint()
    store.put(ordinary("after"))
    assert all_uids(store, accepted)["after"] == 1
    store.close()


@pytest.mark.slow
def test_gate_opens_on_a_full_disk(disk: SmallDisk) -> None:
    """What is due is carried over already; that its queue has no file yet is no reason to wait."""
    clock = ManualClock()
    store = Store.open(disk.path / "store", OPTIONS, clock=clock)
    store.put(delayed("due", delay_ms=1_000, queue_id=7))
    deliver_all(store)
    disk.fill()
    clock.advance(1_000)

    assert store.open_gate() == 1
    assert store.offset_range("t", 7) == (0, 1)
    assert len(store.read("t", 7, 0).records) == 1
    with pytest.raises(Unavailable):
        store.checkpoint()
    assert len(store.read("t", 7, 0).records) == 1
    store.close()

    with Store.open(disk.path / "store", OPTIONS, clock=clock) as store:
        assert len(store.read("t", 7, 0).records) == 1, "and so after a start on a full disk"
        disk.free()
        store.checkpoint()
        assert len(store.read("t", 7, 0).records) == 1


@pytest.mark.slow
def test_retention_makes_room_on_a_full_disk(disk: SmallDisk) -> None:
    clock = ManualClock()
    options = replace(OPTIONS, retention_ms=1_000)
    store = Store.open(disk.path / "store", options, clock=clock)
    for number in range(600):
        store.put(ordinary(f"a{number}"))
    store.checkpoint()
    put_until_refused(store, "b", set())
    clock.advance(2_000)

    assert store.retain().commit_segments > 0

    store.put(ordinary("there is room"))
    store.close()


def test_put_is_accepted_although_the_checkpoint_behind_it_finds_no_space(fast_path: Path) -> None:
    files = FaultyFiles()
    options = replace(OPTIONS, open_units_max=2)
    store = Store.open(fast_path / "store", options, clock=ManualClock(), files=files)
    for number in range(3):
        store.put(delayed(f"d{number}", delay_ms=1_000))
    files.is_full = True

    result = store.put(delayed("d3", delay_ms=1_000))  # the fourth makes the open run too long

    assert result.seq == 3
    assert store.pending_count() == 4
    files.is_full = False
    store.put(delayed("d4", delay_ms=1_000))
    store.close()
    with Store.open(fast_path / "store", options, clock=ManualClock()) as store:
        assert all_uids(store, set()) == dict.fromkeys(["d0", "d1", "d2", "d3", "d4"], 1)


def test_refused_delivery_can_be_repeated(fast_path: Path) -> None:
    files = FaultyFiles()
    clock = ManualClock()
    store = Store.open(fast_path / "store", OPTIONS, clock=clock, files=files)
    store.put(delayed("d", delay_ms=1_000))
    files.is_full = True

    with pytest.raises(Unavailable):
        deliver_all(store)
    files.is_full = False
    deliver_all(store)

    assert store.gate_row_count == 1
    store.close()


@pytest.mark.parametrize("part", ["commitlog", "delaylog"])
@pytest.mark.parametrize("kind", ["sync", "write"])
def test_failed_write_or_fsync_closes_the_store_and_reopening_repairs(
    kind: str, part: str, fast_path: Path
) -> None:
    files = FaultyFiles()
    clock = ManualClock()
    store = Store.open(fast_path / "store", OPTIONS, clock=clock, files=files)
    store.put(ordinary("a"))
    store.put(delayed("d", delay_ms=1_000))
    message = ordinary("lost") if part == "commitlog" else delayed("lost", delay_ms=1_000)
    files.fail(kind, errno.EIO, path_part=part)

    with pytest.raises(StoreClosed, match="failed write"):
        store.put(message)
    with pytest.raises(StoreClosed, match="open it again"):
        store.put(ordinary("b"))
    store.close()

    store = Store.open(fast_path / "store", OPTIONS, clock=clock, files=files)
    found = all_uids(store, {"a", "d", "lost"})
    assert found["a"] == found["d"] == 1
    assert found["lost"] <= 1, "whether it was written is not known"
    store.put(ordinary("b"))
    assert all_uids(store, set())["b"] == 1
    store.close()
