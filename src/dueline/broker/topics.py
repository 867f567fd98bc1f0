"""Topics: how many queues each has and what may be done with it; kept in `topics.json`.

    {"dataVersion": {…}, "topicConfigTable": {"orders": {"topicName": "orders", "perm": 6, …}}}

That is RocketMQ's file. A topic comes into being in one of three ways:

    somebody creates it            `put`
    somebody sends to it           `for_send`, unless the operator forbids it
    its messages are in the store  `get` adopts it: bulk jobs and commands do not ask for a topic

`put` and `for_send` change the table at once and the file with `save`, which whoever answers the
client calls before: an acknowledged topic survives a crash. `save` writes and syncs a file, so an
event loop calls it elsewhere. Any thread may call anything.
"""

from __future__ import annotations

import threading
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Final, Protocol

from dueline.admission import check_queue_id
from dueline.broker.names import (
    DEFAULT_TOPIC,
    OUTCOME_TOPIC,
    SELF_TEST_TOPIC,
    UNDECIDED_TOPIC,
    group_of_retry,
    is_system_topic,
)
from dueline.budget import Budget
from dueline.clock import Clock
from dueline.errors import InvalidRequest, LimitExceeded, NotFound
from dueline.message import HALF_TOPIC, QUEUE_COUNT_MAX, check_topic
from dueline.store.files import Files
from dueline.wire import fastjson
from dueline.wire.admin_bodies import DataVersion, TopicConfig, TopicConfigs
from dueline.wire.codes import Permission

__all__ = ["READ_WRITE", "TopicOptions", "Topics", "check_writable"]

