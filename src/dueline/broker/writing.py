"""Messages on their way from a door's event loop to the store's writer, and the answers back.

    loop's thread                                     writer's thread
    write ──▶ topic on disk? ──▶ turn ── end of turn ──▶ put, fsync
                 │ no                                       │
                 └──▶ save tables elsewhere, then go on     │
    done(results) ◀──────────── post ◀──────────────────────┘

Where a few messages are all that is under way and the disk is quick, the writer has the loop's
thread write them; the answers come by `post` all the same.

What is sent in one turn of the loop, by whichever connections, goes to the writer together and
comes back together: one hand-over between threads each way, however many messages. A message of a
new topic waits until the topic is on disk, and later ones of that topic stay behind it: an
acknowledged message's topic survives a crash. For a topic that was saved this costs one look.

Everything here is called in the thread of the loop.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from functools import partial
from typing import Final, NamedTuple, Protocol

from dueline.broker.topics import Topics
from dueline.errors import BrokerError, LimitExceeded
from dueline.message import Message
from dueline.message_rows import MessageRows
from dueline.store import PutResult
from dueline.store.block_writing import RowsResult

__all__ = [
    "Done",
    "Loop",
    "Put",
    "PutRows",
    "Results",
    "RowsDone",
    "Writing",
    "accepted",
    "first_error",
]

TURN_COUNT_MAX: Final = 1_024
TURN_SIZE_BYTES_MAX: Final = 4 << 20
PEAK_DECAY: Final = 0.95
"""What is left of the recent peak after a question."""

log = logging.getLogger(__name__)

Results = list[PutResult | BrokerError]
Done = Callable[[Results | BaseException], None]
"""Called once: an answer for each message, or why there are none."""


class Put(Protocol):
    """Hand messages to the writer, for a caller that holds no lock.

    `done` is called from the thread that writes them; where writing takes a moment, that is the
    caller's own, before this returns.
    """

    def __call__(self, messages: Sequence[Message], done: Done) -> None: ...


RowsDone = Callable[[RowsResult | BaseException], None]
"""The same for rows."""


class PutRows(Protocol):
    """The same for rows."""

    def __call__(self, messages: MessageRows, done: RowsDone) -> None: ...


class Loop(Protocol):
    """A door's event loop, as far as the broker needs it."""

    def soon(self, call: Callable[[], None]) -> object:
        """Call at the end of this turn; for the loop's thread."""

    def post(self, call: Callable[[], None]) -> None:
        """Call in the loop's thread, later; for any thread."""

    def run(self, work: Callable[[], object], done: Callable[[BaseException | None], None]) -> None:
        """Run what may block in another thread, then call `done` in the loop's thread."""


class _Write(NamedTuple):  # a tuple: one is made for every send
    messages: Sequence[Message]
    done: Done
    size_bytes: int


