"""Broken promises that were found once, each in its smallest form."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
from tests.crash.observing import FAR_MS, observe, parse, read_queue

from dueline.clock import Clock
from dueline.message import Message
from dueline.store import Answer, Files, Store, StoreOptions, restore
from dueline.store.files import File
from dueline.testing import FaultyFiles, ManualClock, PowerCut

OPTIONS = StoreOptions(
    commit_segment_size_bytes=4_096,
    delay_segment_size_bytes=16_384,
    queue_file_units=4,
    retention_ms=1_000,
    disk_used_ratio_max=1.0,
    compact_live_ratio=0.5,
)


def ordinary(uid: str, queue_id: int = 0) -> Message:
    return Message(topic="t", queue_id=queue_id, body=b"x" * 100, properties={"UNIQ_KEY": uid})


def delayed(uid: str, delay_ms: int) -> Message:
    properties = {"UNIQ_KEY": uid, "TIMER_DELAY_MS": str(delay_ms)}
    return Message(topic="t", body=b"x" * 100, properties=properties)


def deliver_until(store: Store, until_ms: int = FAR_MS) -> pa.RecordBatch:
    corner = store.next_corner(until_ms=until_ms, row_count_max=100_000)
    rows = restore.deliveries(store.read_window(store.window(corner)))
    store.deliver([rows])
    return rows


def uids(store: Store, queue_id: int = 0) -> list[str]:
    return [seen.uid for seen in read_queue(store, "t", queue_id)]


def test_store_without_any_delayed_message_opens_after_a_crash(fast_path: Path) -> None:
    files = FaultyFiles()
    store = Store.open(fast_path / "store", OPTIONS, clock=ManualClock(), files=files)
    store.put(ordinary("a"))
    files.restart()

    with Store.open(fast_path / "store", OPTIONS, clock=ManualClock()) as store:
        assert uids(store) == ["a"]


@pytest.mark.parametrize("part", ["commitlog", "delaylog"])
def test_record_that_was_shown_after_a_kill_survives_a_power_cut(
    part: str, fast_path: Path
) -> None:
    """The killed process had written it, but not synced: recovery has to."""
    files = FaultyFiles()
    clock = ManualClock()
    store = Store.open(fast_path / "store", OPTIONS, clock=clock, files=files)
    store.put(ordinary("a"))
    store.put(delayed("d", 1_000))
    files.stop_before("sync", path_part=part)
    with pytest.raises(PowerCut):
        store.put(ordinary("more") if part == "commitlog" else delayed("more", 1_000))
    files.restart()

    store = Store.open(fast_path / "store", OPTIONS, clock=clock, files=files)
    before = observe(store, [])
    assert before.visible_counts().keys() | before.pending.keys() == {"a", "d", "more"}
    files.power_cut(0)

    with Store.open(fast_path / "store", OPTIONS, clock=clock) as store:
        assert observe(store, []) == before
        corner = store.next_corner(until_ms=FAR_MS, row_count_max=10)
        assert not restore.damaged(store.read_window(store.window(corner))).any()


def test_segment_that_a_killed_process_has_made_survives_a_power_cut(fast_path: Path) -> None:
    files = FaultyFiles()
    clock = ManualClock()
    store = Store.open(fast_path / "store", OPTIONS, clock=clock, files=files)
    files.stop_before("sync_folder", path_part="commitlog")  # it has its name, but not for good
    with pytest.raises(PowerCut):
        store.put(ordinary("a"))
    files.restart()

    store = Store.open(fast_path / "store", OPTIONS, clock=clock, files=files)
    store.put(ordinary("b"))
    files.power_cut(0)

    with Store.open(fast_path / "store", OPTIONS, clock=clock) as store:
        assert uids(store) == ["b"]


def test_offsets_do_not_start_over_when_the_log_begins_with_a_waiting_record(
    fast_path: Path,
) -> None:
    """Retention has dropped the log's beginning; the first record that is left is at the gate."""
    clock = ManualClock()
    store = Store.open(fast_path / "store", OPTIONS, clock=clock)
    store.put(delayed("waits", 1_000_000))
    numbers = itertools.count()
    while store.stats()["commit_log"]["end"] % 4_096 < 3_900:
        store.put(ordinary(f"a{next(numbers)}"))
    deliver_until(store)  # its group begins the next segment
    store.checkpoint()
    clock.advance(5_000)
    assert store.retain().commit_segments > 0
    before = store.offset_range("t", 0)
    assert before[0] > 0
    store.close()

    with Store.open(fast_path / "store", OPTIONS, clock=clock) as store:
        assert store.offset_range("t", 0) == before
        store.put(ordinary("next"))
        assert read_queue(store, "t", 0)[-1].offset == before[1]


