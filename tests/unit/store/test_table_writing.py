"""Tables: accepted as one group, whatever their size, and encoded while they are written."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pytest
from tests.unit.store.making import (
    SMALL,
    START_MS,
    Wall,
    bodies,
    carry_over,
    open_store,
)

from dueline import compiled
from dueline.errors import InvalidRequest, LimitExceeded, StoreClosed
from dueline.store import Store, bulk
from dueline.store.block import BLOCK_KERNELS
from dueline.store.bulk_rows import BULK_KERNELS, Finished, Places, UsualRows
from dueline.store.table_writing import ENCODER_COUNT, TablePutter
from dueline.store.thresholds import Thresholds
from dueline.testing import FaultyFiles, ManualClock, PowerCut

PARTS = replace(SMALL, thresholds=Thresholds(part_rows=3))
ROW_COUNT = 40


@pytest.fixture(params=["kernels", "arrays"])
def _way(request: pytest.FixtureRequest) -> Iterator[None]:
    """Both ways to encode rows."""
    if request.param == "arrays":
        with compiled.switched_off():
            yield
        return
    pytest.importorskip("numba")
    assert compiled.load([BLOCK_KERNELS, BULK_KERNELS])
    yield


@pytest.fixture
def wall() -> Wall:
    return Wall()


@pytest.fixture
def store(tmp_path: Path, wall: Wall) -> Iterator[Store]:
    with open_store(tmp_path, wall) as store:
        yield store


def table_of(count: int) -> pa.Table:
    rows = range(count)
    return pa.table(
        {
            "topic": ["t"] * count,
            "body": [b"%d" % row + bytes(300) for row in rows],
            "keys": [f"key-{row}" for row in rows],
            "delay_ms": [row % 7 for row in rows],
        }
    )


@dataclass
class Watched:
    """Rows that note when they are finished."""

    rows: bulk.Prepared
    events: list[str]
    number: int
    error: Exception | None = None

    def __len__(self) -> int:
        return len(self.rows)

    def __getattr__(self, name: str) -> Any:
        return getattr(self.rows, name)

    def finish(self, places: Places, room: npt.NDArray[np.uint8]) -> Finished:
        if self.error is not None:
            raise self.error
        self.events.append(f"finished {self.number}")
        return self.rows.finish(places, room)


class WatchedFiles(FaultyFiles):
    """Notes what is written to the delay log."""

    def __init__(self, events: list[str]) -> None:
        super().__init__()
        self.events = events

    def step(self, kind: str, path: Path, *, needs_space: bool | None = None) -> bool:
        if kind == "write" and "delaylog" in str(path):
            self.events.append("written")
        return super().step(kind, path, needs_space=needs_space)


def prepared(store: Store, count: int) -> bulk.Prepared:
    core = store._core
    return bulk.prepare(
        table_of(count), now_ms=START_MS, rules=core.rules, ids=core.ids, store_host=core.store_host
    )


def watched(store: Store, part_count: int, events: list[str]) -> list[Any]:
    return [Watched(prepared(store, 2), events, number) for number in range(part_count)]


def test_table_with_a_row_that_fits_no_segment_is_refused(store: Store) -> None:
    table = pa.table({"topic": ["t", "t"], "body": [b"", bytes(16_000)], "delay_ms": [1, 1]})

    with pytest.raises(LimitExceeded, match="larger segments"):
        store.put_many(table)

    assert store.pending_count() == 0


@pytest.fixture
def parts_store(tmp_path: Path, wall: Wall) -> Iterator[Store]:
    """A store that encodes tables three rows at a time."""
    with open_store(tmp_path / "parts", wall, PARTS) as store:
        yield store


def test_table_of_many_parts_is_one_group(parts_store: Store, wall: Wall) -> None:
    store = parts_store
    names = [f"key-{number}" for number in range(10)]
    table = pa.table(
        {
            "topic": ["a", "b"] * 5,
            "body": [name.encode() for name in names],
            "keys": names,
            "delay_ms": range(100, 0, -10),
        }
    )

    result = store.put_many(table)

    assert (result.first_seq, result.count) == (0, 10)
    assert result.due_ms.tolist() == [START_MS + 100 - 10 * number for number in range(10)]
    found = [store.find_delayed(name)[0] for name in names]
    assert [message.seq for message in found] == [*range(10)]
    assert [message.topic for message in found] == ["a", "b"] * 5
    carry_over(store)
    wall.advance(100)
    store.open_gate()
    assert bodies(store, "a") == [b"key-8", b"key-6", b"key-4", b"key-2", b"key-0"]


def test_bad_row_of_a_later_part_is_named_by_its_place(parts_store: Store) -> None:
    store = parts_store
    table = pa.table({"topic": ["t"] * 7 + ["not a topic"], "body": [b""] * 8, "delay_ms": [1] * 8})

    with pytest.raises(InvalidRequest, match="row 7: topic"):
        store.put_many(table)

    assert store.pending_count() == 0


@pytest.mark.usefixtures("_way")
def test_a_few_parts_are_encoded_ahead_of_what_is_written(tmp_path: Path) -> None:
    events: list[str] = []
    files = WatchedFiles(events)
    with Store.open(tmp_path / "s", SMALL, clock=ManualClock(START_MS), files=files) as store:
        events.clear()

        result = TablePutter(store._core)._put(watched(store, 9, events))

        assert (result.count, store.pending_count()) == (18, 18)
    # Each part is one write. Those that are under way have a room each.
    for place, event in enumerate(events):
        if event.startswith("finished"):
            begun = int(event.removeprefix("finished ")) + 1
            assert begun <= events[:place].count("written") + ENCODER_COUNT + 1


@pytest.mark.usefixtures("_way")
def test_a_small_table_is_written_at_once_with_its_end(tmp_path: Path) -> None:
    events: list[str] = []
    files = WatchedFiles(events)
    with Store.open(tmp_path / "s", SMALL, clock=ManualClock(START_MS), files=files) as store:
        events.clear()

        store.put_many(table_of(4))

        assert events == ["written"]


@pytest.mark.usefixtures("_way")
def test_rows_that_cannot_be_encoded_change_nothing(tmp_path: Path, wall: Wall) -> None:
    with open_store(tmp_path, wall) as store:
        parts = watched(store, 1, [])
        parts[0].error = MemoryError("none is left")
        putter = TablePutter(store._core)
        with pytest.raises(MemoryError):
            putter._put(parts)

        assert store.put_many(table_of(1)).first_seq == 0
        assert store.stats()["delay_offsets"] == {"rmq_sys_wheel_timer/0": 1}


@pytest.mark.usefixtures("_way")
def test_rows_that_fail_behind_written_ones_close_the_store(tmp_path: Path, wall: Wall) -> None:
    with open_store(tmp_path, wall) as store:
        store.put_many(table_of(1))
        parts = watched(store, ENCODER_COUNT + 3, [])
        parts[-1].error = MemoryError("none is left")
        putter = TablePutter(store._core)
        with pytest.raises(MemoryError):
            putter._put(parts)

        with pytest.raises(StoreClosed):
            store.put_many(table_of(1))
    with open_store(tmp_path, wall) as again:
        assert again.pending_count() == 1


@pytest.mark.usefixtures("_way")
def test_a_stop_at_any_write_leaves_all_rows_or_none(tmp_path: Path) -> None:
    clock = ManualClock(START_MS)
    found = set()
    for stop in range(1, 100):
        path, files = tmp_path / str(stop), FaultyFiles()
        store = Store.open(path, PARTS, clock=clock, files=files)
        files.stop_at(files.operation_count + stop, midway=bool(stop % 2))
        is_accepted = False
        try:
            is_accepted = store.put_many(table_of(ROW_COUNT)).count == ROW_COUNT
        except PowerCut:
            files.power_cut(stop)
        else:
            files.stop_at(None)
            store.close()

        with Store.open(path, PARTS, clock=clock) as again:
            found.add((is_accepted, again.pending_count()))
            clock.advance(10)
            carry_over(again)
            assert sorted(bodies(again)) in ([], sorted(table_of(ROW_COUNT)["body"].to_pylist()))
        if is_accepted:
            break

    assert found == {(False, 0), (False, ROW_COUNT), (True, ROW_COUNT)}


def test_ids_of_usual_rows_are_made_when_somebody_asks(tmp_path: Path, wall: Wall) -> None:
    pytest.importorskip("numba")
    assert compiled.load([BLOCK_KERNELS, BULK_KERNELS])
    with open_store(tmp_path, wall, PARTS) as store:
        table = table_of(5).append_column("unique_id", pa.array(["a", None, "", "d", None]))

        result = store.put_many(table)

        assert all(isinstance(part, UsualRows) for part in result.parts)
        ids = [each.decode() for each in result.unique_ids.to_pylist()]
        assert (ids[0], ids[3], len(set(ids))) == ("a", "d", 5)
        assert [store.find_delayed(each)[0].seq for each in ids] == [0, 1, 2, 3, 4]
