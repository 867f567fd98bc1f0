"""Rules of the road: pauses, rates and expiries, through deliveries, restarts and sends."""

from __future__ import annotations

import threading
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
from tests.unit.store.making import (
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

from dueline.store import Answer, Observer, Store, restore
from dueline.store.road import RoadRule
from dueline.store.states import EXPIRED, MOVED


@pytest.fixture
def wall() -> Wall:
    return Wall()


def put(store: Store, *delays_ms: int, topic: str = "orders") -> None:
    for delay_ms in delays_ms:
        store.put(delayed(delay_ms, b"%d" % delay_ms, topic=topic))


def rule(store: Store, **fields: Any) -> None:
    store.numbers.set_rule("orders", RoadRule(**fields))


def pause(store: Store) -> None:
    rule(store, is_paused=True)


def run(
    store: Store, wall: Wall, until_ms: int, step_ms: int = 500, ahead_ms: int = 30_000
) -> None:
    """Let the pipeline and the gate do their work up to a time."""
    while wall.now_ms < until_ms:
        wall.advance(step_ms)
        carry_over(store, ahead_ms=ahead_ms)
        store.numbers.sweep()
        store.open_gate()


# --- pause ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("is_carried", [False, True])
@pytest.mark.parametrize("is_reopened", [False, True])
def test_nothing_of_a_paused_topic_is_shown_until_it_is_resumed(
    tmp_path: Path, wall: Wall, is_carried: bool, is_reopened: bool
) -> None:
    store = open_store(tmp_path, wall)
    put(store, 1_000, 2_000, 3_000)
    put(store, 2_000, topic="other")
    if is_carried:
        carry_over(store)
        store.checkpoint()
    pause(store)
    if is_reopened:
        wall.advance(1_500)
        store.put(ordinary(b"later", topic="other"))
        store.close()
        store = open_store(tmp_path, wall)

    run(store, wall, START_MS + 10_000)
    store.put(ordinary(b"ordinary"))

    assert bodies(store) == [b"ordinary"]
    assert b"2000" in bodies(store, "other")
    assert store.next_due_ms() is None
    assert store.overdue(wall.now_ms).count == 0
    assert store.pending_count() == 3
    assert [store.survey().count(), store.gate_row_count] == [3, 0]
    rule(store, resumed_ms=wall.now_ms)
    run(store, wall, START_MS + 12_000)
    assert bodies(store) == [b"ordinary", b"1000", b"2000", b"3000"]
    store.close()


def test_what_the_pipeline_brings_after_a_pause_stays_pending(tmp_path: Path, wall: Wall) -> None:
    with open_store(tmp_path, wall) as store:
        put(store, 1_000)
        put(store, 1_000, topic="other")
        rows = restore.deliveries(take_window(store))
        pause(store)

        result = store.deliver([rows])

        assert (result.delivered_count, result.held_count) == (1, 1)
        assert store.survey().pending_by_topic() == {"orders": 1}


def test_what_goes_back_from_the_gate_keeps_its_due_time(tmp_path: Path, wall: Wall) -> None:
    with open_store(tmp_path, wall) as store:
        put(store, 5_000, 5_000, 6_000)
        carry_over(store)
        pause(store)

        dues = [due for rows, _ in store.survey().slabs() for due in rows.units.due_ms.tolist()]

        assert dues == [START_MS + 5_000, START_MS + 5_000, START_MS + 6_000]
        before = store.numbers.message(0)
        assert before is not None
        assert before.state == MOVED


# --- rate -----------------------------------------------------------------------------------------


@pytest.mark.parametrize("rate", [1, 3, 7])
def test_no_more_than_the_rate_become_visible_in_any_second(
    tmp_path: Path, wall: Wall, rate: int
) -> None:
    store = open_store(tmp_path, wall)
    rule(store, rate=rate)
    for number in range(40):
        store.put(delayed(1_000 + number // 10, b"%d" % number))
    put(store, 1_000, topic="other")

    for turn in range(12):
        run(store, wall, wall.now_ms + 4_000, ahead_ms=3_000)
        if turn % 3 == 1:
            store.close()
            store = open_store(tmp_path, wall)

    times = [record.store_ms for record in read_all(store)]
    assert [int(record.body) for record in read_all(store)] == list(range(len(times)))
    assert len(times) >= min(40, 38 * rate)
    for start_ms in times:
        assert len([time for time in times if start_ms <= time < start_ms + 1_000]) <= rate
    assert bodies(store, "other") == [b"1000"]
    assert read_all(store, "other")[0].store_ms == START_MS + 1_000
    store.close()


def test_a_rate_takes_hold_of_what_stands_at_the_gate(tmp_path: Path, wall: Wall) -> None:
    with open_store(tmp_path, wall) as store:
        put(store, *[5_000] * 20)
        carry_over(store)
        rule(store, rate=2)

        run(store, wall, START_MS + 8_000)

        assert len(bodies(store)) == 7
        rule(store)
        run(store, wall, START_MS + 60_000)
        assert len(bodies(store)) == 20


@pytest.mark.parametrize("rate", [1, 20, None])
def test_slots_are_free_again_when_their_messages_were_turned_back(
    tmp_path: Path, wall: Wall, rate: int | None
) -> None:
    """Nothing waits for a slot that it had before the topic was paused or slowed otherwise."""
    with open_store(tmp_path, wall) as store:
        rule(store, rate=1)
        put(store, *[1_000] * 20)
        carry_over(store, ahead_ms=30_000)
        if rate == 1:
            rule(store, rate=1, is_paused=True)
        rule(store, rate=rate)

        run(store, wall, START_MS + 10_000)

        assert len(bodies(store)) == (10 if rate == 1 else 20)


def test_what_is_being_carried_over_when_its_topic_is_paused_is_not_shown(
    tmp_path: Path, wall: Wall, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The pause is answered when that stands at the gate and has gone back."""
    with open_store(tmp_path, wall) as store:
        store.numbers.set_rule("other", RoadRule(rate=5))
        put(store, 1_000)
        rows = restore.deliveries(take_window(store))
        core = store._core
        pausing = threading.Thread(target=pause, args=(store,))
        stamp = core.road.stamp

        def stamp_and_pause(*arguments: Any) -> Any:
            found = stamp(*arguments)
            pausing.start()
            return found

        monkeypatch.setattr(core.road, "stamp", stamp_and_pause)
        assert store.deliver([rows]).delivered_count == 1
        pausing.join()

        wall.advance(2_000)
        store.open_gate()

        assert bodies(store) == []
        assert store.pending_count() == 1


def test_after_a_restart_the_gate_knows_when_messages_with_slots_are_due(
    tmp_path: Path, wall: Wall
) -> None:
    with open_store(tmp_path, wall) as store:
        rule(store, rate=1, expiry_ms=5_000)
        put(store, *[1_000] * 4)
        carry_over(store)
    with open_store(tmp_path, wall) as store:
        dues = [due for rows, _ in store.survey().slabs() for due in rows.units.due_ms.tolist()]
        assert dues == [START_MS + 1_000] * 4
        wall.advance(1_500)
        store.open_gate()
        assert len(bodies(store)) == 1
    wall.advance(7_000)  # the slots of the others were in time, and nobody saw them

    with open_store(tmp_path, wall) as store:
        store.open_gate()

        assert len(bodies(store)) == 1
        assert store.pending_count() + store.gate_row_count == 0


def test_a_message_due_before_those_with_slots_does_not_wait_behind_them(
    tmp_path: Path, wall: Wall
) -> None:
    with open_store(tmp_path, wall) as store:
        rule(store, rate=1)
        put(store, *[10_000] * 5)
        carry_over(store)
        put(store, 2_000)

        run(store, wall, START_MS + 30_000)

        assert bodies(store) == [b"2000", *[b"10000"] * 5]
        times = [record.store_ms - START_MS for record in read_all(store)]
        assert times[0] == 2_000


@pytest.mark.parametrize("is_reopened", [False, True])
def test_messages_due_among_those_with_slots_come_between_them(
    tmp_path: Path, wall: Wall, is_reopened: bool
) -> None:
    store = open_store(tmp_path, wall)
    rule(store, rate=1)
    put(store, 100, 300, 500)
    carry_over(store, ahead_ms=30_000)
    if is_reopened:
        store.close()
        store = open_store(tmp_path, wall)
    put(store, 200, 400)

    run(store, wall, START_MS + 20_000)

    assert bodies(store) == [b"100", b"200", b"300", b"400", b"500"]
    store.close()


def test_what_expires_takes_no_slot(tmp_path: Path, wall: Wall) -> None:
    with open_store(tmp_path, wall) as store:
        rule(store, rate=1, expiry_ms=1_000)
        put(store, *[1_000] * 20, 5_000)

        carry_over(store)
        run(store, wall, START_MS + 10_000)

        times = [(record.body, record.store_ms - START_MS) for record in read_all(store)]
        assert times == [(b"1000", 1_000), (b"1000", 2_000), (b"5000", 5_000)]


def test_another_rate_begins_without_the_slots_of_messages_that_are_gone(
    tmp_path: Path, wall: Wall
) -> None:
    with open_store(tmp_path, wall) as store:
        rule(store, rate=1)
        for number in range(20):
            store.put(delayed(1_000, UNIQ_KEY=f"M{number}"))
        carry_over(store)
        for number in range(20):
            assert store.cancel(f"M{number}") == Answer.CANCELLED

        rule(store, rate=10)
        put(store, 3_000)
        run(store, wall, START_MS + 10_000)

        assert [record.store_ms - START_MS for record in read_all(store)] == [3_000]


def test_slots_of_a_delivery_that_failed_are_free_again(tmp_path: Path, wall: Wall) -> None:
    with open_store(tmp_path, wall) as store:
        rule(store, rate=1)
        put(store, 1_000)
        rows = restore.deliveries(take_window(store))
        bad = rows.set_column(2, "topic", [["no topic" * 40]])
        for _ in range(3):
            with pytest.raises(Exception, match="topic"):
                store.deliver([bad])

        store.deliver([rows])

        assert store.gate_next_ms == START_MS + 1_000


# --- expiry ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("is_carried", [False, True])
def test_what_is_too_late_is_not_delivered(tmp_path: Path, wall: Wall, is_carried: bool) -> None:
    store = open_store(tmp_path, wall)
    rule(store, expiry_ms=5_000)
    put(store, 1_000, 20_000)
    put(store, 1_000, topic="other")
    if is_carried:
        carry_over(store)
    store.close()
    wall.advance(10_000)
    store = open_store(tmp_path, wall)

    run(store, wall, START_MS + 30_000)

    assert bodies(store) == [b"20000"]
    assert bodies(store, "other") == [b"1000"]
    gone = store.numbers.message(0)
    assert gone is None or gone.state == EXPIRED
    store.close()
    with open_store(tmp_path, wall) as store:
        run(store, wall, START_MS + 40_000)
        assert bodies(store) == [b"20000"]


def test_the_gate_shows_nothing_that_has_expired(tmp_path: Path, wall: Wall) -> None:
    with open_store(tmp_path, wall) as store:
        rule(store, expiry_ms=5_000)
        put(store, 1_000, 12_000)
        carry_over(store)
        wall.advance(15_000)

        store.open_gate()
        shown = bodies(store)
        store.numbers.sweep()
        store.open_gate()

        assert shown == []
        assert bodies(store) == [b"12000"]


def test_a_rate_lets_expire_what_finds_no_slot_in_time(tmp_path: Path, wall: Wall) -> None:
    with open_store(tmp_path, wall) as store:
        rule(store, rate=1, expiry_ms=3_000)
        put(store, *[1_000] * 10)

        run(store, wall, START_MS + 20_000)

        assert Counter(bodies(store)) == {b"1000": 4}
        assert store.pending_count() == 0


# --- lateness -------------------------------------------------------------------------------------


def test_what_is_held_back_is_not_late(tmp_path: Path, wall: Wall) -> None:
    class Late(Observer):
        def __init__(self) -> None:
            self.most_ms = 0

        def shown(self, due_ms, now_ms: int) -> None:  # type: ignore[no-untyped-def]
            self.most_ms = max([self.most_ms, *(now_ms - due_ms).tolist()])

    with open_store(tmp_path, wall) as store:
        late = Late()
        store.observe(late)
        rule(store, rate=1)
        store.numbers.set_rule("other", RoadRule(is_paused=True))
        put(store, *[1_000] * 5)
        put(store, 1_000, topic="other")
        run(store, wall, START_MS + 60_000, step_ms=1_000)
        store.numbers.set_rule("other", RoadRule(resumed_ms=wall.now_ms))
        run(store, wall, START_MS + 62_000, step_ms=1_000)

        assert len(bodies(store, "other")) == 1
        assert late.most_ms <= 1_000
