"""Receiving: who may, for how long, what is looked for and when; for every protocol.

    receive     a `Receive`: looks for messages until there are some or the caller's time is over
    extend      hold a message for another duration
    refuse      the same from a consumer that could not handle it: its next attempt has a pause
    forward     give a message up: it becomes a dead letter

A receive that finds nothing waits: for the topic to grow, for a message in flight to become visible
again, or for its deadline. Messages that had their last attempt become dead letters on the way. A
receive that is cancelled, whenever that is, gives back what was taken for it: it comes again at
once and was no attempt.

Nothing here waits by itself. A door runs `look` in a thread, since it reads the store, and waits in
its own way for `wake`, up to `wait_s`:

    look ──▶ messages ──▶ answer              cancel, at any time
      ▲  └─▶ none, is_over ──▶ empty answer
      └────── watch, wait_s ◀─┘ none
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Final

from dueline.admission import is_closed
from dueline.broker.filters import EVERYTHING, Filter
from dueline.broker.group_configs import GroupConfig, GroupTable, check_may_consume
from dueline.broker.inflight.dead_letters import DeadLetters
from dueline.broker.inflight.holding import Held, Holding, Outcomes, Taken
from dueline.broker.inflight.inflight import InFlight
from dueline.broker.names import retry_topic
from dueline.broker.reading import Reading
from dueline.broker.retries import RetryOptions
from dueline.broker.topics import TopicConfig, Topics, check_readable
from dueline.broker.watches import Watch
from dueline.broker.writing import Put
from dueline.errors import BrokerError, InvalidRequest

__all__ = [
    "ACK_COUNT_MAX",
    "COUNT_MAX",
    "INVISIBLE_MS_MAX",
    "WAIT_MS_MAX",
    "Receive",
    "ReceiveRequest",
    "Receiving",
]

COUNT_MAX: Final = 32
ACK_COUNT_MAX: Final = 2_048
"""Acknowledgements of one request, whichever the protocol."""
WAIT_MS_MAX: Final = 60_000
INVISIBLE_MS_MAX: Final = 12 * 3_600_000
RENEWED_INVISIBLE_MS: Final = 60_000
_LOOK_AGAIN_S_MAX: Final = 3_600.0

log = logging.getLogger(__name__)

Found = Callable[[list[Held] | BaseException], None]
"""Called once for each look, from the thread that looked or from one that writes."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ReceiveRequest:
    """What a consumer asks for."""

    group: str
    topic: str
    queue_id: int | None = None
    """None: any."""
    count_max: int = COUNT_MAX
    invisible_ms: int | None
    """None: held for as long as the owner is there, up to a bound."""
    invisible_ms_min: int = 1
    owner: str = ""
    wanted: Filter = EVERYTHING
    wait_ms: int = 0
    with_retries: bool = False
    """Also what 4.x clients of the group have refused; those read the retry topic themselves."""


