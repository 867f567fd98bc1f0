"""An answer that is costly to find, kept for a while: the longer it took, the longer.

Who asks again and again takes no more than `1 / AGE_RATIO` of a processor with it, however much
there is to look at; and what took less than `FREE_S` of one is not kept at all. Any thread may ask;
those who come while somebody looks wait for the same answer.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from time import monotonic, thread_time
from typing import Final, Generic, TypeVar

__all__ = ["Kept"]

AGE_RATIO: Final = 20
AGE_S_MAX: Final = 60.0
FREE_S: Final = 0.05

_Answer = TypeVar("_Answer")


class Kept(Generic[_Answer]):
    """The last answer of a function."""

    def __init__(
        self,
        find: Callable[[], _Answer],
        *,
        now_s: Callable[[], float] = monotonic,
        spent_s: Callable[[], float] = thread_time,
    ) -> None:
        self._find = find
        self._now_s = now_s
        self._spent_s = spent_s
        self._lock = threading.Lock()
        self._last: tuple[float, _Answer] | None = None

    def get(self) -> _Answer:
        """The answer, as it was at most so long ago."""
        with self._lock:
            if self._last is not None and self._now_s() < self._last[0]:
                return self._last[1]
            start_s = self._spent_s()
            answer = self._find()
            took_s = self._spent_s() - start_s
            age_s = min(AGE_RATIO * took_s, AGE_S_MAX) if took_s >= FREE_S else 0.0
            self._last = (self._now_s() + age_s, answer)
            return answer
