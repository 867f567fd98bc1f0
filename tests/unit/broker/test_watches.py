import tracemalloc
from functools import partial

import pytest

from dueline.broker.watches import Watch, Watches
from dueline.errors import LimitExceeded


def test_a_reader_is_woken_once_by_its_own_queue() -> None:
    watches = Watches()
    woken: list[str] = []
    watches.add("a", 0, lambda: woken.append("a0"))
    watches.add("a", 1, lambda: woken.append("a1"))
    watches.add("b", 0, lambda: woken.append("b0"))

    watches.grown([("a", 1), ("c", 0)])
    watches.grown([("a", 1)])

    assert woken == ["a1"]
    assert len(watches) == 2


def test_a_reader_of_a_topic_is_woken_once_by_any_of_its_queues() -> None:
    watches = Watches()
    woken: list[str] = []
    watches.add("a", None, lambda: woken.append("a"))

    watches.grown([("a", 3), ("a", 4)])

    assert woken == ["a"]
    assert len(watches) == 0


def test_a_cancelled_watch_is_not_called_and_may_be_cancelled_twice() -> None:
    watches = Watches()
    woken: list[str] = []
    watch = watches.add("a", 0, lambda: woken.append("a"))

    watch.cancel()
    watch.cancel()
    watches.grown([("a", 0)])

    assert woken == []
    assert len(watches) == 0


def test_a_woken_reader_may_watch_again_from_its_call() -> None:
    watches = Watches()
    woken: list[int] = []

    def wake() -> None:
        woken.append(len(woken))
        watches.add("a", 0, wake)

    watches.add("a", 0, wake)
    watches.grown([("a", 0)])
    watches.grown([("a", 0)])

    assert woken == [0, 1]
    assert len(watches) == 1


def test_all_are_woken_when_the_broker_stops() -> None:
    watches = Watches()
    woken: list[str] = []
    watches.add("a", 0, lambda: woken.append("a"))
    watches.add("b", None, lambda: woken.append("b"))

    watches.wake_all()

    assert sorted(woken) == ["a", "b"]
    assert len(watches) == 0


def fill(watches: Watches, taken: list[Watch]) -> None:
    """Watch until it is refused, each time another topic with as long a name as may be."""
    woken: list[str] = []
    while True:
        topic = f"{len(taken):06}" + "x" * 121
        taken.append(watches.add(topic, 0, partial(woken.append, topic)))


def test_watches_are_bounded_in_bytes() -> None:
    watches = Watches(size_bytes_max=1 << 20)
    taken: list[Watch] = []
    tracemalloc.start()
    try:
        before, _ = tracemalloc.get_traced_memory()
        with pytest.raises(LimitExceeded, match="waiting readers: expected at most 1048576 bytes"):
            fill(watches, taken)
        after, _ = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()

    assert 500 < len(taken) < 2_000
    assert after - before < 2 << 20


@pytest.mark.parametrize("is_woken", [True, False])
def test_watches_that_are_gone_make_room(is_woken: bool) -> None:
    watches = Watches(size_bytes_max=1 << 20)
    counts = []
    for _ in range(3):
        taken: list[Watch] = []
        with pytest.raises(LimitExceeded):
            fill(watches, taken)
        counts.append(len(taken))
        if is_woken:
            watches.wake_all()
        for watch in taken:
            watch.cancel()

    assert counts == [counts[0]] * 3