class Receiving:
    """The verbs of consumers that receive and acknowledge."""

    def __init__(  # noqa: PLR0913 - what it stands on, by keyword
        self,
        reading: Reading,
        inflight: InFlight,
        *,
        put: Put,
        topics: Topics,
        groups: GroupTable,
        retries: RetryOptions,
        monotonic_s: Callable[[], float] = time.monotonic,
    ) -> None:
        self._monotonic_s = monotonic_s
        self._reading = reading
        self._inflight = inflight
        self._topics = topics
        self._groups = groups
        self._retries = retries
        self._dead_letters = DeadLetters(put, inflight, topics)

    def receive(self, request: ReceiveRequest) -> Receive:
        """Begin to receive; nothing is taken yet.

        Raises:
            NotFound: no such topic or group.
            InvalidRequest: says what is wrong, or that the topic or the group is closed.
        """
        config = self._topics.find(request.topic)
        group = self._groups.find(request.group)
        _check_open(request, config, group)
        return Receive(
            request,
            self._holding(request, self._retries.attempt_max(group)),
            queue_ids=_queue_ids(request, config),
            topics=self._topics,
            reading=self._reading,
            inflight=self._inflight,
            dead_letters=self._dead_letters,
            monotonic_s=self._monotonic_s,
        )

    def _holding(self, request: ReceiveRequest, attempt_max: int) -> Holding:
        if request.count_max < 1:
            raise InvalidRequest(f"batch size: expected 1 or more, found {request.count_max}")
        invisible_ms = request.invisible_ms
        if invisible_ms is not None:
            _check_invisible(invisible_ms, request.invisible_ms_min)
        return Holding(
            invisible_ms=RENEWED_INVISIBLE_MS if invisible_ms is None else invisible_ms,
            owner=request.owner,
            renew=invisible_ms is None,
            attempt_max=attempt_max,
        )

    def attempt_max(self, group: str) -> int:
        """How often a message is handed to a group before it is a dead letter."""
        return self._retries.attempt_max(self._groups.find(group))

    def extend(self, group: str, topic: str, receipt: str, invisible_ms: int) -> str:
        """Hold a message for another duration from now on; returns the new receipt.

        Raises:
            InvalidRequest: a duration that cannot be.
            InvalidReceipt: not ours, replaced, or of a message that is done.
        """
        _check_invisible(invisible_ms, 0)
        return self._inflight.extend(group, topic, receipt, invisible_ms)

    def refuse(self, group: str, topic: str, receipt: str, invisible_ms: int) -> str:
        """The same from a consumer that could not handle the message."""
        _check_invisible(invisible_ms, 0)
        attempt_max = self.attempt_max(group)
        return self._inflight.extend(
            group,
            topic,
            receipt,
            lambda attempt: self._retries.pause_ms(attempt, attempt_max, asked_ms=invisible_ms),
        )

    def forward(
        self, group: str, topic: str, receipt: str, done: Callable[[BaseException | None], None]
    ) -> None:
        """Make a message a dead letter; `done` is called when that is on disk. Reads the store.

        Raises:
            InvalidReceipt: not ours, replaced, or of a message that is done.
            NotFound: its record is gone.
        """
        held = self._inflight.peek(group, topic, receipt)
        self._dead_letters.forward(group, topic, [held], lambda outcomes: done(outcomes[0]))


