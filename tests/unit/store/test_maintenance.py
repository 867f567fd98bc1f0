"""Housekeeping: checkpoints when they are due, old segments deleted, sparse ones compacted."""

from __future__ import annotations

import shutil
from dataclasses import replace
from pathlib import Path

import pytest
from tests.unit.store.making import (
    SMALL,
    START_MS,
    Wall,
    bodies,
    carry_over,
    delayed,
    open_store,
    ordinary,
    read_all,
    take_window,
)

from dueline.store import Answer, ReadStatus, Store, restore
from dueline.store.record import GAP_MAGIC

KEPT_MS = 60_000
OPTIONS = replace(SMALL, retention_ms=KEPT_MS, disk_used_ratio_max=1.0, compact_live_ratio=0.2)


@pytest.fixture
def wall() -> Wall:
    return Wall()


@pytest.fixture
def store(tmp_path: Path, wall: Wall) -> Store:
    return open_store(tmp_path / "store", wall, OPTIONS)


def reopened(store: Store, wall: Wall) -> Store:
    store.close()
    return open_store(store.path, wall, OPTIONS)


def segments(store: Store, log: str) -> list[int]:
    return sorted(int(path.name) for path in (store.path / log).iterdir())


# --- the commit log -------------------------------------------------------------------------------


def fill(store: Store, first: int, count: int) -> None:
    for number in range(first, first + count):
        store.put(ordinary(b"%d" % number + bytes(1000), KEYS=f"k{number}"))


def test_old_segments_are_deleted_and_offsets_stay(store: Store, wall: Wall) -> None:
    fill(store, 0, 40)
    store.checkpoint()
    wall.advance(KEPT_MS + 1)
    fill(store, 40, 20)
    store.checkpoint()

    retained = store.retain()

    assert retained.commit_segments == 2
    start, end = store.offset_range("orders", 0)
    assert end == 60
    assert 26 <= start <= 40
    found = [int(record.body.split(b"\0")[0]) for record in read_all(store)]
    assert found == [*range(start, 60)]
    assert store.read("orders", 0, 0).status is ReadStatus.BEFORE_START
    assert store.query("orders", "k0") == []
    assert store.search_offset("orders", 0, 0) == start

    for again in (reopened(store, wall),):
        assert again.offset_range("orders", 0) == (start, end)
        assert [int(r.body.split(b"\0")[0]) for r in read_all(again)] == [*range(start, 60)]
        assert again.report.rebuilt == []
        again.close()


def test_young_segments_are_kept(store: Store, wall: Wall) -> None:
    fill(store, 0, 40)
    store.checkpoint()
    wall.advance(KEPT_MS - 1)

    assert store.retain().commit_segments == 0
    store.close()


def test_segment_being_written_is_kept(store: Store, wall: Wall) -> None:
    fill(store, 0, 5)
    wall.advance(10 * KEPT_MS)
    store.checkpoint()

    assert store.retain().commit_segments == 0
    assert len(bodies(store)) == 5
    store.close()


def test_full_disk_costs_the_oldest_segment_if_the_operator_says_so(
    tmp_path: Path, wall: Wall
) -> None:
    options = replace(OPTIONS, disk_used_ratio_max=0.0, delete_early=True)
    with open_store(tmp_path, wall, options) as store:
        fill(store, 0, 60)
        store.checkpoint()
        before = segments(store, "commitlog")

        assert store.retain().commit_segments == 1

        assert segments(store, "commitlog") == before[1:]


def test_what_waits_at_the_gate_is_never_deleted(store: Store, wall: Wall) -> None:
    store.put(delayed(10 * KEPT_MS, b"waits"))
    carry_over(store)
    fill(store, 0, 60)
    wall.advance(5 * KEPT_MS)
    store.checkpoint()

    assert store.retain().commit_segments == 0

    wall.advance(5 * KEPT_MS)
    store.open_gate()
    assert bodies(store)[-1] == b"waits"
    store.close()


# --- the delay log --------------------------------------------------------------------------------


def fill_delayed(store: Store, count: int, delay_ms: int = 1000, pad: int = 1000) -> None:
    store.put_all([delayed(delay_ms, b"%d" % number + bytes(pad)) for number in range(count)])


def test_segments_in_which_everything_is_done_go(store: Store, wall: Wall) -> None:
    fill_delayed(store, 60)
    store.checkpoint()
    assert store.retain().delay_segments == 0
    before = segments(store, "delaylog")

    carry_over(store)
    assert store.retain().delay_segments == 0, "still at the gate: it can be cancelled"
    wall.advance(1000)
    store.open_gate()
    retained = store.retain()

    assert retained.delay_segments == len(before) - 1
    assert segments(store, "delaylog") == before[-1:]
    assert store.put(delayed(5, b"next")).seq == 60
    again = reopened(store, wall)
    assert again.pending_count() == 1
    assert again.put(delayed(5)).seq == 61
    again.close()


def test_long_delay_keeps_its_segment_and_is_delivered(store: Store, wall: Wall) -> None:
    store.put(delayed(50 * KEPT_MS, b"long", KEYS="long"))
    fill_delayed(store, 60)
    store.checkpoint()
    carry_over(store, ahead_ms=2000)
    wall.advance(2000)
    store.open_gate()

    store.retain()

    assert 0 in segments(store, "delaylog")
    assert store.find_delayed("long")[0].due_ms == START_MS + 50 * KEPT_MS
    again = reopened(store, wall)
    wall.advance(50 * KEPT_MS)
    carry_over(again)
    assert bodies(again)[-1] == b"long"
    again.close()


