"""Topics: how many queues each has and what may be done with it; kept in `topics.json`.

    {"dataVersion": {…}, "topicConfigTable": {"orders": {"topicName": "orders", "perm": 6, …}}}

That is RocketMQ's file. A topic comes into being in one of three ways:

    somebody creates it            `put`
    somebody sends to it           `for_send`, unless the operator forbids it
    its messages are in the store  `get` adopts it: bulk jobs and commands do not ask for a topic

`put` and `for_send` change the table at once and the file with `save`, which is called before the
client is answered (see `dueline.broker.config_table`): an acknowledged topic survives a crash. Any
thread may call anything.
"""

from __future__ import annotations

import enum
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Final, Protocol

from dueline.admission import check_queue_id, check_target
from dueline.broker.config_table import ConfigTable, Form, Snapshot
from dueline.broker.names import (
    DEAD_PREFIX,
    DEFAULT_TOPIC,
    OUTCOME_TOPIC,
    SELF_TEST_TOPIC,
    UNDECIDED_TOPIC,
    group_of_retry,
    is_system_topic,
)
from dueline.budget import Budget
from dueline.clock import Clock
from dueline.errors import InvalidRequest, NotFound
from dueline.message import HALF_TOPIC, QUEUE_COUNT_MAX, check_topic
from dueline.store.files import Files

__all__ = [
    "READ_WRITE",
    "Permission",
    "TopicConfig",
    "TopicOptions",
    "Topics",
    "check_readable",
    "check_writable",
]


class Permission(enum.IntFlag):
    """What clients may do with a topic."""

    INHERIT = 1
    WRITE = 2
    READ = 4


READ_WRITE: Final = int(Permission.READ | Permission.WRITE)
_READ: Final = int(Permission.READ)
_WRITE: Final = int(Permission.WRITE)
_INHERIT: Final = int(Permission.INHERIT)
"""Numbers, for what is asked with each pull: the operators of a flag take thirty times as long."""
TOPIC_COUNT_MAX: Final = 100_000
TOPICS_SIZE_BYTES_MAX: Final = 128 << 20
_CONFIG_SIZE: Final = 1_024
_ATTRIBUTE_SIZE: Final = 160
DEFAULT_TOPIC_QUEUE_COUNT: Final = 8


@dataclass(frozen=True, slots=True, kw_only=True)
class TopicConfig:
    """One topic; `attributes` has for example `message.type`."""

    topic_name: str
    read_queue_nums: int
    write_queue_nums: int
    perm: int = READ_WRITE
    order: bool = False
    topic_filter_type: str = "SINGLE_TAG"
    topic_sys_flag: int = 0
    attributes: dict[str, str] | None = None

    @property
    def name(self) -> str:
        return self.topic_name

    @property
    def queue_count(self) -> int:
        """Of the queues that may be read or written to."""
        return max(self.read_queue_nums, self.write_queue_nums)

    @property
    def size_bytes(self) -> int:
        """What it takes, with its text; names and values of attributes are a tool's."""
        size = _CONFIG_SIZE + 2 * (len(self.topic_name) + len(self.topic_filter_type))
        pairs = (self.attributes or {}).items()
        return size + sum(_ATTRIBUTE_SIZE + 2 * (len(name) + len(value)) for name, value in pairs)


_FORM: Final = Form(
    kind=TopicConfig,
    one="topic",
    many="topics",
    key="topicConfigTable",
    count_max=TOPIC_COUNT_MAX,
    without_file="topics that hold messages are found again",
)


@dataclass(frozen=True, slots=True, kw_only=True)
class TopicOptions:
    """What happens with names that nobody has created."""

    auto_create: bool = True
    queue_count: int = 4


class StoredQueues(Protocol):
    """What a store says of the queues that hold messages."""

    def queues(self) -> Iterable[tuple[str, int]]:
        """Every topic and queue id."""

    def queue_ids(self, topic: str, /) -> Sequence[int]:
        """Those of one topic."""