def test_queue_begins_where_its_records_say_if_the_checkpoint_is_lost(fast_path: Path) -> None:
    clock = ManualClock()
    store = Store.open(fast_path / "store", OPTIONS, clock=clock)
    for number in range(60):
        store.put(ordinary(f"a{number}"))
    store.checkpoint()
    clock.advance(5_000)
    assert store.retain().commit_segments > 0
    before = read_queue(store, "t", 0)
    assert before[0].offset > 0
    store.close()
    for name in ("checkpoint.json", "checkpoint.json.mirror"):
        (fast_path / "store" / name).unlink()

    with Store.open(fast_path / "store", OPTIONS, clock=clock) as store:
        assert read_queue(store, "t", 0) == before


def test_retention_does_not_delete_what_became_visible_late(fast_path: Path) -> None:
    """A delivery stands in the log long before it is visible; its age counts from then."""
    clock = ManualClock()
    store = Store.open(fast_path / "store", OPTIONS, clock=clock)
    store.put(delayed("late", 100_000))
    deliver_until(store)
    for number in range(60):
        store.put(ordinary(f"a{number}", queue_id=1))
    clock.advance(100_500)
    store.open_gate()
    store.checkpoint()

    store.retain()
    assert uids(store) == ["late"]
    clock.advance(1_000)
    store.retain()

    assert uids(store) == []
    store.close()


def test_delivery_may_consist_of_dropped_messages_only(fast_path: Path) -> None:
    with Store.open(fast_path / "store", OPTIONS, clock=ManualClock()) as store:
        store.put(delayed("d", 1_000))

        result = store.deliver([], dropped=np.array([0]))

        assert result.dropped_count == 1
        assert store.pending_count() == 0


def test_message_at_the_gate_can_be_cancelled_after_a_clean_restart(fast_path: Path) -> None:
    clock = ManualClock()
    with Store.open(fast_path / "store", OPTIONS, clock=clock) as store:
        store.put(delayed("d", 1_000))
        rows = deliver_until(store)

    with Store.open(fast_path / "store", OPTIONS, clock=clock) as store:
        assert store.deliver([rows]).skipped_count == 1
        assert store.cancel("d") is Answer.CANCELLED
        clock.advance(2_000)
        store.open_gate()
        assert uids(store) == []


def test_survivors_of_a_compacted_segment_outlive_a_rebuilt_timeline(fast_path: Path) -> None:
    """A segment of which only the first and the last message are pending must not be taken for one
    with two numbers."""
    clock = ManualClock()
    store = Store.open(fast_path / "store", OPTIONS, clock=clock)
    delays = [50_000, *[1_000] * 60, 90_000]
    store.put_many(
        pa.table(
            {
                "topic": ["t"] * len(delays),
                "body": [b"x" * 20] * len(delays),
                "delay_ms": delays,
                "unique_id": [f"m{number}" for number in range(len(delays))],
            }
        )
    )
    for number in range(60):  # more, so that the segment is full
        store.put(delayed(f"d{number}", 1_000))
    deliver_until(store, clock.now_ms() + 2_000)
    clock.advance(2_000)
    store.checkpoint()
    assert store.retain().compacted_segments == 1
    store.close()
    for run in (fast_path / "store" / "timeline").iterdir():
        run.write_bytes(b"damaged")

    store = Store.open(fast_path / "store", OPTIONS, clock=clock)
    assert store.report.rebuilt
    clock.advance(50_000)
    deliver_until(store, clock.now_ms())
    store.checkpoint()
    store.retain()

    assert observe(store, []).pending.keys() == {"m61"}
    store.close()