def sparse(store: Store, wall: Wall) -> None:
    """A closed segment of some 150 short messages of which one is still pending."""
    store.put_all([delayed(1000, b"%d" % number, KEYS=f"k{number}") for number in range(50)])
    store.put(delayed(50 * KEPT_MS, b"survivor", KEYS="survivor"))
    store.put_all([delayed(1000, b"%d" % number) for number in range(150)])
    store.checkpoint()
    carry_over(store, ahead_ms=2000)
    wall.advance(2000)
    store.open_gate()


def test_sparse_segment_is_compacted(store: Store, wall: Wall) -> None:
    sparse(store, wall)
    (before,) = store.find_delayed("survivor")
    path = store.path / "delaylog" / ("0" * 20)
    size = path.stat().st_size

    retained = store.retain()

    assert retained.compacted_segments == 1
    assert path.stat().st_size == size, "positions stay"
    assert path.read_bytes()[4:8] == GAP_MAGIC.to_bytes(4, "big")
    (after,) = store.find_delayed("survivor")
    assert after == before
    assert not restore.damaged(take_window(store)).any()
    assert store.cancel("k0") is Answer.DELIVERED, "the commit log still knows"
    assert store.retain().compacted_segments == 0, "once is enough"

    again = reopened(store, wall)
    assert again.pending_count() == 1
    wall.advance(50 * KEPT_MS)
    carry_over(again)
    assert bodies(again)[-1] == b"survivor"
    again.close()


def test_compacted_store_is_rebuilt_without_its_snapshots(store: Store, wall: Wall) -> None:
    """What is known of a segment's numbers must not shrink to the first few of them."""
    sparse(store, wall)
    store.retain()
    store.close()
    for name in ("checkpoint.json", "checkpoint.json.mirror"):
        (store.path / name).unlink()

    with open_store(store.path, wall, OPTIONS) as again:
        assert again.pending_count() == 1
        again.checkpoint()
        again.retain()
        assert 0 in segments(again, "delaylog")
        assert [message.seq for message in again.find_delayed("survivor")] == [50]


def test_offsets_of_an_emptied_queue_are_not_given_out_again(store: Store, wall: Wall) -> None:
    """Nothing in the logs tells of them: all that stood in the queue is deleted."""
    store.put(ordinary(b"once", "rare"))
    fill(store, 0, 40)
    store.checkpoint()
    wall.advance(KEPT_MS + 1)
    fill(store, 40, 20)
    store.checkpoint()
    assert store.retain().commit_segments > 0
    assert store.offset_range("rare", 0) == (1, 1)
    store.close()
    for name in ("checkpoint.json", "checkpoint.json.mirror"):
        (store.path / name).unlink()

    with open_store(store.path, wall, OPTIONS) as again:
        assert again.offset_range("rare", 0) == (1, 1)
        assert again.put(ordinary(b"again", "rare")).queue_offset == 1
    shutil.rmtree(store.path / "consumequeue")

    with open_store(store.path, wall, OPTIONS) as again:
        (found,) = read_all(again, "rare")
        assert (found.queue_offset, found.body) == (1, b"again"), "its file is made again as well"


def test_crowded_segment_is_not_compacted(store: Store, wall: Wall) -> None:
    store.put_all([delayed(1000 if number % 2 else 90_000, bytes(200)) for number in range(80)])
    store.checkpoint()
    carry_over(store, ahead_ms=2000)
    wall.advance(2000)
    store.open_gate()

    assert store.retain().compacted_segments == 0
    store.close()


def test_segment_with_something_at_the_gate_is_not_compacted(store: Store, wall: Wall) -> None:
    """It can still be cancelled, and its record says which message a key means."""
    sparse(store, wall)
    store.reschedule("survivor", store.clock.now_ms() + 500)
    carry_over(store)

    store.checkpoint()
    store.retain()

    assert store.cancel("survivor") is Answer.CANCELLED
    store.close()


# --- checkpoints ----------------------------------------------------------------------------------


def test_open_run_is_sealed_when_it_is_full(tmp_path: Path, wall: Wall) -> None:
    with open_store(tmp_path, wall, replace(OPTIONS, open_units_max=10)) as store:
        for _ in range(19):
            store.put(delayed(1000))
        assert store.stats()["open_units"] == 19

        store.put(delayed(1000))

        assert store.stats()["open_units"] == 0
        assert store.stats()["run_count"] == 1


def test_maintain_makes_a_checkpoint_only_when_it_is_worth_it(tmp_path: Path, wall: Wall) -> None:
    with open_store(tmp_path, wall, replace(OPTIONS, open_units_max=10)) as store:
        fill_delayed(store, 9, pad=0)
        store.maintain()
        assert store.stats()["open_units"] == 9

        fill_delayed(store, 1, pad=0)
        store.maintain()
        assert store.stats()["open_units"] == 0
        assert store.pending_count() == 10


def test_many_checkpoints_leave_few_files(tmp_path: Path, wall: Wall) -> None:
    with open_store(tmp_path, wall, OPTIONS) as store:
        for number in range(30):
            store.put_all([delayed(1000 + number, KEYS=f"d{number}"), ordinary(KEYS=f"o{number}")])
            store.checkpoint()

        for folder in ("timeline", "index/delaylog", "index/commitlog"):
            assert len(list((tmp_path / folder).iterdir())) < 12, folder
        assert store.pending_count() == 30
        assert all(len(store.find_delayed(f"d{number}")) == 1 for number in range(30))
        assert all(len(store.query("orders", f"o{number}")) == 1 for number in range(30))
