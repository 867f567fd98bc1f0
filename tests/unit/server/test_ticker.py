import threading

import pytest
from tests.waiting import wait_until

from dueline.clock import Clock
from dueline.errors import Unavailable
from dueline.server.ticker import SLEEP_S_MAX, GateTicker


class Gate:
    """Due times in waiting; `shut` keeps it closed as an append under way does."""

    def __init__(self, *due_ms: int) -> None:
        self.due_ms = list(due_ms)
        self.now_ms = 1_000
        self.clock = Clock(lambda: self.now_ms)
        self.opened: list[tuple[int, int]] = []
        self.is_shut = False
        self.look_count = 0

    @property
    def gate_next_ms(self) -> int | None:
        self.look_count += 1
        return min(self.due_ms, default=None)

    def open_gate(self) -> int:
        now_ms = self.clock.now_ms()
        due = [] if self.is_shut else [due_ms for due_ms in self.due_ms if due_ms <= now_ms]
        self.opened += [(due_ms, now_ms) for due_ms in due]
        self.due_ms = [due_ms for due_ms in self.due_ms if due_ms not in due]
        return len(due)


def ticker_of(gate: Gate) -> GateTicker:
    return GateTicker(gate, gate.clock, on_failure=lambda error: None)


def test_an_empty_gate_is_slept_through_until_woken() -> None:
    assert ticker_of(Gate()).turn() is None


def test_it_sleeps_until_just_before_the_next_is_due() -> None:
    assert ticker_of(Gate(1_100, 1_200)).turn() == pytest.approx(0.0995)


def test_it_looks_up_now_and_then_since_the_wall_clock_may_be_set() -> None:
    assert ticker_of(Gate(1_000_000)).turn() == SLEEP_S_MAX


def test_what_is_due_is_shown_and_the_next_is_slept_for() -> None:
    gate = Gate(900, 1_000, 1_010)

    assert ticker_of(gate).turn() == pytest.approx(0.0095)
    assert gate.opened == [(900, 1_000), (1_000, 1_000)]


def test_a_gate_kept_shut_is_tried_again_soon_and_not_at_once() -> None:
    gate = Gate(1_000)
    gate.is_shut = True

    pause_s = ticker_of(gate).turn()

    assert pause_s is not None
    assert 0 < pause_s <= 0.002
    assert gate.opened == []


def test_a_nearer_due_time_wakes_it() -> None:
    gate = Gate(10_000_000)
    ticker = ticker_of(gate)
    ticker.start()
    try:
        wait_until(lambda: gate.look_count, "a first look")
        gate.due_ms.append(900)
        ticker.delivered(count=1, skipped_count=0, dropped_count=0)
        wait_until(lambda: gate.opened, "the gate to be opened")
    finally:
        ticker.stop()

    assert gate.opened == [(900, 1_000)]


def test_it_stops_while_it_sleeps() -> None:
    gate = Gate()
    ticker = ticker_of(gate)
    before = set(threading.enumerate())
    ticker.start()
    wait_until(lambda: gate.look_count, "a first look")
    assert [thread.name for thread in set(threading.enumerate()) - before] == ["gate"]

    ticker.stop()

    assert set(threading.enumerate()) <= before


def test_an_idle_ticker_does_not_look() -> None:
    gate = Gate()
    ticker = ticker_of(gate)
    ticker.start()
    wait_until(lambda: gate.look_count, "a first look")
    look_count = gate.look_count
    try:
        ticker.delivered(count=1, skipped_count=0, dropped_count=0)
        wait_until(lambda: gate.look_count > look_count, "another look")
        look_count = gate.look_count
        # Were it awake, the time that another thread needs to be scheduled would show it.
        for _ in range(20):
            thread = threading.Thread(target=lambda: None)
            thread.start()
            thread.join()
        assert gate.look_count == look_count
    finally:
        ticker.stop()


def test_a_failing_gate_is_reported() -> None:
    class Broken(Gate):
        def open_gate(self) -> int:
            raise ValueError("broken")

    failures: list[BaseException] = []
    gate = Broken(1_000)
    ticker = GateTicker(gate, gate.clock, on_failure=failures.append)
    ticker.start()
    wait_until(lambda: failures, "a failure")
    ticker.stop()

    assert str(failures[0]) == "broken"


class FullGate(Gate):
    """A gate that has no room for what it should show."""

    is_full = True

    def open_gate(self) -> int:
        if self.is_full:
            raise Unavailable("disk full")
        return super().open_gate()


def test_a_gate_without_disk_space_is_tried_again_and_ends_nothing() -> None:
    gate = FullGate(900)
    failures: list[BaseException] = []
    ticker = GateTicker(gate, gate.clock, on_failure=failures.append)
    ticker.start()
    wait_until(lambda: gate.look_count > 3, "some tries")

    gate.is_full = False

    wait_until(lambda: gate.opened, "an open gate")
    ticker.stop()
    assert failures == []


def test_an_end_that_comes_while_news_are_cleared_is_seen() -> None:
    ticker = ticker_of(Gate())

    class News(threading.Event):
        def clear(self) -> None:
            ticker._stopping.set()
            self.set()
            super().clear()

    ticker._news = News()
    ticker._news.set()
    ticker.start()

    wait_until(lambda: ticker._thread and not ticker._thread.is_alive(), "the thread's end")
