"""The timeline against a sorted list: corners, windows, merges, counts."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.unit.store.making import int64s

from dueline.errors import CorruptRecord
from dueline.store.corner import CORNER_START, SEQ_MAX, Corner
from dueline.store.files import Files
from dueline.store.run import Units
from dueline.store.states import CANCELLED, DELIVERED, States
from dueline.store.thresholds import USUAL, Thresholds
from dueline.store.timeline import Timeline

TOPICS = ("a", "b")


class Filled:
    """A timeline, and what is in it as a list of due times by acceptance number."""

    def __init__(self, folder: Path, thresholds: Thresholds = USUAL) -> None:
        self.folder = folder
        self.timeline = Timeline(Files(), folder, States(), thresholds)
        self.due: list[int] = []
        self.done: set[int] = set()

    def add(self, due: list[int]) -> None:
        first = len(self.due)
        seqs = np.arange(first, first + len(due), dtype=np.int64)
        numbers = [self.timeline.topics.number_of(name) for name in TOPICS]
        units = Units(
            due_ms=np.array(due, dtype=np.int64),
            seq=seqs,
            position=seqs * 100,
            size=np.full(len(due), 100, dtype=np.int32),
            topic=np.array([numbers[seq % 2] for seq in seqs], dtype=np.int32),
            queue_id=(seqs % 5).astype(np.int32),
        )
        self.due += due
        end = len(self.due)
        self.timeline.add(units, end=end, position_end=end * 100)

    def mark(self, *seqs: int) -> None:
        self.done |= set(seqs)
        self.timeline.mark(int64s(*seqs), DELIVERED)

    def seal(self) -> None:
        sealed = self.timeline.begin_seal()
        self.timeline.end_seal(self.timeline.write_sealed(sealed, self.timeline.states))

    def merge(self, count: int = 2) -> None:
        group = self.timeline.runs[:count]
        path = self.timeline.write_merged(group, self.timeline.states)
        for unused in self.timeline.end_merge(group, path):
            unused.unlink()

    def pending(self) -> list[tuple[int, int]]:
        return sorted((due, seq) for seq, due in enumerate(self.due) if seq not in self.done)

    def inside(self, corner: Corner) -> list[int]:
        return [seq for due, seq in self.pending() if (due, seq) <= corner.key and seq < corner.end]

    def next_corner(self, until_ms: int, rows: int, size: int = 1 << 40) -> Corner:
        return self.timeline.next_corner(
            until_ms=until_ms, row_count_max=rows, size_bytes_max=size, start=CORNER_START
        )

    def window(self, corner: Corner) -> list[int]:
        seqs: list[int] = self.timeline.window(corner).units.seq.tolist()
        return seqs


@pytest.fixture
def filled(tmp_path: Path) -> Filled:
    return Filled(tmp_path / "timeline")


ACTIONS = st.lists(
    st.one_of(
        st.tuples(st.just("add"), st.lists(st.integers(0, 12), min_size=1, max_size=8)),
        st.tuples(st.just("mark"), st.lists(st.integers(0, 40), max_size=6)),
        st.tuples(st.just("seal"), st.just([])),
        st.tuples(st.just("merge"), st.just([])),
    ),
    max_size=12,
)


@given(ACTIONS, st.integers(0, 14), st.integers(1, 12), st.integers(1, 3))
def test_windows_are_what_a_sorted_list_says(
    tmp_path_factory: pytest.TempPathFactory,
    actions: list[tuple[str, list[int]]],
    until_ms: int,
    rows: int,
    part_count: int,
) -> None:
    filled = Filled(tmp_path_factory.mktemp("timeline"))
    corners = []
    for name, numbers in actions:
        if name == "add":
            filled.add(numbers)
        elif name == "mark":
            filled.mark(*(number for number in numbers if number < len(filled.due)))
        elif name == "seal":
            filled.seal()
        elif len(filled.timeline.runs) > 1:
            filled.merge()
        corners.append(filled.next_corner(until_ms, rows))

        due = [seq for due_ms, seq in filled.pending() if due_ms <= until_ms]
        assert filled.window(corners[-1]) == due[:rows]
        for corner in corners:
            whole = filled.timeline.window(corner)
            assert whole.units.seq.tolist() == filled.inside(corner)
            parts = [
                filled.timeline.window(corner, after=after, until=until)
                for after, until in whole.split(part_count)
            ]
            assert [seq for part in parts for seq in part.units.seq.tolist()] == filled.inside(
                corner
            )
        assert filled.timeline.next_due_ms() == min(
            (due_ms for due_ms, _ in filled.pending()), default=None
        )
        assert filled.timeline.pending_count() == len(filled.pending())
        assert filled.timeline.due_count(until_ms) == len(due)


def test_units_keep_all_they_know(filled: Filled) -> None:
    filled.add([30, 10, 20])
    filled.seal()
    filled.add([15])

    window = filled.timeline.window(filled.next_corner(100, 10))

    assert window.units.seq.tolist() == [1, 3, 2, 0]
    assert window.units.due_ms.tolist() == [10, 15, 20, 30]
    assert window.units.position.tolist() == [100, 300, 200, 0]
    assert window.units.queue_id.tolist() == [1, 3, 2, 0]
    assert window.topics().to_pylist() == ["b", "b", "a", "a"]


def test_corner_cuts_within_one_millisecond(filled: Filled) -> None:
    filled.add([5] * 10)

    first = filled.next_corner(9, 4)
    assert first == Corner(due_ms=5, seq=3, end=10)
    assert filled.window(first) == [0, 1, 2, 3]

    filled.mark(0, 1, 2, 3)
    assert filled.window(filled.next_corner(9, 4)) == [4, 5, 6, 7]


def test_corner_does_not_hold_what_came_later(filled: Filled) -> None:
    filled.add([5, 9])
    corner = filled.next_corner(10, 10)

    filled.add([1])

    assert corner == Corner(due_ms=10, seq=SEQ_MAX, end=2)
    assert filled.window(corner) == [0, 1]
    assert filled.window(filled.next_corner(10, 10)) == [2, 0, 1]


def test_window_is_bounded_by_bytes(filled: Filled) -> None:
    filled.add([1, 2, 3, 4])

    assert filled.window(filled.next_corner(9, 10, size=250)) == [0, 1]
    assert filled.window(filled.next_corner(9, 10, size=1)) == [0], "one row always goes"


def test_nothing_due_returns_the_start(filled: Filled) -> None:
    filled.add([10])
    start = Corner(due_ms=3, seq=2, end=1)

    found = filled.timeline.next_corner(
        until_ms=9, row_count_max=5, size_bytes_max=1 << 20, start=start
    )

    assert found is start


def test_sealed_run_leaves_out_what_is_done(filled: Filled) -> None:
    filled.add([1, 2, 3])
    filled.mark(1)

    filled.seal()

    assert [len(run) for run in filled.timeline.runs] == [2]
    assert filled.window(filled.next_corner(9, 9)) == [0, 2]


def test_run_without_anything_pending_is_not_written(filled: Filled) -> None:
    filled.add([1, 2])
    filled.mark(0, 1)

    filled.seal()

    assert filled.timeline.runs == []
    assert list(filled.folder.iterdir()) == []
    assert filled.timeline.end == 2


def test_seal_goes_by_the_states_it_is_given(filled: Filled) -> None:
    """Later states may still be lost: what they say is done must stay in the run."""
    filled.add([1, 2])
    durable = filled.timeline.states.copy()
    filled.mark(0)

    sealed = filled.timeline.begin_seal()
    filled.timeline.end_seal(filled.timeline.write_sealed(sealed, durable))

    assert [len(run) for run in filled.timeline.runs] == [2]
    assert filled.window(filled.next_corner(9, 9)) == [1]


def test_units_are_seen_while_they_are_sealed(filled: Filled) -> None:
    filled.add([5])
    sealed = filled.timeline.begin_seal()
    filled.add([4])

    assert filled.window(filled.next_corner(9, 9)) == [1, 0]

    filled.timeline.end_seal(filled.timeline.write_sealed(sealed, filled.timeline.states))
    assert filled.window(filled.next_corner(9, 9)) == [1, 0]


def test_aborted_seal_is_the_open_run_again(filled: Filled) -> None:
    filled.add([5])
    filled.timeline.begin_seal()
    filled.add([4])

    filled.timeline.abort_seal()

    assert filled.timeline.sealing is None
    assert len(filled.timeline.open) == 2
    assert filled.window(filled.next_corner(9, 9)) == [1, 0]


def test_merge_drops_what_is_done(filled: Filled) -> None:
    filled.add([1, 5])
    filled.seal()
    filled.add([2, 4])
    filled.seal()
    filled.mark(0, 3)

    filled.merge()

    (run,) = filled.timeline.runs
    assert len(run) == 2
    assert (run.range.first, run.range.end) == (0, 4)
    assert filled.window(filled.next_corner(9, 9)) == [2, 1]


def test_merge_of_nothing_pending_leaves_no_run(filled: Filled) -> None:
    for _ in range(2):
        filled.add([1])
        filled.seal()
    filled.mark(0, 1)

    filled.merge()

    assert filled.timeline.runs == []


def test_many_runs_are_worth_a_merge(tmp_path: Path) -> None:
    filled = Filled(tmp_path, Thresholds(merge_run_count=3))
    for count in range(1, 4):
        assert filled.timeline.merge_candidates() == []
        filled.add([count])
        filled.seal()

    assert filled.timeline.merge_candidates() == filled.timeline.runs


def test_full_runs_are_left_alone(tmp_path: Path) -> None:
    filled = Filled(tmp_path, Thresholds(merge_run_count=2, run_units_max=3))
    filled.add([1, 2, 3])
    filled.seal()
    filled.add([4])
    filled.seal()
    filled.add([5])
    filled.seal()

    assert filled.timeline.merge_candidates() == filled.timeline.runs[1:]


@given(st.lists(st.integers(0, 50), max_size=40), st.sets(st.integers(0, 39)))
def test_what_stands_in_a_range_of_the_log_is_what_a_loop_finds(
    tmp_path_factory: pytest.TempPathFactory, due: list[int], done: set[int]
) -> None:
    filled = Filled(tmp_path_factory.mktemp("timeline"))
    half = len(due) // 2
    filled.add(due[:half])
    filled.seal()
    filled.add(due[half:])
    filled.mark(*(seq for seq in done if seq < len(due)))

    left = filled.pending()
    in_range = filled.timeline.pending_in(300, 2000, filled.timeline.states)
    assert sorted(in_range.seq.tolist()) == sorted(seq for _, seq in left if 3 <= seq < 20)


def test_runs_of_a_checkpoint_are_opened_again(filled: Filled) -> None:
    filled.add([3, 1])
    filled.seal()
    filled.add([2])
    filled.seal()
    names = [run.path.name for run in filled.timeline.runs]
    filled.timeline.close()

    again = Timeline(Files(), filled.folder, filled.timeline.states)
    again.load(names, 300)

    corner = again.next_corner(
        until_ms=9, row_count_max=9, size_bytes_max=1 << 20, start=CORNER_START
    )
    window = again.window(corner)
    assert window.units.seq.tolist() == [1, 2, 0]
    assert window.topics().to_pylist() == ["b", "a", "a"]
    assert again.end == 3


def test_missing_run_is_reported(filled: Filled) -> None:
    with pytest.raises(CorruptRecord, match="found no file"):
        filled.timeline.load(["0-1"], 0)


def test_is_pending(filled: Filled) -> None:
    filled.add([1, 2])
    filled.timeline.mark(int64s(1), CANCELLED)

    assert [filled.timeline.is_pending(seq) for seq in (0, 1, 2)] == [True, False, False]


@pytest.mark.parametrize("part_count", [1, 2, 3, 7, 100])
def test_parts_of_a_window_are_about_equal(filled: Filled, part_count: int) -> None:
    filled.add([due // 3 for due in range(10)])
    corner = filled.next_corner(9, 100)

    ranges = filled.timeline.window(corner).split(part_count)
    sizes = [len(filled.timeline.window(corner, after=a, until=u)) for a, u in ranges]

    assert len(ranges) == min(part_count, 10)
    assert sum(sizes) == 10
    assert max(sizes) - min(sizes) <= 1


def test_replanned_part_keeps_its_bounds(filled: Filled) -> None:
    """Read again after some of it was delivered, a part holds the rest and nothing else."""
    filled.add([1, 2, 3, 4])
    corner = filled.next_corner(9, 9)
    _, (after, until) = filled.timeline.window(corner).split(2)

    filled.mark(0, 2)

    assert filled.timeline.window(corner, after=after, until=until).units.seq.tolist() == [3]


def test_empty_window_splits_into_one_part(filled: Filled) -> None:
    assert filled.timeline.window(CORNER_START).split(4) == [(None, None)]
