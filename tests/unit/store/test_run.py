"""Runs: open and sealed ones answer alike."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.unit.store.making import int64s

from dueline.store.corner import Corner, Key
from dueline.store.files import Files
from dueline.store.held import NOTHING
from dueline.store.run import OpenRun, Run, TopicList, Units, write_run
from dueline.store.states import DELIVERED, States

FIRST = 1000


def units_of(due: list[int]) -> Units:
    count = len(due)
    seqs = np.arange(FIRST, FIRST + count, dtype=np.int64)
    return Units(
        due_ms=np.array(due, dtype=np.int64),
        seq=seqs,
        position=seqs * 10,
        size=np.full(count, 10, dtype=np.int32),
        topic=np.zeros(count, dtype=np.int32),
        queue_id=(seqs % 65_536).astype(np.int32),
    )


def both(folder: Path, due: list[int], done: set[int]) -> tuple[OpenRun, Run, States]:
    """An open run and the sealed run of the same units, with some of them done."""
    topics = TopicList()
    topics.number_of("t")
    opened = OpenRun(FIRST, FIRST * 10)
    opened.append(units_of(due), end=FIRST + len(due), position_end=(FIRST + len(due)) * 10)
    units = opened.units()
    order = np.argsort(units.due_ms, kind="stable")
    write_run(Files(), folder / "run", units.take(order), opened.range, topics)
    states = States(FIRST)
    states.extend(FIRST + len(due))
    states.mark(int64s(*(FIRST + number for number in done if number < len(due))), DELIVERED)
    return opened, Run(Files(), folder / "run", topics, scan_rows=4), states


@given(
    st.lists(st.integers(0, 9), max_size=30),
    st.sets(st.integers(0, 29)),
    st.builds(
        Corner,
        due_ms=st.integers(0, 10),
        seq=st.integers(FIRST - 1, FIRST + 30),
        end=st.integers(FIRST, 1030),
    ),
    st.tuples(
        st.one_of(st.none(), st.tuples(st.integers(0, 10), st.integers(FIRST - 1, FIRST + 30))),
        st.integers(1, 40),
        st.sampled_from([1, 100, 30_000, 1 << 33]),
    ),
)
def test_both_kinds_hold_what_a_loop_finds(
    tmp_path_factory: pytest.TempPathFactory,
    due: list[int],
    done: set[int],
    corner: Corner,
    cut: tuple[Key | None, int, int],
) -> None:
    after, limit, step_ms = cut
    due = [step_ms * due_ms for due_ms in due]
    corner = replace(corner, due_ms=step_ms * corner.due_ms)
    after = after and (step_ms * after[0], after[1])
    folder = tmp_path_factory.mktemp("run")
    opened, sealed, states = both(folder, due, done)
    pending = sorted(
        (due_ms, FIRST + number) for number, due_ms in enumerate(due) if number not in done
    )
    expected = [
        seq
        for due_ms, seq in pending
        if corner.holds(due_ms, seq) and (after is None or (due_ms, seq) > after)
    ][:limit]

    for one in (opened, sealed):
        found = one.inside(corner, states, NOTHING, after=after, limit=limit)
        assert found.seq.tolist() == expected
        assert found.position.tolist() == [10 * seq for seq in expected]
        assert found.queue_id.tolist() == expected
        assert one.next_due_ms(states, NOTHING) == (pending[0][0] if pending else None)
        scanned = sorted(seq for units in one.scan(states) for seq in units.seq.tolist())
        assert scanned == sorted(seq for _, seq in pending)
    sealed.close()
    opened.close()


def test_run_covers_a_range_whatever_it_holds(tmp_path: Path) -> None:
    opened, sealed, _ = both(tmp_path, [3, 1], set())

    assert sealed.range == opened.range
    assert (sealed.range.first, sealed.range.end) == (FIRST, FIRST + 2)
    assert (sealed.range.position_start, sealed.range.position_end) == (10_000, 10_020)
    assert len(sealed) == len(opened) == 2


def test_topics_have_other_numbers_in_another_process(tmp_path: Path) -> None:
    here, there = TopicList(), TopicList()
    here.number_of("first")
    number = here.number_of("second")
    units = units_of([1])
    named = Units(
        due_ms=units.due_ms,
        seq=units.seq,
        position=units.position,
        size=units.size,
        topic=np.array([number], dtype=np.int32),
        queue_id=units.queue_id,
    )
    write_run(Files(), tmp_path / "run", named, OpenRun(FIRST, 0).range, here)

    run = Run(Files(), tmp_path / "run", there)

    (found,) = list(run.scan(States(FIRST)))
    assert [there.names[topic] for topic in found.topic] == ["second"]


def test_open_run_grows_and_keeps_its_units() -> None:
    opened = OpenRun(FIRST, 0)
    for _ in range(3):
        opened.append(units_of([5] * 700), end=FIRST + 1, position_end=7)

    assert len(opened) == 2100
    assert opened.units().due_ms.tolist() == [5] * 2100
    assert (opened.end, opened.position_end) == (FIRST + 1, 7)


def test_topic_numbers_are_small_and_stable() -> None:
    topics = TopicList()

    assert [topics.number_of(name) for name in ("a", "b", "a")] == [0, 1, 0]
    assert topics.names == ["a", "b"]
