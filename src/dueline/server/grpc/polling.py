"""Waiting calls: how long they wait, and what wakes them.

A call that finds nothing looks again when a topic of its has grown or when its patience is over.
`News` watches topics for one call. The watch is set before the first look, so that whatever comes
between the look and the wait wakes the call; and it is taken back when the call ends, however that
happens, so that a cancelled call leaves nothing behind.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from types import TracebackType
from typing import Any, Final, Self

from dueline.broker.reading import Reading
from dueline.broker.watches import Watch
from dueline.server.grpc.call import Call
from dueline.server.grpc.codes import Code, Refused
from dueline.server.grpc.options import GrpcOptions

__all__ = ["News", "polling_s"]

POLLING_MARGIN_S: Final = 0.5
"""An answer must be there before the caller's deadline is over."""


def polling_s(request: Any, call: Call, options: GrpcOptions, *, default_ms: int) -> float:
    """How long a call may wait.

    Raises:
        Refused: longer than anybody may.
    """
    polling_ms = default_ms
    if request.HasField("long_polling_timeout"):
        polling_ms = request.long_polling_timeout.ToMilliseconds()
    if not 0 <= polling_ms <= options.polling_ms_max:
        raise Refused(
            Code.ILLEGAL_POLLING_TIME,
            f"long polling: expected 0 to {options.polling_ms_max} ms, found {polling_ms}",
        )
    left_s = call.time_remaining()
    if left_s is None:
        return polling_ms / 1_000
    return float(max(min(polling_ms / 1_000, left_s - POLLING_MARGIN_S), 0))


class News:
    """Wakes one waiting call when its topics grow."""

    def __init__(self, reading: Reading, topics: Sequence[str]) -> None:
        self._reading = reading
        self._topics = topics
        self._loop = asyncio.get_running_loop()
        self._event = asyncio.Event()
        self._watches: list[Watch] = []
        self.is_over = False

    def __enter__(self) -> Self:
        self._watch()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._unwatch()

    def give_up(self) -> None:
        """Look a last time: another client needs the place."""
        self.is_over = True
        self._event.set()

    def wake(self) -> None:
        """Look again; any thread may call."""
        self._loop.call_soon_threadsafe(self._event.set)

    async def wait(self, seconds: float) -> None:
        """Until there is news or the time is over."""
        try:
            async with asyncio.timeout(seconds):
                await self._event.wait()
        except TimeoutError:
            return
        self._event.clear()
        self._unwatch()  # a watch wakes once, and it may have been another that did
        self._watch()

    def _watch(self) -> None:
        self._watches = [self._reading.watch(topic, None, self.wake) for topic in self._topics]

    def _unwatch(self) -> None:
        for watch in self._watches:
            watch.cancel()