def test_due_times_of_a_table_are_the_same_after_a_crash(fast_path: Path) -> None:
    """Also if time passes between encoding and storing it."""
    ticks = itertools.count(1_700_000_000_000)
    files = FaultyFiles()
    clock = Clock(lambda: next(ticks))
    store = Store.open(fast_path / "store", OPTIONS, clock=clock, files=files)
    result = store.put_many(pa.table({"topic": ["t"] * 2, "body": [b"x"] * 2, "delay_ms": [0, 1]}))
    files.restart()

    with Store.open(fast_path / "store", OPTIONS, clock=Clock(lambda: next(ticks))) as store:
        corner = store.next_corner(until_ms=FAR_MS, row_count_max=10)
        assert store.window(corner).units.due_ms.tolist() == result.due_ms.tolist()


class _Interrupted(FaultyFiles):
    """Calls back in the middle of a checkpoint, after a queue's file was synced."""

    def __init__(self) -> None:
        super().__init__()
        self.callback: Callable[[], object] | None = None

    def synced(self, file: File) -> None:
        super().synced(file)
        callback, self.callback = self.callback, None
        if callback is not None and "consumequeue" in str(file.path):
            callback()
        else:
            self.callback = callback


def test_unit_that_is_written_during_a_checkpoint_is_synced_by_the_next(fast_path: Path) -> None:
    files = _Interrupted()
    clock = ManualClock()
    store = Store.open(fast_path / "store", OPTIONS, clock=clock, files=files)
    store.put(ordinary("a"))
    store.put(delayed("b", 1_000))
    deliver_until(store)
    store.open_gate()

    def let_time_pass() -> None:
        clock.advance(1_000)
        assert store.open_gate() == 1

    files.callback = let_time_pass
    store.checkpoint()
    store.checkpoint()
    assert store.offset_range("t", 0) == (0, 2)
    files.power_cut(0)

    unsynced = (fast_path / "store" / "consumequeue" / "t" / "0" / ("0" * 20)).read_bytes()
    assert unsynced[20:40] != bytes(20)
    with Store.open(fast_path / "store", OPTIONS, clock=clock) as store:
        assert uids(store) == ["a", "b"]


def test_async_store_deletes_no_message_whose_delivery_may_be_lost(fast_path: Path) -> None:
    files = FaultyFiles()
    clock = ManualClock()
    options = replace(OPTIONS, flush="async")
    store = Store.open(fast_path / "store", options, clock=clock, files=files)
    sent = [f"d{number}" for number in range(120)]
    for uid in sent:
        store.put(delayed(uid, 1_000))
    store.checkpoint()
    deliver_until(store)  # in the page cache only
    clock.advance(1_000)
    store.open_gate()
    assert store.retain().delay_segments > 0
    files.power_cut(0)

    with Store.open(fast_path / "store", options, clock=clock) as store:
        deliver_until(store)
        store.open_gate()
        assert uids(store) == sent


def test_async_store_reuses_no_number_of_a_delivery(fast_path: Path) -> None:
    """A power cut may leave a delivery and lose the message it came from."""
    files = FaultyFiles()
    clock = ManualClock()
    options = replace(OPTIONS, flush="async")
    store = Store.open(fast_path / "store", options, clock=clock, files=files)
    store.put(delayed("d", 1_000))
    deliver_until(store)
    store._core.commit.sync()
    files.power_cut(0)

    store = Store.open(fast_path / "store", options, clock=clock)
    assert store.pending_count() == 0
    store.put(delayed("e", 1_000))
    deliver_until(store)
    clock.advance(2_000)
    store.open_gate()

    assert uids(store) == ["d", "e"]
    store.close()