class Receive:
    """One receive under way; see the module. `look` is for one thread at a time."""

    def __init__(  # noqa: PLR0913 - what it stands on, by keyword
        self,
        request: ReceiveRequest,
        holding: Holding,
        *,
        queue_ids: Sequence[int],
        topics: Topics,
        reading: Reading,
        inflight: InFlight,
        dead_letters: DeadLetters,
        monotonic_s: Callable[[], float],
    ) -> None:
        self.group: Final = request.group
        self.topic: Final = request.topic
        self.invisible_ms: Final = holding.invisible_ms
        self._request = request
        self._holding = holding
        self._queue_ids = queue_ids
        self._topics = topics
        self._retry_topic = retry_topic(request.group) if request.with_retries else None
        self._reading = reading
        self._inflight = inflight
        self._dead_letters = dead_letters
        self._monotonic_s = monotonic_s
        wait_ms = max(0, min(request.wait_ms, WAIT_MS_MAX))
        self._end_s = monotonic_s() + wait_ms / 1_000
        self._watches: list[Watch] = []
        self._unwatch_lanes: Callable[[], None] = lambda: None
        self._lock = threading.Lock()
        self._is_cancelled = False
        self._found: list[Held] = []

    # Looking

    def look(self, found: Found) -> None:
        """Take messages, if there are any; blocks for the disk."""
        try:
            taken = self._take()
            self._keep(taken.messages)
            if taken.dead:
                self._dead_letters.forward(
                    self.group,
                    self.topic,
                    taken.dead,
                    lambda outcomes: self._forwarded(taken, outcomes, found),
                )
                return
        except BrokerError as error:
            found(error)
            return
        except Exception as error:  # for the caller, in its own thread
            log.exception("%s: a look for messages of %s failed", self.group, self.topic)
            found(error)
            return
        found(taken.messages)

    def _take(self) -> Taken:
        request, retry_count = self._request, 0
        if self._retry_topic is not None:  # it may have been made since
            retry_count = self._topics.queue_count(self._retry_topic)
        return self._inflight.take(
            request.group,
            request.topic,
            self._queue_ids,
            count_max=min(request.count_max, COUNT_MAX),
            holding=self._holding,
            wanted=request.wanted,
            retry_queue_ids=range(retry_count),
        )

    def _forwarded(self, taken: Taken, outcomes: Outcomes, found: Found) -> None:
        """A dead letter that cannot be written stays: its neighbours are received."""
        for error in outcomes:
            if isinstance(error, BrokerError):
                log.warning("%s: a dead letter of %s stays: %s", self.group, self.topic, error)
            elif error is not None:
                log.error("%s: a dead letter of %s stays", self.group, self.topic, exc_info=error)
        found(taken.messages)

    def _keep(self, messages: list[Held]) -> None:
        with self._lock:
            self._found = messages
            is_cancelled = self._is_cancelled
        if is_cancelled:
            self.give_back(messages)
        elif self._reading.traces.is_on:
            self._reading.traces.received(
                self.group, ((each.record, each.properties, each.attempt) for each in messages)
            )

    def cancel(self) -> None:
        """Nobody gets the answer: what was taken for it, or is being taken, is given back."""
        with self._lock:
            self._is_cancelled = True
            messages = self._found
        self.give_back(messages)

    def give_back(self, messages: Sequence[Held]) -> None:
        """Messages that do not fit into the answer: they come again at once."""
        if messages:
            receipts = [held.receipt for held in messages]
            self._inflight.give_back(self.group, self.topic, receipts)

    # Waiting

    @property
    def is_over(self) -> bool:
        """Is it time for an empty answer?"""
        return self._end_s <= self._monotonic_s() or not self._reading.acceptance.is_open

    def give_up(self) -> None:
        """Look a last time: another consumer needs the place."""
        self._end_s = 0.0

    def wait_s(self) -> float:
        """How long to wait for `wake` before the next look."""
        left_s = self._end_s - self._monotonic_s()
        next_ms = self._inflight.next_visible_ms(self.group, self.topic)
        if next_ms is None:
            return min(left_s, _LOOK_AGAIN_S_MAX)
        return min(left_s, max(next_ms - self._reading.clock.now_ms(), 1) / 1_000)

    def watch(self, wake: Callable[[], None]) -> None:
        """Call `wake` when there may be messages, from any thread; then watch again and look.

        What comes between a look and this is not told, so a look belongs behind it.
        """
        self.unwatch()
        self._unwatch_lanes = self._inflight.watch(self.group, self.topic, wake)
        for topic in (self.topic, self._retry_topic):
            if topic is not None:
                self._watches.append(self._reading.watch(topic, None, wake))

    def unwatch(self) -> None:
        """Nobody is to be called any more; no error if nobody was."""
        self._unwatch_lanes()
        for watch in self._watches:
            watch.cancel()
        self._watches.clear()


def _check_open(request: ReceiveRequest, config: TopicConfig, group: GroupConfig) -> None:
    if is_closed(config.topic_name):
        raise InvalidRequest(
            f"topic {config.topic_name}: expected one of clients, found the broker's own",
            what="permission",
        )
    check_readable(config, request.queue_id)
    check_may_consume(group)


def _queue_ids(request: ReceiveRequest, config: TopicConfig) -> Sequence[int]:
    return range(config.read_queue_nums) if request.queue_id is None else (request.queue_id,)


def _check_invisible(invisible_ms: int, invisible_ms_min: int) -> None:
    if not invisible_ms_min <= invisible_ms <= INVISIBLE_MS_MAX:
        raise InvalidRequest(
            f"invisible duration: expected {invisible_ms_min} to {INVISIBLE_MS_MAX} ms, "
            f"found {invisible_ms}",
            field="invisible duration",
        )
