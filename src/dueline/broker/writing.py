"""Messages on their way from a door's event loop to the store's writer, and the answers back.

    loop's thread                                     writer's thread
    write ──▶ topic on disk? ──▶ turn ── end of turn ──▶ put, fsync
                 │ no                                       │
                 └──▶ save tables elsewhere, then go on     │
    done(results) ◀──────────── post ◀──────────────────────┘

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
from dueline.store import PutResult

__all__ = ["Done", "Loop", "Put", "Results", "Writing", "accepted", "first_error"]

TURN_COUNT_MAX: Final = 1_024
TURN_SIZE_BYTES_MAX: Final = 4 << 20

log = logging.getLogger(__name__)

Results = list[PutResult | BrokerError]
Done = Callable[[Results | BaseException], None]
"""Called once: an answer for each message, or why there are none."""


class Put(Protocol):
    """Hand messages to the writer; never blocks, and `done` is called from the writer's thread."""

    def __call__(self, messages: Sequence[Message], done: Done) -> None: ...


class Loop(Protocol):
    """A door's event loop, as far as the broker needs it."""

    def soon(self, call: Callable[[], None]) -> object:
        """Call at the end of this turn; for the loop's thread."""

    def post(self, call: Callable[[], None]) -> None:
        """Call in the loop's thread; for any other thread."""

    def run(self, work: Callable[[], object], done: Callable[[BaseException | None], None]) -> None:
        """Run what may block in another thread, then call `done` in the loop's thread."""


class _Write(NamedTuple):  # a tuple: one is made for every send
    messages: Sequence[Message]
    done: Done
    size_bytes: int


class Writing:
    """One door's messages on their way to the disk."""

    def __init__(self, put: Put, loop: Loop, *, topics: Topics, save: Callable[[], object]) -> None:
        """Prepare.

        Args:
            save: makes topics and groups durable; blocks for the disk.
        """
        self._put = put
        self._loop = loop
        self._topics = topics
        self._save = save
        self._turn: list[_Write] = []
        self._turn_size_bytes = 0
        self._held: dict[str, list[_Write]] = {}

    def write(self, messages: Sequence[Message], done: Done, size_bytes: int) -> None:
        """Write messages of one topic; `done` is called in the loop's thread.

        Args:
            size_bytes: of the messages' bodies together, more or less.
        """
        topic = messages[0].topic
        write = _Write(messages, done, size_bytes)
        if topic not in self._held and self._topics.has_saved(topic):
            self._add(write)
        else:
            self._hold(topic, write)

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
                _answer(write, error)
            elif topic not in self._held and self._topics.has_saved(topic):
                self._add(write)
            else:  # the topic was changed meanwhile
                self._hold(topic, write)

    # Turns

    def _add(self, write: _Write) -> None:
        if not self._turn:
            self._loop.soon(self._end_turn)
        self._turn.append(write)
        self._turn_size_bytes += write.size_bytes
        if self._turn_size_bytes > TURN_SIZE_BYTES_MAX or len(self._turn) >= TURN_COUNT_MAX:
            self._end_turn()

    def _end_turn(self) -> None:
        turn, self._turn = self._turn, []
        self._turn_size_bytes = 0
        if turn:
            self._hand_over(turn)

    def _hand_over(self, turn: list[_Write]) -> None:
        """All together or, if that is more than may wait, as many as there is room for."""
        messages = [message for write in turn for message in write.messages]
        try:
            self._put(messages, partial(self._put_done, turn))
        except LimitExceeded as error:
            if len(turn) == 1:
                _answer(turn[0], error)
                return
            for write in turn:
                self._hand_over([write])
        except BrokerError as error:
            for write in turn:
                _answer(write, error)

    def _put_done(self, turn: list[_Write], results: Results | BaseException) -> None:
        """The writer's answer, in its thread."""
        self._loop.post(partial(self._answer_all, turn, results))

    def _answer_all(self, turn: list[_Write], results: Results | BaseException) -> None:
        if isinstance(results, BaseException):
            for write in turn:
                _answer(write, results)
            return
        start = 0
        for write in turn:
            end = start + len(write.messages)
            _answer(write, results[start:end])
            start = end


def _answer(write: _Write, results: Results | BaseException) -> None:
    try:
        write.done(results)
    except Exception:
        # The boundary of a send: the others of its turn are answered all the same.
        log.exception("an answer to a send could not be passed on")


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
