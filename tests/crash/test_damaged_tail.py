"""A damaged record that no checkpoint covers harms nobody else after a crash.

Its neighbours stay at the offsets that were answered, nobody else gets its offset, and what was
written together with it is not taken for torn.
"""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.crash.observing import FAR_MS, observe, parse
from tests.crash.test_regressions import OPTIONS as USUAL
from tests.crash.test_regressions import delayed, deliver_until, ordinary

from dueline.audit import Severity, audit
from dueline.store import PutResult, Store
from dueline.store.holes import first_offset, fit
from dueline.testing import FaultyFiles, ManualClock

COUNT = 6
# A delivered message whose record was damaged is pending again, and would be waited for.
OPTIONS = replace(USUAL, order_wait_ms=0)


class World:
    """A store that can be killed, and have a bit flipped meanwhile."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.clock = ManualClock()
        self.files = FaultyFiles()
        self.store = self._open()

    def _open(self) -> Store:
        return Store.open(self.path, OPTIONS, clock=self.clock, files=self.files)

    def reopen_damaged(self, log: str, position: int, at: int = 100) -> None:
        """As after a kill, with one bit flipped `at` bytes behind the beginning of a record."""
        self.files.restart()
        self.flip(log, position, at)
        self.store = self._open()

    def flip(self, log: str, position: int, at: int) -> None:
        size = OPTIONS.commit_segment_size_bytes
        if log == "delaylog":
            size = OPTIONS.delay_segment_size_bytes
        path = self.path / log / f"{position - position % size:020d}"
        data = bytearray(path.read_bytes())
        data[position % size + at] ^= 1
        path.write_bytes(data)

    def visible(self) -> dict[int, str]:
        """Queue 0 of topic t: offset -> unique id; "" where the record is damaged."""
        start, end = self.store.offset_range("t", 0)
        found = {}
        for offset in range(start, end):
            result = self.store.read("t", 0, offset, count_max=1)
            records = [parse(bytes(view)) for view in result.records]
            assert [record.offset for record in records] == [offset] * len(records)
            assert result.damaged == ([] if records else [offset])
            found[offset] = records[0].uid if records else ""
        return found


def put(store: Store, uids: list[str], *, together: bool) -> list[PutResult]:
    if not together:
        return [store.put(ordinary(uid)) for uid in uids]
    results = store.put_all([ordinary(uid) for uid in uids])
    return [result for result in results if isinstance(result, PutResult)]


@pytest.mark.parametrize("has_checkpoint", [True, False])
@pytest.mark.parametrize("together", [True, False])
@pytest.mark.parametrize("victim", range(COUNT))
def test_neighbours_of_a_damaged_record_keep_their_offsets(
    fast_path: Path, victim: int, together: bool, has_checkpoint: bool
) -> None:
    world = World(fast_path / "store")
    world.store.put(ordinary("first"))
    if has_checkpoint:
        world.store.checkpoint()
    uids = [f"a{number}" for number in range(COUNT)]
    results = put(world.store, uids, together=together)
    if not has_checkpoint:
        for path in world.path.glob("checkpoint.json*"):
            path.unlink()

    world.reopen_damaged("commitlog", results[victim].position)

    expected = {0: "first"} | {
        result.queue_offset: "" if number == victim else uid
        for number, (uid, result) in enumerate(zip(uids, results, strict=True))
    }
    assert world.visible() == expected
    assert len(world.store.report.damage) == 1
    assert world.store.put(ordinary("next")).queue_offset == COUNT + 1
    world.store.close()
    world.store = world._open()
    assert world.visible() == expected | {COUNT + 1: "next"}
    world.store.close()


@pytest.mark.parametrize("victim", range(1, 6))
def test_delivered_neighbours_of_a_damaged_record_keep_their_offsets(
    fast_path: Path, victim: int
) -> None:
    world = World(fast_path / "store")
    world.store.put(ordinary("first"))
    world.store.checkpoint()
    for number in range(3):
        world.store.put(delayed(f"d{number}", 1_000 + number))
    deliver_until(world.store)
    world.store.put(ordinary("early"))
    world.clock.advance(1_001)
    world.store.open_gate()
    world.store.put(ordinary("late"))
    before = world.visible()
    assert list(before.values()) == ["first", "early", "d0", "d1", "late"]
    queue = world.store._core.queues.by_number(0)

    if victim < 5:
        world.reopen_damaged("commitlog", int(queue.read(victim, 1)["position"][0]))
        before[victim] = ""
    else:  # the one that still waits
        position = world.store._core.gate.position_min()
        assert position is not None
        world.reopen_damaged("commitlog", position)

    assert world.visible() == before
    world.clock.advance(1_000)
    world.store.open_gate()
    expected = before if victim == 5 else before | {5: "d2"}
    assert world.visible() == expected
    world.store.close()


def test_messages_behind_a_missing_segment_keep_their_offsets(fast_path: Path) -> None:
    world = World(fast_path / "store")
    results = [world.store.put(ordinary(f"a{number}")) for number in range(60)]
    size = OPTIONS.commit_segment_size_bytes
    world.files.restart()
    (world.path / "commitlog" / f"{size:020d}").unlink()

    world.store = world._open()

    found = world.visible()
    for number, result in enumerate(results):
        is_lost = size <= result.position < 2 * size
        assert found[result.queue_offset] == ("" if is_lost else f"a{number}")
    world.store.close()


@pytest.mark.parametrize("as_table", [True, False])
@pytest.mark.parametrize("victim", [0, 3, 4])
def test_group_that_was_answered_is_not_taken_for_torn(
    fast_path: Path, victim: int, as_table: bool
) -> None:
    """One of its records is damaged; it stood last in its log when the process died."""
    world = World(fast_path / "store")
    uids = [f"d{number}" for number in range(5)]
    if as_table:
        count = len(uids)
        world.store.put_many(
            pa.table(
                {
                    "topic": ["t"] * count,
                    "body": [b"x" * 100] * count,
                    "delay_ms": [1_000] * count,
                    "unique_id": uids,
                }
            )
        )
    else:
        world.store.put_all([delayed(uid, 1_000) for uid in uids])
    corner = world.store.next_corner(until_ms=FAR_MS, row_count_max=10)
    position = int(world.store.window(corner).units.position[victim])

    world.reopen_damaged("delaylog", position)

    del uids[victim]
    assert list(observe(world.store, []).pending) == uids
    world.store.put(delayed("next", 1_000))
    assert list(observe(world.store, []).pending) == [*uids, "next"]
    world.store.close()


def test_hint_of_another_copy_of_the_log_is_not_believed(fast_path: Path) -> None:
    """A folder was put together from parts of different age: the log is the older one."""
    world = World(fast_path / "store")
    world.store.put(ordinary("a0"))
    log = world.path / "commitlog" / ("0" * 20)
    older = log.read_bytes()
    world.store.put(ordinary("a1"))
    world.files.restart()
    log.write_bytes(older)

    world.store = world._open()

    end = world.store.put(ordinary("a2")).position
    assert end == world.store._core.queues.by_number(0).read(0, 1)["size"][0]
    assert world.visible() == {0: "a0", 1: "a2"}
    assert world.store.report.damage == []
    world.store.close()


def test_flipped_offset_beside_a_damaged_record_moves_nobody(fast_path: Path) -> None:
    world = World(fast_path / "store")
    results = put(world.store, [f"a{number}" for number in range(COUNT)], together=False)
    world.flip("commitlog", results[3].position, 27)  # says 2 instead of 3

    world.reopen_damaged("commitlog", results[1].position)

    assert world.visible() == {0: "a0", 1: "", 2: "a2", 3: "a3", 4: "a4", 5: "a5"}
    world.store.close()


@given(st.integers(0, 100), st.lists(st.booleans(), min_size=1), st.data())
def test_fit_finds_the_offsets_whatever_was_lost(
    first: int, is_lost: list[bool], data: st.DataObject
) -> None:
    """As long as the last one is there; then also if some did not say their offset."""
    truth = np.array([first + at for at, lost in enumerate([*is_lost, False]) if not lost])
    assert fit(first, truth, lost_count_max=sum(is_lost)).tolist() == truth.tolist()
    assert first_offset(truth, is_damaged=True) == truth[0]

    silent = data.draw(st.sets(st.integers(0, len(truth) - 1)))
    claims = np.where(np.isin(np.arange(len(truth)), list(silent)), -1, truth)
    found = fit(first, claims, lost_count_max=sum(is_lost))

    assert (np.diff(found) > 0).all()
    assert (found <= truth).all()
    assert (found[claims >= 0] == truth[claims >= 0]).all()


@given(st.integers(3, 40), st.integers(0, 62), st.data())
def test_fit_does_not_believe_one_flipped_bit(count: int, bit: int, data: st.DataObject) -> None:
    """But for the last, where a hole behind the others is as likely."""
    truth = np.arange(count, dtype=np.int64)
    claims = truth.copy()
    claims[data.draw(st.integers(0, count - 2))] ^= np.int64(1 << bit)

    assert fit(0, claims, lost_count_max=5).tolist() == truth.tolist()


def test_audit_calls_what_was_answered_lost_and_not_torn(fast_path: Path) -> None:
    """As opening will: a damaged record of a group that is on disk takes nobody with it."""
    world = World(fast_path / "store")
    results = put(world.store, [f"a{number}" for number in range(COUNT)], together=True)
    world.files.restart()
    world.flip("commitlog", results[2].position, 100)

    found = audit(world.path, is_running=False)

    assert found.findings.worst is Severity.LOSS
    texts = [one.text for one in found.findings.kept]
    assert any(f"203 bytes at position {results[2].position}" in text for text in texts)
    assert not any("cut" in text for text in texts)
