"""The event loop of one Flight call: what the rules of sending post to it runs in its thread.

The messaging ports have a loop each, which lives as long as they do. A Flight call has a thread to
itself, so it runs a loop of its own until it has its answer, and ends with it.
"""

from __future__ import annotations

import queue
from collections.abc import Callable, Sequence
from time import monotonic
from typing import Final, TypeVar

from dueline.errors import OutcomeUnknown

__all__ = ["CallLoop"]

WAIT_S_MAX: Final = 30.0

_Result = TypeVar("_Result")


class CallLoop:
    """A `dueline.broker.writing.Loop` for one call."""

    def __init__(self) -> None:
        self._calls: queue.SimpleQueue[Callable[[], None]] = queue.SimpleQueue()

    def soon(self, call: Callable[[], None]) -> None:
        self._calls.put(call)

    def post(self, call: Callable[[], None]) -> None:
        self._calls.put(call)

    def run(self, work: Callable[[], object], done: Callable[[BaseException | None], None]) -> None:
        """In this very thread, which has nothing else to do."""
        error: BaseException | None = None
        try:
            work()
        except Exception as caught:  # noqa: BLE001 - it is the caller's, who is told
            error = caught
        done(error)

    def until(self, answers: Sequence[_Result]) -> _Result:
        """Run what is posted until there is an answer.

        Raises:
            OutcomeUnknown: none came in time.
        """
        end_s = monotonic() + WAIT_S_MAX
        while not answers:
            try:
                self._calls.get(timeout=max(end_s - monotonic(), 0))()
            except queue.Empty:
                raise OutcomeUnknown(
                    f"the disk: expected an answer within {WAIT_S_MAX:g} s, found none; the "
                    "message may be stored or not"
                ) from None
        return answers[0]
