"""What may be sent, where it goes, and what is answered: the rules of all doors that send messages.

    destination    may messages go to this topic and queue? Good for many sends, while the topic
                   stays as it is
    send           accept messages of one destination; each is answered on its own
    check_batch    what is said of a batch as a whole
    send_back      a consumer could not handle a message: it comes again, or is a dead letter
    forward        a message of the broker's own to a topic of its own

The order is the same everywhere: names and permissions, what is wrong with the message, room for a
half message, and only then the topic is made, so that a refused send makes none. Tables are on disk
before the first message of a new topic is (`dueline.broker.writing`).

Answers come by `done`, in the thread of the door's loop: with a list where the store has looked at
each message, with an error where it did not come to that. What a verb raises was refused at once,
and `done` is not called. Delayed messages that were accepted are the matter of
`dueline.broker.delayed`, half messages that of `dueline.broker.transactions`.
"""

from __future__ import annotations

import contextlib
import itertools
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Final, NamedTuple

from dueline.admission import check_queue_id, check_sender_target, check_target
from dueline.broker import retries
from dueline.broker.access.values import ANONYMOUS, Caller
from dueline.broker.broker import Broker
from dueline.broker.group_configs import GroupConfig
from dueline.broker.names import DEFAULT_TOPIC, dead_topic, group_of_retry
from dueline.broker.topics import TopicConfig, check_writable
from dueline.broker.writing import Done, Loop, Results, RowsDone, Writing
from dueline.errors import BrokerError, InvalidRequest, NotFound
from dueline.message import SYS_TRANSACTION_MASK, Message, string_hash
from dueline.message_rows import MessageRows
from dueline.recall_handle import encode_handle
from dueline.schedule import DELAY_NAMES
from dueline.store import PutResult
from dueline.store.draft import SPECIAL_NAMES

__all__ = ["BATCH_COUNT_MAX", "Destination", "Sending"]

BATCH_COUNT_MAX: Final = 10_000
_PLAIN_PROPERTIES_SIZE_MAX: Final = 16 << 10
"""Shorter ones fit into a record, whatever the broker adds."""


class Destination(NamedTuple):
    """A topic and queue that may be sent to."""

    topic: str
    queue_id: int
    """Below 0: any."""
    config: TopicConfig
    """As it is or, if the topic does not exist yet, as the first accepted message makes it."""
    group: str | None
    """The group whose retry topic it is."""
    default_topic: str
    queue_count: int


