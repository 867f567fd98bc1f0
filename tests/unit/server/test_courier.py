"""The courier's thread: awake when something was accepted or is to be done, asleep otherwise."""

import threading
from pathlib import Path

import pytest
from tests.unit.store.making import Wall, delayed, open_store
from tests.waiting import PATIENCE_S, wait_until

from dueline.broker.pipeline.deputy import Deputy
from dueline.broker.pipeline.shortcut import Shortcut
from dueline.broker.pipeline.status import TRANSFORM_MS, PipelineStatus
from dueline.server.courier import Courier


class Nobody:
    """Neither shortcut nor deputy has anything to do."""

    is_open = True
    has_news = False

    def carry_over(self) -> int:
        return 0

    def turn(self) -> float | None:
        return None

    def rest(self) -> None:
        pass


def test_what_is_accepted_or_moved_is_carried_over_at_once(tmp_path: Path) -> None:
    wall = Wall()
    store = open_store(tmp_path, wall)
    status = PipelineStatus(store.clock, is_transformed=False)
    arrived = threading.Semaphore(0)
    failures: list[BaseException] = []
    shortcut = Shortcut(store, status, within_ms=500)

    class Noticed:
        is_open = True

        @property
        def has_news(self) -> bool:
            return shortcut.has_news

        def carry_over(self) -> int:
            count = shortcut.carry_over()
            for _ in range(count):
                arrived.release()
            return count

    courier = Courier(Noticed(), Nobody(), on_failure=failures.append)
    store.observe(courier)
    courier.start()

    store.put(delayed(100))
    assert arrived.acquire(timeout=PATIENCE_S)
    store.put(delayed(60_000, KEYS="k"))
    store.reschedule("k", wall.now_ms + 10)
    assert arrived.acquire(timeout=PATIENCE_S)

    assert store.pending_count() == 0
    courier.stop()
    assert failures == []


def test_a_failure_is_told() -> None:
    failed = threading.Event()

    class Broken:
        is_open = has_news = True

        def carry_over(self) -> int:
            raise OSError("broken")

    courier = Courier(Broken(), Nobody(), on_failure=lambda error: failed.set())
    courier.start()
    courier.accepted(1, 1, 0)

    assert failed.wait(PATIENCE_S)
    courier.stop()


def test_the_deputy_is_called_at_the_start_when_it_wants_and_when_the_pipeline_comes_or_goes() -> (
    None
):
    turns = threading.Semaphore(0)
    pauses: list[float | None] = [0.001, 0.001, None, None]
    rests: list[int] = []

    class Deputy:
        def turn(self) -> float | None:
            turns.release()
            return pauses.pop(0)

        def rest(self) -> None:
            rests.append(1)

    courier = Courier(Nobody(), Deputy(), on_failure=lambda error: None)
    courier.start()
    for _ in range(3):
        assert turns.acquire(timeout=PATIENCE_S)
    courier.wake()

    assert turns.acquire(timeout=PATIENCE_S)
    courier.stop()
    assert rests == [1], "nothing is read any more when the thread ends"


@pytest.mark.parametrize(
    ("is_open", "has_news", "wakes"),
    [(True, False, False), (True, True, True), (False, False, True)],
    ids=["nothing soon", "soon", "no shortcut, perhaps not any more"],
)
def test_it_is_woken_by_what_cannot_wait(is_open: bool, has_news: bool, wakes: bool) -> None:
    shortcut = Nobody()
    shortcut.is_open, shortcut.has_news = is_open, has_news
    courier = Courier(shortcut, Nobody(), on_failure=lambda error: None)

    courier.accepted(3, 0, 0)
    assert not courier._news.is_set()
    courier.accepted(3, 1, 0)

    assert courier._news.is_set() == wakes


@pytest.mark.parametrize("was_there", [False, True], ids=["never was", "has gone"])
def test_the_shortcut_opens_when_it_turns_out_that_there_is_no_transform(
    tmp_path: Path, was_there: bool
) -> None:
    wall = Wall()
    store = open_store(tmp_path, wall)
    status = PipelineStatus(store.clock)
    if was_there:
        status.asked(is_transformed=True)
    shortcut = Shortcut(store, status, within_ms=500)
    failures: list[BaseException] = []
    courier = Courier(shortcut, Deputy(store, status), on_failure=failures.append)
    store.observe(courier)
    courier.start()
    status.asked(is_transformed=False)
    wall.advance((TRANSFORM_MS + 1) * was_there)
    store.put(delayed(100, b"finds that it may open"))
    wait_until(lambda: shortcut.is_open, "the shortcut is open")
    store.put(delayed(100, b"takes it"))

    wait_until(lambda: store.pending_count() <= 1, "it is taken")
    courier.stop()
    assert failures == []