class Topics:
    """The topics of one broker."""

    def __init__(
        self,
        path: Path,
        files: Files,
        *,
        clock: Clock,
        options: TopicOptions | None = None,
        stored: StoredQueues | None = None,
    ) -> None:
        """Read the file if there is one.

        Args:
            stored: knows the queues that hold messages.
        """
        self.options: Final = options or TopicOptions()
        self._stored = stored
        self._table = ConfigTable(
            path, files, _FORM, clock=clock, size_bytes_max=TOPICS_SIZE_BYTES_MAX
        )
        for config in _built_in(self.options):
            self._table.add_built_in(config)
        self._adopt_all()

    # Reading

    def get(self, name: str) -> TopicConfig | None:
        """A topic, if it exists or if the store has messages of it."""
        return self._table.get(name) or self._adopt(name)

    def queue_count(self, name: str) -> int:
        """How many queues of a topic may be read; 0 if there is no such topic."""
        config = self._table.get(name)
        return config.read_queue_nums if config is not None else 0

    def find(self, name: str) -> TopicConfig:
        """A topic that must exist.

        Raises:
            NotFound: it does not.
        """
        config = self.get(name)
        if config is None:
            raise NotFound(
                f"topic {name[:200]}: expected one that exists, found none; create it, or send to "
                "it if the broker creates topics by itself",
                what="topic",
                topic=name,
            )
        return config

    def all(self) -> Snapshot[TopicConfig]:
        """Every topic, with the table's version."""
        return self._table.snapshot()

    def names(self) -> list[str]:
        """Of every topic, in order."""
        return self._table.names()

    def system_names(self) -> list[str]:
        """Of the broker's own topics."""
        return [name for name in self.names() if is_system_topic(name)]

    @property
    def budget(self) -> Budget:
        return self._table.budget

    # Changing

    def for_send(
        self, name: str, *, default_topic: str = DEFAULT_TOPIC, queue_count: int = 4
    ) -> TopicConfig:
        """The topic that somebody sends to, made if it may be.

        Raises:
            NotFound: it does not exist and is not created by a send.
            InvalidRequest: a name that no topic can have.
        """
        config = self.planned(name, default_topic=default_topic, queue_count=queue_count)
        return self.get(name) or self.put(config)

    def planned(
        self, name: str, *, default_topic: str = DEFAULT_TOPIC, queue_count: int = 4
    ) -> TopicConfig:
        """The topic that somebody sends to, or the one that a send would make; nothing is made.

        What else is wrong with a send is found out first: a refused one makes no topic.

        Raises:
            NotFound, InvalidRequest: as `for_send`.
        """
        config = self.get(name)
        if config is not None:
            return config
        check_topic(name)
        if group_of_retry(name) is not None:
            return _new_topic(name, 1, READ_WRITE)
        default = self._table.get(default_topic)
        if default is None or not default.perm & _INHERIT:
            return self.find(name)
        count = min(max(queue_count, 1), default.write_queue_nums)
        return _new_topic(name, count, default.perm & ~_INHERIT)

    def for_client(self, name: str) -> TopicConfig:
        """The topic that a client asks for before it sends or receives, made if it may be.

        Raises:
            NotFound: it does not exist and is not made by being used.
            InvalidRequest: the broker's own, or a name that no topic can have.
        """
        check_target(name)
        if name.startswith(DEAD_PREFIX):
            return self.ensure(name, queue_count=1)
        return self.for_send(name, queue_count=self.options.queue_count)

    def check_rows(self, last_queue_ids: Mapping[str, int]) -> None:
        """Refuse rows for topics that cannot be written to; makes nothing.

        Args:
            last_queue_ids: the highest queue id of each topic's rows.

        Raises:
            NotFound, InvalidRequest: says which topic, and why.
        """
        for name, queue_id in last_queue_ids.items():
            config = self.planned(name, queue_count=self.options.queue_count)
            check_writable(config)
            check_queue_id(name, queue_id, config.queue_count)

    def make(self, names: Iterable[str]) -> None:
        """Make topics for accepted rows, and make them durable; blocks for the disk."""
        for name in names:
            self.for_send(name, queue_count=self.options.queue_count)
        self.save()

    def ensure(self, name: str, *, queue_count: int, perm: int = READ_WRITE) -> TopicConfig:
        """A topic that is made so if it does not exist."""
        config = self.get(name)
        if config is not None:
            return config
        return self.put(_new_topic(name, queue_count, perm))

    def put(self, config: TopicConfig) -> TopicConfig:
        """Make a topic, or change one.

        Raises:
            InvalidRequest: a name or numbers that cannot be.
            LimitExceeded: too many topics.
        """
        check_topic(config.topic_name)
        for count in (config.read_queue_nums, config.write_queue_nums):
            if not 0 <= count <= QUEUE_COUNT_MAX:
                raise InvalidRequest(
                    f"topic {config.topic_name}: expected 0 to {QUEUE_COUNT_MAX} queues, "
                    f"found {count}",
                    field="queueNums",
                )
        return self._table.put(config)

    def configure(self, config: TopicConfig, attributes: Mapping[str, str | None]) -> None:
        """Make or change a topic as an operator says; blocks for the disk.

        Args:
            config: all but its attributes, which stay as they are but for the changes.
            attributes: new values by name; None: remove it.

        Raises:
            InvalidRequest: the broker's own topic, or a name or numbers that cannot be.
            LimitExceeded: too many topics.
        """
        _check_not_own(config.topic_name)
        known = self.get(config.topic_name)
        before = known.attributes if known is not None else None
        merged = {**(before or {}), **attributes}
        kept = {name: value for name, value in merged.items() if value is not None}
        self.put(replace(config, attributes=kept or None))
        self.save()

    def set_writable(self, is_writable: bool) -> int:
        """Let clients write to all topics, or to none, but for the broker's own; blocks for the
        disk. Returns how many topics changed."""
        changed = 0
        for config in self.all().entries.values():
            wanted = int(config.perm | _WRITE if is_writable else config.perm & ~_WRITE)
            if wanted != config.perm and not is_system_topic(config.topic_name):
                self.put(replace(config, perm=wanted))
                changed += 1
        self.save()
        return changed

    def delete(self, name: str) -> bool:
        """Forget a topic; its messages stay until their time is over.

        Raises:
            InvalidRequest: the broker's own topic.
        """
        _check_not_own(name)
        return self._table.remove(name)

    def save(self) -> None:
        """Write the file if anything changed since; returns when it is on disk."""
        self._table.save()

    @property
    def is_saved(self) -> bool:
        """Is everything on disk?"""
        return self._table.is_saved

    def has_saved(self, name: str) -> bool:
        """Is what is known of this topic on disk?"""
        return self._table.has_saved(name)

    # Topics that came with their messages

    def _adopt(self, name: str) -> TopicConfig | None:
        ids = self._stored.queue_ids(name) if self._stored is not None else ()
        if not ids:
            return None
        return self._take_in(name, max(ids))

    def _adopt_all(self) -> None:
        last: dict[str, int] = {}
        for topic, queue_id in self._stored.queues() if self._stored is not None else ():
            last[topic] = max(queue_id, last.get(topic, 0))
        for topic, queue_id in last.items():
            config = self._table.get(topic)
            if config is None:
                self._take_in(topic, queue_id)

    def _take_in(self, name: str, last_queue_id: int) -> TopicConfig:
        needed = min(last_queue_id + 1, QUEUE_COUNT_MAX)
        count = max(needed, 1 if name.startswith("%") else self.options.queue_count)
        config = TopicConfig(topic_name=name, read_queue_nums=count, write_queue_nums=count)
        return self._table.adopt(config)