READ_WRITE: Final = int(Permission.READ | Permission.WRITE)
TOPIC_COUNT_MAX: Final = 100_000
TOPICS_SIZE_BYTES_MAX: Final = 128 << 20
CONFIG_SIZE_BYTES_MAX: Final = 64 << 10
_CONFIG_SIZE: Final = 1_024
_ATTRIBUTE_SIZE: Final = 160
DEFAULT_TOPIC_QUEUE_COUNT: Final = 8


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
        self._path = path
        self._files = files
        self._clock = clock
        self._stored = stored
        self._lock = threading.Lock()
        self._save_lock = threading.Lock()
        self._table: dict[str, TopicConfig] = {}
        self._texts: dict[str, tuple[TopicConfig, bytes]] = {}  # as they stand in the file
        self._unsaved: dict[str, int] = {}  # by name: the table's version that the file lacks
        self.budget: Final = Budget("topics", TOPICS_SIZE_BYTES_MAX)
        self._counter = 0
        self._saved_counter = 0
        self._changed_ms = clock.now_ms()
        if files.exists(path):
            self._load(files.read(path))
        for config in _built_in(self.options):
            self._table.setdefault(config.topic_name, config)
        self.budget.add(sum(map(_size, self._table.values())))
        self._adopt_all()

    def _load(self, data: bytes) -> None:
        try:
            found = TopicConfigs.decode(data)
        except InvalidRequest as error:
            raise InvalidRequest(
                f"{self._path}: expected topics as JSON, found: {error.message}; repair the file, "
                "or remove it: topics that hold messages are found again",
                path=str(self._path),
            ) from error
        self._table = dict(found.topic_config_table)
        self._counter = self._saved_counter = found.data_version.counter

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

    def all(self) -> TopicConfigs:
        """Every topic, with the table's version."""
        with self._lock:
            return TopicConfigs(
                data_version=DataVersion(counter=self._counter, timestamp=self._changed_ms),
                topic_config_table=dict(self._table),
            )

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
        if default is None or not default.perm & Permission.INHERIT:
            return self.find(name)
        count = min(max(queue_count, 1), default.write_queue_nums)
        return _new_topic(name, count, default.perm & ~Permission.INHERIT)

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
            check_queue_id(name, queue_id, max(config.read_queue_nums, config.write_queue_nums))

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
        size = _size(config)
        if size > CONFIG_SIZE_BYTES_MAX:
            raise InvalidRequest(
                f"topic {config.topic_name}: expected a configuration of at most "
                f"{CONFIG_SIZE_BYTES_MAX} bytes, found {size}",
                limit=CONFIG_SIZE_BYTES_MAX,
                found=size,
            )
        with self._lock:
            if config.topic_name not in self._table and len(self._table) >= TOPIC_COUNT_MAX:
                raise LimitExceeded(
                    f"topics: expected at most {TOPIC_COUNT_MAX}, found as many; delete some first",
                    limit=TOPIC_COUNT_MAX,
                    found=len(self._table) + 1,
                )
            known = self._table.get(config.topic_name)
            self.budget.take(size - (0 if known is None else _size(known)))
            self._table[config.topic_name] = config
            self._touch(config.topic_name)
        return config

    def delete(self, name: str) -> bool:
        """Forget a topic; its messages stay until their time is over."""
        if is_system_topic(name):
            raise InvalidRequest(
                f"topic {name}: expected one that is not the broker's own", field="topic"
            )
        with self._lock:
            known = self._table.pop(name, None)
            if known is None:
                return False
            self._texts.pop(name, None)
            self.budget.give(_size(known))
            self._touch(name)
            return True

    def save(self) -> None:
        """Write the file if anything changed since; returns when it is on disk."""
        with self._save_lock:
            configs = self.all()
            counter = configs.data_version.counter
            if counter == self._saved_counter:
                return
            self._files.make_folder(self._path.parent)
            self._files.replace(self._path, [self._encoded(configs)])
            self._saved_counter = counter
            with self._lock:
                self._unsaved = {name: at for name, at in self._unsaved.items() if at > counter}

    def _encoded(self, configs: TopicConfigs) -> bytes:
        """The file; of thousands of topics only the new ones are put into words again."""
        table = configs.topic_config_table
        for name, config in table.items():
            if name not in self._texts or self._texts[name][0] is not config:
                key = fastjson.dumps(name)
                self._texts[name] = config, key + b":" + fastjson.dumps(config.to_json())
        entries = b",".join(self._texts[name][1] for name in table)
        version = fastjson.dumps(configs.data_version.to_json())
        return b'{"dataVersion":' + version + b',"topicConfigTable":{' + entries + b"}}"

    @property
    def is_saved(self) -> bool:
        """Is everything on disk?"""
        return self._counter == self._saved_counter

    def has_saved(self, name: str) -> bool:
        """Is what is known of this topic on disk?"""
        return name not in self._unsaved

    def _touch(self, name: str) -> None:
        self._counter += 1
        self._unsaved[name] = self._counter
        self._changed_ms = self._clock.now_ms()

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
        with self._lock:
            if name not in self._table:
                self.budget.add(_size(config))  # the store has it already
                self._table[name] = config
            self._touch(name)
            return self._table[name]


def check_writable(config: TopicConfig, *, is_any_queue: bool = False) -> None:
    """Refuse topics that the operator has closed.

    Args:
        is_any_queue: the broker is to choose a queue, so there must be one to choose.

    Raises:
        InvalidRequest: it is one.
    """
    if not config.perm & Permission.WRITE or (is_any_queue and not config.write_queue_nums):
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


def _size(config: TopicConfig) -> int:
    """What a configuration takes, and its text; names and values of attributes are a tool's."""
    size = _CONFIG_SIZE + 2 * (len(config.topic_name) + len(config.topic_filter_type))
    pairs = (config.attributes or {}).items()
    return size + sum(_ATTRIBUTE_SIZE + 2 * (len(name) + len(value)) for name, value in pairs)


def with_permission(config: TopicConfig, perm: int) -> TopicConfig:
    """The same topic with other permissions."""
    return replace(config, perm=perm)


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
                perm=READ_WRITE | Permission.INHERIT,
            )
        )
    return own
