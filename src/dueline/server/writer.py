"""Who puts messages into the store, one group after the other: everything that waits is one group.

    submit ──▶ queue (bounded) ──▶ writer thread: put_all, one fsync ──▶ done(answers)
    submit_rows   │                               put_rows                    ▲
                  └── a few, a quick disk, nobody else: the sender's thread ──┘

While one group is on its way to the disk the next one gathers, so the slower the disk, the larger
the groups. Senders that come back one after the other are waited for a little, so that they share
one fsync (`dueline.server.gathering`). What may gather is bounded in messages and bytes; beyond
that a sender is told to come back later, at once, instead of waiting in a line that only grows.

Messages come one by one or as rows (`dueline.message_rows`). A group has rows first and single
messages behind them, so what was submitted earlier is never written later.

`submit` may be called from any thread that holds no lock. It waits for the disk only where that has
been quick of late and for a few messages, if nobody writes and nothing holds the store up. `done`
is called from the thread that writes, perhaps before `submit` returns, and must be quick. After
`stop` nothing is taken any more, and everything taken before is answered.
"""

from __future__ import annotations

import logging
import threading
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from time import perf_counter
from typing import Final, TypeVar

from dueline.broker.values import RowsResult
from dueline.broker.writing import Done, Results, RowsDone
from dueline.errors import LimitExceeded, StoreClosed, Unavailable
from dueline.message import Message
from dueline.message_rows import MessageRows
from dueline.server.gathering import Gathering
from dueline.server.threads import OnFailure, start_thread

__all__ = ["Writer"]

GROUP_COUNT_MAX: Final = 4096
GROUP_SIZE_BYTES_MAX: Final = 16 << 20

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Singles:
    messages: Sequence[Message]
    done: Done
    size_bytes: int


@dataclass(frozen=True, slots=True, kw_only=True)
class _Rows:
    messages: MessageRows
    done: RowsDone
    size_bytes: int


_Request = _Singles | _Rows
_Result = TypeVar("_Result")