class Sending:
    """The verbs of one door that sends; for the thread of its loop."""

    def __init__(self, broker: Broker, loop: Loop) -> None:
        self._store = broker.store
        self._topics = broker.topics
        self._group_table = broker.group_table
        self._transactions = broker.transactions
        self._acceptance = broker.acceptance
        self._quotas = broker.quotas
        self._broker_name = broker.options.broker_name
        self._writing = Writing(
            broker.put,
            loop,
            topics=broker.topics,
            save=broker.save,
            put_rows=broker.put_rows,
        )
        self._turns = itertools.count()

    # Where to

    def destination(
        self,
        topic: str,
        *,
        queue_id: int = -1,
        default_topic: str = DEFAULT_TOPIC,
        queue_count: int | None = None,
        is_client_4x: bool = False,
    ) -> Destination:
        """Where messages to a topic go; nothing is made yet.

        Args:
            queue_id: below 0: any.
            queue_count: how many queues a producer wants a new topic to have.
            is_client_4x: consumers of that protocol send to the topics of their groups.

        Raises:
            InvalidRequest: a name, a queue or a topic that may not be sent to.
            NotFound: the topic does not exist and is not made by being sent to.
        """
        (check_target if is_client_4x else check_sender_target)(topic)
        if queue_count is None:
            queue_count = self._topics.options.queue_count
        config = self._topics.planned(topic, default_topic=default_topic, queue_count=queue_count)
        check_writable(config, is_any_queue=queue_id < 0)
        count = max(config.read_queue_nums, config.write_queue_nums)
        check_queue_id(topic, max(queue_id, 0), count)
        group = group_of_retry(topic)
        return Destination(topic, queue_id, config, group, default_topic, queue_count)

    def is_current(self, destination: Destination) -> bool:
        """Is the topic still what it was when the destination was made?"""
        return self._topics.get(destination.topic) is destination.config

    def takes_rows(self, destination: Destination) -> bool:
        """May messages to it be sent as rows now? If not, `send` says what is to be said."""
        return (
            self._acceptance.is_open
            and not self._quotas.is_on
            and destination.group is None
            and destination.queue_id >= 0
            and self.is_current(destination)
            and self._writing.is_open(destination.topic)
        )

    def queue_id(self, destination: Destination, properties: Mapping[str, str]) -> int:
        """The queue of a message: as its sender said, by its message group, or in turn."""
        if destination.queue_id >= 0:
            return destination.queue_id
        message_group = properties.get("__SHARDINGKEY")
        turn = next(self._turns) if message_group is None else string_hash(message_group)
        return turn % destination.config.write_queue_nums

    # Sending

    def send(  # noqa: PLR0913 - what, where to and how, the rest keyword-only
        self,
        destination: Destination,
        messages: Sequence[Message],
        done: Done,
        *,
        size_bytes: int,
        attempts_max: int | None = None,
        caller: Caller = ANONYMOUS,
    ) -> None:
        """Accept messages; `done` gets an answer for each when they are on disk.

        Args:
            size_bytes: of the bodies together, more or less.
            attempts_max: how often a consumer tries a message that it sends to its retry topic
                before it is a dead letter; None: as its group says.
            caller: whose quotas count.

        Raises:
            Unavailable: the broker is stopping.
            LimitExceeded: too many half messages are undecided, or a quota is spent.
            NotFound: a retry topic of a group that does not exist.
        """
        self._acceptance.check()
        for message in messages:
            if "TRAN_MSG" in message.properties:
                self._transactions.check_room()
        if destination.group is not None:
            group = self._group(destination.group)
            messages = [self._retried(message, group, attempts_max) for message in messages]
        elif self._quotas.is_on:
            self._admit(destination, messages, size_bytes, caller)
        if self._topics.get(destination.topic) is None:
            faults = self._faults(messages)
            if len(faults) == len(messages):
                done(faults)
                return
            self._topics.for_send(
                destination.topic,
                default_topic=destination.default_topic,
                queue_count=destination.queue_count,
            )
        self._writing.write(messages, done, size_bytes)

    def _admit(
        self, destination: Destination, messages: Sequence[Message], size_bytes: int, caller: Caller
    ) -> None:
        """What consumers send to their retry topics is not refused: it was accepted before."""
        if self._topics.get(destination.topic) is None:
            self._quotas.admit_topics(caller, [destination.topic])
        delayed = [each for each in messages if not DELAY_NAMES.isdisjoint(each.properties)]
        self._quotas.admit(
            caller,
            {destination.topic: len(messages)},
            size_bytes=size_bytes,
            delayed_count=len(delayed),
        )

    def send_rows(self, messages: MessageRows, done: RowsDone) -> None:
        """Accept rows of messages, to destinations that take them, without transactions.

        `done` gets the result when they are on disk.
        """
        self._writing.write_rows(messages, done)

    def shares_fsyncs(self, count: int) -> bool:
        """Do groups wait for the disk, and were so many messages on their way at once, of late?"""
        return self._store.options.flush == "sync" and self._writing.had_many(count)

    @contextlib.contextmanager
    def keeping_order(self, send_first: Callable[[], None]) -> Iterator[None]:
        """Call this before a message goes its way, meanwhile."""
        self._writing.before_write = send_first
        try:
            yield
        finally:
            self._writing.before_write = None

    def _faults(self, messages: Sequence[Message]) -> Results:
        """What the store would say against the messages."""
        faults: Results = []
        for message in messages:
            try:
                self._store.check(message)
            except BrokerError as error:
                faults.append(error)
        return faults

    def check_batch(
        self,
        destination: Destination,
        messages: Sequence[Message],
        *,
        properties: Mapping[str, str],
        properties_size_max: int,
    ) -> None:
        """Look at all messages before the first is written: a batch is refused as a whole.

        Any thread may call.

        Args:
            properties: those of the batch itself.
            properties_size_max: bytes of the largest properties of a message.

        Raises:
            InvalidRequest: says what is wrong.
        """
        if (
            not 0 < len(messages) <= BATCH_COUNT_MAX
            or messages[0].sys_flag & SYS_TRANSACTION_MASK
            or properties.get("DELAY", "0") != "0"
            or destination.group is not None
        ):
            raise InvalidRequest(
                f"batch: expected 1 to {BATCH_COUNT_MAX} messages without transaction, delay level "
                "and retry topic for all of them, "
                f"found at least {len(messages)} for {destination.topic}",
                what="message",
            )
        body_size_max = self._store.options.body_size_max
        has_plain_sizes = properties_size_max <= _PLAIN_PROPERTIES_SIZE_MAX
        for message in messages:
            if (
                not has_plain_sizes
                or len(message.body) > body_size_max
                or not SPECIAL_NAMES.isdisjoint(message.properties)
            ):
                try:
                    self._store.check(message)
                except BrokerError as error:
                    raise InvalidRequest(f"batch: {error.message}", what="message") from error

    def recall_handle(self, result: PutResult) -> str | None:
        """What takes an accepted message back; None for one that is not delayed."""
        if result.due_ms is None:
            return None
        return encode_handle(result.topic, self._broker_name, result.due_ms, result.unique_id)

    # Messages that consumers could not handle

    def send_back(  # noqa: PLR0913 - what a client says of it, keyword-only
        self,
        position: int,
        *,
        group: str,
        delay_level: int,
        attempts_max: int | None,
        done: Done,
        admit: Callable[[str], None] = lambda topic: None,
    ) -> None:
        """Let the message at a position come again later, or put it to the dead letters.

        Args:
            delay_level: below 0: a dead letter at once; 0: by the number of attempts.
            attempts_max: None: as the group says.
            admit: raises if messages of the topic may not be sent back.

        Raises:
            NotFound: no such group, or no message there.
            Unavailable: the broker is stopping.
        """
        self._acceptance.check()
        config = self._group(group)
        if config.retry_queue_nums <= 0:
            done([])  # the group does not want retries
            return
        try:
            record = self._store.record_at(position)
        except NotFound as error:
            raise NotFound(f"send back: {error.message}; it may be too old") from error
        admit(record.topic.decode("utf-8", "replace"))
        message = retries.refused(
            record, config, delay_level=delay_level, attempts_max=attempts_max
        )
        self.forward(message, done)

    def forward(self, message: Message, done: Done) -> None:
        """Write a message of the broker's own: a retry or a dead letter; its topic is made."""
        self._topics.ensure(message.topic, queue_count=1)
        self._writing.write([message], done, len(message.body))

    def _group(self, name: str) -> GroupConfig:
        config = self._group_table.get(name)
        if config is None:
            raise NotFound(
                f"consumer group {name[:200]}: expected one that exists, found none", what="group"
            )
        return config

    def _retried(self, message: Message, group: GroupConfig, attempts_max: int | None) -> Message:
        """A consumer that could not send back sends itself; too often is too often here too."""
        limit = group.retry_max_times if attempts_max is None else attempts_max
        if message.reconsume_times <= limit:
            return message
        self._topics.ensure(dead_topic(group.group_name), queue_count=1)
        return retries.dead_letter(message, group.group_name, origin_topic=message.topic)
