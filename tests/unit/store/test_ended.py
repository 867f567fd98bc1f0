"""Messages that ended without being delivered are told with when, across segments and restarts."""

from __future__ import annotations

from pathlib import Path

from tests.unit.store.making import START_MS, Wall, carry_over, delayed, int64s, open_store

from dueline.store.road import RoadRule
from dueline.store.states import NAMES


def test_each_end_is_told_with_its_time(tmp_path: Path) -> None:
    wall = Wall()
    store = open_store(tmp_path, wall)
    for number in range(150):  # several segments
        store.put(delayed(60_000 + number, b"x" * 100, KEYS=f"k{number}"))
    wall.advance(10)
    store.numbers.cancel(int64s(3, 140))
    wall.advance(10)
    store.numbers.move(int64s(5), int64s(START_MS + 90_000))
    carry_over(store, row_count_max=2)
    store.close()
    store = open_store(tmp_path, wall)
    wall.advance(70_000)
    store.numbers.set_rule("orders", RoadRule(expiry_ms=69_925 - 60_000 + 10))

    found = {
        int(number): (NAMES[int(state)], int(due_ms), int(ended_ms))
        for rows in store.numbers.ended()
        for number, state, due_ms, ended_ms in zip(
            rows.number, rows.states, rows.due_ms, rows.ended_ms, strict=True
        )
    }

    assert found[3] == ("cancelled", START_MS + 60_003, START_MS + 10)
    assert found[140] == ("cancelled", START_MS + 60_140, START_MS + 10)
    assert found[5] == ("moved", START_MS + 60_005, START_MS + 20)
    expired = {number for number, (name, _, _) in found.items() if name == "expired"}
    late = {n for n in range(150) if n not in (3, 5, 140) and 60_000 + n + 9_935 < 70_020}
    assert expired == late
    assert {found[number][2] for number in expired} == {START_MS + 70_020}
    store.close()