def test_bytes_behind_a_cut_never_come_back(fast_path: Path) -> None:
    """A torn table in two segments is cut; what is put in its place is not lost with it later."""
    for seed in range(12):
        files = FaultyFiles()
        clock = ManualClock()
        path = fast_path / str(seed)
        store = Store.open(path, OPTIONS, clock=clock, files=files)
        store.put(delayed("first", 1_000))
        rows = 120
        table = pa.table(
            {"topic": ["t"] * rows, "body": [b"x" * 40] * rows, "delay_ms": [1_000] * rows}
        )
        files.stop_before("sync", path_part="delaylog")
        with pytest.raises(PowerCut):
            store.put_many(table)
        files.power_cut(seed)
        store = Store.open(path, OPTIONS, clock=clock, files=files)
        store.put(delayed("second", 1_000))
        files.power_cut(seed + 1)

        with Store.open(path, OPTIONS, clock=clock) as store:
            corner = store.next_corner(until_ms=FAR_MS, row_count_max=1_000)
            records = store.read_window(store.window(corner)).column("record").to_pylist()
            found = [parse(record).uid for record in records]
        assert found[0] == "first"
        assert found[-1] == "second"
        assert len(found) in (2, 2 + rows)


def test_flipped_queue_unit_never_crashes_a_bulk_read(fast_path: Path) -> None:
    with Store.open(fast_path / "store", OPTIONS, clock=ManualClock()) as store:
        store.put(ordinary("a"))
        store.checkpoint()
        assert uids(store) == ["a"]
        queue = store._core.queues.by_number(0)
        file = Files().open(fast_path / "store/consumequeue/t/0" / ("0" * 20), writable=True)
        file.write_at(8, b"\x7f")  # a size of two gigabytes, in a file that was checked before
        file.close()
        queue._shelf.blocks.forget(queue)  # others were read meanwhile
        assert queue.read(0, 1)["size"][0] > 1 << 30

        rows, _ = store._reader.read_rows("t", 0, 0, count_max=10, size_bytes_max=1 << 20)

        assert rows.num_rows == 0


def test_rest_of_a_torn_group_does_not_join_what_is_put_in_its_place(fast_path: Path) -> None:
    """The group's end is there, its first record is not; the next put has that record's size."""
    files = FaultyFiles()
    clock = ManualClock()
    store = Store.open(fast_path / "store", OPTIONS, clock=clock, files=files)
    first = delayed("first", 1_000)
    store.put(first)
    size = store.stats()["delay_log"]["end"]
    rows = 5
    store.put_many(
        pa.table({"topic": ["t"] * rows, "body": [b"x" * 200] * rows, "delay_ms": [1_000] * rows})
    )
    files.restart()
    log = fast_path / "store" / "delaylog" / ("0" * 20)
    data = bytearray(log.read_bytes())
    row_size = int.from_bytes(data[size : size + 4], "big")
    data[size : size + row_size] = bytes(row_size)
    log.write_bytes(data)
    (fast_path / "store" / "synced").unlink()  # as before the group was synced

    store = Store.open(fast_path / "store", OPTIONS, clock=clock, files=files)
    assert observe(store, []).pending.keys() == {"first"}
    store.put(replace(first, body=b"x" * (100 + row_size - size)))
    assert store.stats()["delay_log"]["end"] == size + row_size
    files.restart()

    with Store.open(fast_path / "store", OPTIONS, clock=clock) as store:
        assert store.pending_count() == 2
        assert observe(store, []).pending.keys() == {"first"}


def test_files_that_a_crash_has_left_over_are_removed(fast_path: Path) -> None:
    clock = ManualClock()
    with Store.open(fast_path / "store", OPTIONS, clock=clock) as store:
        store.put(delayed("d", 1_000))
    left_over = [
        fast_path / "store" / "timeline" / "0000000000000000-0000000000000009",
        fast_path / "store" / "index" / "delaylog" / f"{7:020d}-{9:020d}",
        fast_path / "store" / "index" / "commitlog" / f"{7:020d}-{9:020d}",
        fast_path / "store" / "consumequeue.tmp",
    ]
    for path in left_over:
        path.write_bytes(b"x")

    with Store.open(fast_path / "store", OPTIONS, clock=clock) as store:
        assert store.report.rebuilt == []
        assert store.pending_count() == 1

    assert not any(path.exists() for path in left_over)