def _check_not_own(topic: str) -> None:
    if is_system_topic(topic):
        raise InvalidRequest(
            f"topic {topic}: expected one that is not the broker's own", field="topic"
        )


def check_readable(config: TopicConfig, queue_id: int | None = None) -> None:
    """Refuse readers of topics that the operator has closed, and queues that there are not.

    Args:
        queue_id: None: any.

    Raises:
        InvalidRequest: says which of the two.
    """
    if not config.perm & _READ or (queue_id is None and not config.read_queue_nums):
        raise InvalidRequest(
            f"topic {config.topic_name}: expected one that may be read, found one that may not",
            field="topic",
            what="permission",
        )
    if queue_id is not None:
        check_queue_id(config.topic_name, queue_id, config.read_queue_nums)


def check_writable(config: TopicConfig, *, is_any_queue: bool = False) -> None:
    """Refuse topics that the operator has closed.

    Args:
        is_any_queue: the broker is to choose a queue, so there must be one to choose.

    Raises:
        InvalidRequest: it is one.
    """
    if not config.perm & _WRITE or (is_any_queue and not config.write_queue_nums):
        raise InvalidRequest(
            f"topic {config.topic_name}: expected one that may be written to, found one that may "
            "not",
            field="topic",
            what="permission",
        )


def _new_topic(name: str, queue_count: int, perm: int) -> TopicConfig:
    return TopicConfig(
        topic_name=name, read_queue_nums=queue_count, write_queue_nums=queue_count, perm=perm
    )


def _built_in(options: TopicOptions) -> list[TopicConfig]:
    """What every broker has; the permission to inherit says that sends may create topics."""
    own = [
        TopicConfig(topic_name=name, read_queue_nums=1, write_queue_nums=1)
        for name in (SELF_TEST_TOPIC, HALF_TOPIC, OUTCOME_TOPIC, UNDECIDED_TOPIC)
    ]
    if options.auto_create:
        own.append(
            TopicConfig(
                topic_name=DEFAULT_TOPIC,
                read_queue_nums=DEFAULT_TOPIC_QUEUE_COUNT,
                write_queue_nums=DEFAULT_TOPIC_QUEUE_COUNT,
                perm=READ_WRITE | _INHERIT,
            )
        )
    return own