class Writing:
    """One door's messages on their way to the disk."""

    def __init__(
        self,
        put: Put,
        loop: Loop,
        *,
        topics: Topics,
        save: Callable[[], object],
        put_rows: PutRows | None = None,
    ) -> None:
        """Prepare.

        Args:
            save: makes topics and groups durable; blocks for the disk.
            put_rows: hands rows to the writer.
        """
        self._put = put
        self._put_rows = put_rows
        self._loop = loop
        self._topics = topics
        self._save = save
        self._turn: list[_Write] = []
        self.before_write: Callable[[], None] | None = None
        """Called before a message goes into the turn: what came before it goes first."""
        self._turn_size_bytes = 0
        self._under_way = 0
        self._recent_peak = 0.0
        self._held: dict[str, list[_Write]] = {}

    def write(self, messages: Sequence[Message], done: Done, size_bytes: int) -> None:
        """Write messages of one topic; `done` is called in the loop's thread.

        Args:
            size_bytes: of the messages' bodies together, more or less.
        """
        topic = messages[0].topic
        write = _Write(messages, done, size_bytes)
        if topic in self._held or not self._topics.has_saved(topic):
            self._hold(topic, write)
            return
        if self.before_write is not None:
            self.before_write()
        if not self._turn:
            self._loop.soon(self._end_turn)
        self._turn.append(write)
        self._turn_size_bytes += size_bytes
        if self._turn_size_bytes > TURN_SIZE_BYTES_MAX or len(self._turn) >= TURN_COUNT_MAX:
            self._end_turn()

    def is_open(self, topic: str) -> bool:
        """Is the topic on disk, so that a message need not wait for it?"""
        return topic not in self._held and self._topics.has_saved(topic)

    def write_rows(self, messages: MessageRows, done: RowsDone) -> None:
        """Write rows of topics that are open, behind what was written before.

        `done` is called in the loop's thread.
        """

        def post(result: RowsResult | BaseException) -> None:
            self._loop.post(partial(self._rows_done, len(messages), done, result))

        self._end_turn()
        assert self._put_rows is not None
        self._begin(len(messages))
        try:
            self._put_rows(messages, post)
        except BrokerError as error:
            self._rows_done(len(messages), done, error)

    def _end_turn(self) -> None:
        turn, self._turn = self._turn, []
        self._turn_size_bytes = 0
        messages = [message for write in turn for message in write.messages]
        try:
            if messages:
                self._begin(len(messages))
                self._put(messages, partial(self._put_done, turn))
        except LimitExceeded:
            self._put_singly(turn)
        except BrokerError as error:
            self._turn_done(turn, error)

    def had_many(self, count: int) -> bool:
        """Were so many messages on their way at once, of late? Each question lets it fade."""
        self._recent_peak *= PEAK_DECAY
        return self._recent_peak >= count

    def _begin(self, count: int) -> None:
        self._under_way += count
        self._recent_peak = max(self._recent_peak, self._under_way)

    def _rows_done(self, count: int, done: RowsDone, result: RowsResult | BaseException) -> None:
        self._under_way -= count
        done(result)

    def _put_singly(self, turn: list[_Write]) -> None:
        """Together they are more than may wait: as many as there is room for."""
        for write in turn:
            try:
                self._put(write.messages, partial(self._put_done, [write]))
            except BrokerError as error:
                self._turn_done([write], error)

    def _put_done(self, turn: list[_Write], results: Results | BaseException) -> None:
        """The writer's answer, in the thread that has written."""
        self._loop.post(partial(self._turn_done, turn, results))

    def _turn_done(self, turn: list[_Write], results: Results | BaseException) -> None:
        self._under_way -= sum([len(write.messages) for write in turn])
        self._answer(turn, results)

    def _answer(self, turn: list[_Write], results: Results | BaseException) -> None:
        start = 0
        for write in turn:
            end = start + len(write.messages)
            try:
                write.done(results[start:end] if isinstance(results, list) else results)
            except Exception:
                # The boundary of a send: the others of its turn are answered all the same.
                log.exception("an answer to a send could not be passed on")
            start = end

    # Topics that are not on disk yet

    def _hold(self, topic: str, write: _Write) -> None:
        if topic in self._held:
            self._held[topic].append(write)
            return
        self._held[topic] = [write]
        self._loop.run(self._save, partial(self._release, topic))

    def _release(self, topic: str, error: BaseException | None) -> None:
        for write in self._held.pop(topic):
            if error is not None:
                self._answer([write], error)
            else:  # if the topic was changed meanwhile, it is held again
                self.write(*write)


def accepted(results: Results) -> list[PutResult]:
    """Raises the first refusal, if there is one."""
    found = []
    for result in results:
        if not isinstance(result, PutResult):
            raise result
        found.append(result)
    return found


def first_error(results: Results | BaseException) -> BaseException | None:
    """The first error among the answers, if there is one."""
    if isinstance(results, BaseException):
        return results
    return next((each for each in results if isinstance(each, BaseException)), None)
