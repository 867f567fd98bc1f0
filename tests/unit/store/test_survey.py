"""A survey shows what waits at its moment: all of it, in due order, whatever happens since."""

from __future__ import annotations

import random
from collections import Counter
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from tests.unit.store.making import SMALL, START_MS, Wall, carry_over, delayed, int64s, open_store

from dueline.store import Store
from dueline.store import record as records
from dueline.store.survey import Survey, Waiting
from dueline.store.thresholds import Thresholds

FEW = replace(SMALL, open_units_max=8, thresholds=Thresholds(merge_run_count=3, run_units_max=64))


def rows_of(survey: Survey, **limits: object) -> list[tuple[int, int]]:
    found: list[tuple[int, int]] = []
    for rows, edge in survey.slabs(**limits):  # type: ignore[arg-type]
        keys = [rows.key_at(row) for row in range(len(rows))]
        assert keys == sorted(keys)
        assert all(key <= edge for key in keys)
        found += keys
    assert found == sorted(found), "slabs must follow each other in due order"
    return found


@pytest.mark.parametrize("seed", range(6))
def test_slabs_are_all_that_waits_in_due_order(tmp_path: Path, seed: int) -> None:
    chance, wall = random.Random(seed), Wall()
    with open_store(tmp_path, wall, FEW) as store:
        due: dict[int, tuple[int, str]] = {}
        for _ in range(120):
            delay_ms, topic = chance.choice([1, 5, 5, 50, 900]) * 1000, chance.choice("abc")
            result = store.put(delayed(delay_ms, topic=topic))
            assert result.seq is not None
            due[result.seq] = (wall.now_ms + delay_ms, topic)
            if chance.random() < 0.1:
                store.maintain()
            if chance.random() < 0.1:
                gone = chance.choice(sorted(due))
                store.numbers.cancel(int64s(gone))
                del due[gone]
        carry_over(store, ahead_ms=6_000)
        survey = store.survey()
        wanted = sorted((due_ms, seq) for seq, (due_ms, _) in due.items())

        for step in (1, 3, 1000):
            assert rows_of(survey, step=step) == wanted
        cut = wanted[len(wanted) // 2]
        assert rows_of(survey, after=cut, step=7) == [key for key in wanted if key > cut]
        start_ms, end_ms = START_MS + 5_000, START_MS + 50_000
        inside = [key for key in wanted if start_ms <= key[0] < end_ms]
        assert rows_of(survey, start_ms=start_ms, end_ms=end_ms, step=5) == inside
        topics = np.array([name == "b" for name in survey.topic_names])
        of_b = sorted((due_ms, seq) for seq, (due_ms, topic) in due.items() if topic == "b")
        assert rows_of(survey, topics=topics, step=4) == of_b
        assert survey.count() == len(due)

        assert _dues(survey) == [due_ms for due_ms, _ in wanted]
        assert _dues(survey, start_ms=start_ms, end_ms=end_ms) == [ms for ms, _ in inside]
        assert _dues(survey, topics=topics) == [due_ms for due_ms, _ in of_b]
        at_gate = [due_ms for due_ms, _ in wanted if due_ms <= START_MS + 6_000]
        assert survey.at_gate_count() == len(at_gate)
        assert _dues(survey, with_gate=False) == [ms for ms, _ in wanted][len(at_gate) :]
        later = [(ms, topic) for ms, topic in due.values() if ms > START_MS + 6_000]
        assert survey.pending_by_topic() == dict(Counter(topic for _, topic in later))
        for wish in (None, "a", "nobody"):
            mine = [ms for ms, name in later if wish in (None, name)]
            assert survey.pending_by_bucket(7, wish) == dict(
                sorted(Counter(ms // 7 * 7 for ms in mine).items())
            )


def test_rows_of_numbers_are_found_wherever_they_wait(tmp_path: Path) -> None:
    wall = Wall()
    with open_store(tmp_path, wall, FEW) as store:
        for number in range(20):
            store.put(delayed(1000 * (number + 1), b"%d" % number))
            store.maintain()
        carry_over(store, ahead_ms=5_000)
        store.numbers.cancel(int64s(2, 15))

        survey = store.survey()
        rows = survey.find(int64s(1, 2, 7, 15, 19, 99))

        assert rows.units.seq.tolist() == [1, 7, 19]
        assert rows.is_at_gate.tolist() == [True, False, False]
        assert _bodies(survey, rows) == [b"1", b"7", b"19"]


def test_a_survey_outlives_what_happens_to_the_store(tmp_path: Path) -> None:
    wall = Wall()
    with open_store(tmp_path, wall, FEW) as store:
        for number in range(30):
            store.put(delayed(1000 * (number + 1), b"%d" % number))
            store.maintain()
        survey = store.survey()
        before = rows_of(survey, step=4)

        store.numbers.cancel(np.arange(10, dtype=np.int64))
        _merge(store)

        assert rows_of(survey, step=4) == before
        assert len(rows_of(store.survey())) == 20


def _dues(survey: Survey, **limits: object) -> list[int]:
    parts = survey.dues(**limits)  # type: ignore[arg-type]
    return sorted(ms for part in parts for ms in part.due_ms.tolist())


def _bodies(survey: Survey, rows: Waiting) -> list[bytes]:
    return [records.decode(data).body for data in survey.records(rows).to_pylist()]


def _merge(store: Store) -> None:
    for _ in range(4):
        store.checkpoint()