class Writer:
    """Messages on their way to the disk."""

    def __init__(  # noqa: PLR0913 - its bounds, keyword-only
        self,
        put_all: Callable[[Sequence[Message]], Results],
        *,
        put_rows: Callable[[Sequence[MessageRows]], list[RowsResult]] | None = None,
        count_max: int,
        size_bytes_max: int,
        on_failure: OnFailure,
        gathers: bool = True,
        is_at_hand: Callable[[], bool] = lambda: True,
    ) -> None:
        """Prepare.

        Args:
            gathers: wait for senders that come back; in vain where no write waits for the disk.
            is_at_hand: would a write begin at once?
        """
        self._put_all = put_all
        self._put_rows = put_rows
        self._count_max: Final = count_max
        self._size_bytes_max: Final = size_bytes_max
        self._on_failure = on_failure
        self._queue: deque[_Request] = deque()
        self._count = 0
        self._size_bytes = 0
        self._is_stopping = False
        self._wanted_count = 1
        self._is_writing = False
        self._gathering = Gathering(waits=gathers)
        self._is_at_hand = is_at_hand
        self._changed = threading.Condition()
        self._thread: threading.Thread | None = None

    def start(self) -> None:
        self._thread = start_thread("writer", self._run, on_failure=self._on_failure)

    def stop(self) -> None:
        """Take nothing more; return when everything taken has been answered."""
        with self._changed:
            self._is_stopping = True
            self._changed.notify_all()
        if self._thread is not None:
            self._thread.join()

    def submit(self, messages: Sequence[Message], done: Done) -> None:
        """Write these messages soon and then call `done`.

        Raises:
            LimitExceeded: too much waits already; try again later.
            Unavailable: the broker is stopping.
        """
        size_bytes = sum(len(message.body) for message in messages)
        self._submit(_Singles(messages=messages, done=done, size_bytes=size_bytes))

    def submit_rows(self, messages: MessageRows, done: RowsDone) -> None:
        """The same for rows.

        Raises:
            LimitExceeded, Unavailable: as `submit`.
        """
        self._submit(_Rows(messages=messages, done=done, size_bytes=messages.size_bytes))

    def _submit(self, request: _Request) -> None:
        count, size_bytes = len(request.messages), request.size_bytes
        with self._changed:
            if self._is_stopping:
                raise Unavailable("the broker is stopping; send again when it is back")
            if not self._leaves_to_sender(count, size_bytes):
                self._enqueue(request, count, size_bytes)
                return
            self._is_writing = True
        self._write_group([request])

    def _leaves_to_sender(self, count: int, size_bytes: int) -> bool:
        is_free = self._thread is not None and not self._is_writing and not self._queue
        is_small = self._gathering.leaves_to_sender(count, size_bytes)
        return is_free and is_small and self._is_at_hand()

    def _enqueue(self, request: _Request, count: int, size_bytes: int) -> None:
        if self._queue:  # a request that is too large by itself must pass at some time
            self._check_room(count, size_bytes)
        self._queue.append(request)
        self._count += count
        self._size_bytes += size_bytes
        if self._count >= self._wanted_count:
            self._changed.notify()

    def _check_room(self, count: int, size_bytes: int) -> None:
        for what, found, limit in (
            ("messages", self._count + count, self._count_max),
            ("bytes", self._size_bytes + size_bytes, self._size_bytes_max),
        ):
            if found > limit:
                raise LimitExceeded(
                    f"the broker is busy: expected at most {limit} {what} to wait for the disk, "
                    f"found {found}; send again later or more slowly",
                    limit=limit,
                    found=found,
                    unit=what,
                )

    def _run(self) -> None:
        while group := self._take():
            self._write_group(group)

    def _write_group(self, group: Sequence[_Request]) -> None:
        """Write a group and answer it; whoever calls has said that it writes."""
        rows = [request for request in group if isinstance(request, _Rows)]
        singles = [request for request in group if isinstance(request, _Singles)]
        try:
            if rows:
                self._write_rows(rows)
            if singles:
                self._write(singles)
        finally:
            with self._changed:
                self._is_writing = False
                if self._queue or self._is_stopping:
                    self._changed.notify_all()

    def _take(self) -> list[_Request]:
        """Wait for requests and take a group of them; an empty one is the end."""
        with self._changed:
            self._changed.wait_for(
                lambda: (self._queue or self._is_stopping) and not self._is_writing
            )
            self._gather()
            group: list[_Request] = []
            count = size_bytes = 0
            while self._queue:
                request = self._queue[0]
                count += len(request.messages)
                size_bytes += request.size_bytes
                if group and (count > GROUP_COUNT_MAX or size_bytes > GROUP_SIZE_BYTES_MAX):
                    break
                if group and isinstance(request, _Rows) and isinstance(group[-1], _Singles):
                    break
                group.append(self._queue.popleft())
                self._count -= len(request.messages)
                self._size_bytes -= request.size_bytes
            self._is_writing = bool(group)
            return group

    def _gather(self) -> None:
        """Wait for those who were just answered and send again, if that helps; holds the lock."""
        wanted, wait_s = self._gathering.plan()
        if wait_s <= 0 or self._count >= wanted:
            return
        self._wanted_count = wanted
        self._changed.wait_for(lambda: self._count >= wanted or self._is_stopping, wait_s)
        self._wanted_count = 1
        self._gathering.waited(self._count)

    def _wrote(self, count: int, started_s: float) -> None:
        """Messages are on disk, and their senders do not know yet."""
        self._gathering.wrote(count + self._count, perf_counter() - started_s)

    def _write(self, group: list[_Singles]) -> None:
        messages = [message for request in group for message in request.messages]
        started_s = perf_counter()
        try:
            results = self._put_all(messages)
        except Exception as error:  # noqa: BLE001 - every sender in the group is told
            self._failed(group, error)
            return
        self._wrote(len(messages), started_s)
        start = 0
        for request in group:
            end = start + len(request.messages)
            _answer(request.done, results[start:end])
            start = end
        self._close_if(results)

    def _write_rows(self, group: list[_Rows]) -> None:
        started_s = perf_counter()
        try:
            assert self._put_rows is not None
            results = self._put_rows([request.messages for request in group])
        except Exception as error:  # noqa: BLE001 - every sender in the group is told
            self._failed(group, error)
            return
        self._wrote(sum(len(request.messages) for request in group), started_s)
        for request, result in zip(group, results, strict=True):
            _answer(request.done, result)
        self._close_if([results[0].ordinary_error, results[0].delayed_error])

    def _failed(self, group: Sequence[_Request], error: Exception) -> None:
        for request in group:
            _answer(request.done, error)
        if isinstance(error, StoreClosed):
            self._on_failure(error)
        else:
            count = sum(len(request.messages) for request in group)
            log.error("a group of %d messages was not written", count, exc_info=error)

    def _close_if(self, results: Sequence[object]) -> None:
        """A store that failed under way ends the broker."""
        closed = next((result for result in results if isinstance(result, StoreClosed)), None)
        if closed is not None:
            self._on_failure(closed)


def _answer(done: Callable[[_Result], None], result: _Result) -> None:
    try:
        done(result)
    except Exception:
        # A sender that has gone away must not stop the others.
        log.exception("an answer could not be passed on")
