"""Places are bounded, and come back however their holder ends."""

from collections.abc import Iterator

import pytest

from dueline.errors import Unavailable
from dueline.server.crowd import Crowd, Guarded


def counted(crowd: Crowd, items: Iterator[int]) -> Guarded[int]:
    return Guarded(crowd, items)


def test_who_comes_when_it_is_full_is_refused() -> None:
    crowd = Crowd("calls", count_max=2)

    crowd.enter()
    with crowd.one(), pytest.raises(Unavailable, match="calls: expected at most 2"):
        crowd.enter()

    with crowd.one():
        pass


def test_who_may_wait_waits() -> None:
    crowd = Crowd("calls", count_max=1, wait_s=0.01)
    crowd.enter()

    with pytest.raises(Unavailable):
        crowd.enter()
    crowd.leave()
    crowd.enter()


def test_a_stream_leaves_when_it_ends() -> None:
    crowd = Crowd("streams", count_max=1)

    assert list(counted(crowd, iter([1, 2]))) == [1, 2]
    assert list(counted(crowd, iter([3]))) == [3]


def test_a_stream_leaves_when_it_fails() -> None:
    crowd = Crowd("streams", count_max=1)
    failing = counted(crowd, (1 // number for number in (1, 0)))
    assert next(failing) == 1

    with pytest.raises(ZeroDivisionError):
        next(failing)
    crowd.enter()


def test_a_stream_leaves_when_nobody_has_it_any_more() -> None:
    crowd = Crowd("streams", count_max=1)
    unstarted = counted(crowd, iter([1]))
    with pytest.raises(Unavailable):
        counted(crowd, iter([2]))

    del unstarted

    crowd.enter()
