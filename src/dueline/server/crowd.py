"""How many of one kind may be under way at once: calls, streams.

    with calls.one():
        …

Each takes a thread, and a stream what it reads ahead, so that a peer that opens many of them and
goes on with none would take them from everybody. A newcomer when it is full waits for a moment
and is refused then. Any thread may call.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final, Generic, TypeVar

from dueline.errors import Unavailable

__all__ = ["Crowd", "Guarded"]

_Item = TypeVar("_Item")


class Crowd:
    """A bounded number of places."""

    def __init__(self, what: str, *, count_max: int, wait_s: float = 0.0) -> None:
        self._what: Final = what
        self._count_max: Final = count_max
        self._wait_s: Final = wait_s
        self._places = threading.BoundedSemaphore(count_max)

    def enter(self) -> None:
        """Take a place.

        Raises:
            Unavailable: there is none, and none became free.
        """
        is_free = (
            self._places.acquire(timeout=self._wait_s)
            if self._wait_s
            else self._places.acquire(blocking=False)
        )
        if not is_free:
            raise Unavailable(
                f"{self._what}: expected at most {self._count_max} at once, found as many; try "
                "again later"
            )

    def leave(self) -> None:
        self._places.release()

    @contextmanager
    def one(self) -> Iterator[None]:
        self.enter()
        try:
            yield
        finally:
            self.leave()


class Guarded(Generic[_Item]):
    """An iterator that has a place in a crowd until it ends, fails or is forgotten.

    Not a generator: one that was never started does not run its `finally`.
    """

    def __init__(self, crowd: Crowd, items: Iterator[_Item]) -> None:
        self._has_place = False
        crowd.enter()
        self._crowd = crowd
        self._has_place = True
        self._items = items

    def __iter__(self) -> Guarded[_Item]:
        return self

    def __next__(self) -> _Item:
        try:
            return next(self._items)
        except BaseException:
            self._leave()
            raise

    def __del__(self) -> None:
        self._leave()

    def _leave(self) -> None:
        if self._has_place:
            self._has_place = False
            self._crowd.leave()
