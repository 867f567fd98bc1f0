"""Which units are held: by topic, all beyond a key; and runs that begin with many of them."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
from tests.unit.store.making import SMALL, START_MS, Wall, delayed, open_store

from dueline.store.held import NOTHING, Held
from dueline.store.road import RoadRule
from dueline.store.run import Units
from dueline.store.thresholds import Thresholds


def units(*rows: tuple[int, int, int]) -> Units:
    due_ms, seq, topic = (np.array(column, dtype=np.int64) for column in zip(*rows, strict=True))
    none = np.zeros(len(rows), dtype=np.int32)
    return Units(
        due_ms=due_ms,
        seq=seq,
        position=seq,
        size=none,
        topic=topic.astype(np.int32),
        queue_id=none,
    )


def test_topics_are_held_beyond_their_limit() -> None:
    held = Held({1: (-1, -1), 2: (20, 5)})
    rows = units((10, 1, 0), (10, 2, 1), (10, 9, 2), (20, 5, 2), (20, 6, 2), (30, 3, 2), (99, 7, 8))

    assert held.allows(rows).tolist() == [True, False, True, True, False, False, True]
    assert held.left(rows).seq.tolist() == [1, 9, 5, 7]
    assert NOTHING.left(rows) is rows


def test_other_limits_are_another_version() -> None:
    held = NOTHING.changed({1: (5, 5)})

    assert held.changed({1: (5, 5)}) is held
    assert held.changed({1: (5, 6)}).version != held.version
    assert not NOTHING.changed({})


def test_what_is_held_hides_nobody_behind_it(tmp_path: Path) -> None:
    wall = Wall()
    small = replace(SMALL, open_units_max=4, thresholds=Thresholds(scan_run_rows=1))
    with open_store(tmp_path, wall, small) as store:
        for number in range(40):
            store.put(delayed(1_000 + number, topic="held" if number < 35 else "free"))
            store.maintain()
        store.numbers.set_rule("held", RoadRule(is_paused=True))

        for _ in range(2):
            assert store.next_due_ms() == START_MS + 1_035
            corner = store.next_corner(until_ms=START_MS + 9_000, row_count_max=3)
            assert store.window(corner).units.seq.tolist() == [35, 36, 37]
            wide = store.window(corner, with_held=True)
            assert len(wide) == 38
        assert store.overdue(START_MS + 1_036).count == 2
        store.numbers.set_rule("held", RoadRule())
        assert store.next_due_ms() == START_MS + 1_000
