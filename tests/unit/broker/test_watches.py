import pytest

from dueline.broker.watches import Watches
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


def test_more_watches_than_the_bound_are_refused() -> None:
    watches = Watches(count_max=1)
    first = watches.add("a", 0, lambda: None)

    with pytest.raises(LimitExceeded, match="expected at most 1"):
        watches.add("a", 1, lambda: None)
    first.cancel()
    watches.add("a", 1, lambda: None)

    assert len(watches) == 1
