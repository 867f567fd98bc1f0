"""What a consumer group may do and how often its messages are tried; kept in one file.

    {"dataVersion": {…}, "subscriptionGroupTable": {"billing": {"retryMaxTimes": 16, …}}}

That is RocketMQ's `subscriptionGroup.json`. A group that nobody has configured gets the defaults
when it is first seen. As with topics, `save` makes changes durable and is called by whoever
answers; losing a default costs nothing. Any thread may call.
"""

from __future__ import annotations

import threading
from pathlib import Path
from typing import Final

from dueline.broker.consumer_offsets import check_group
from dueline.budget import Budget
from dueline.clock import Clock
from dueline.errors import InvalidRequest, LimitExceeded, NotFound
from dueline.store.files import Files
from dueline.wire import fastjson
from dueline.wire.admin_bodies import DataVersion, GroupConfig, GroupConfigs

__all__ = ["GroupTable"]

GROUP_COUNT_MAX: Final = 100_000
GROUPS_SIZE_BYTES_MAX: Final = 128 << 20
CONFIG_SIZE_BYTES_MAX: Final = 64 << 10
_CONFIG_SIZE: Final = 768


class GroupTable:
    """The configured consumer groups of one broker."""

    def __init__(self, path: Path, files: Files, *, clock: Clock, auto_create: bool = True) -> None:
        self._path = path
        self._files = files
        self._clock = clock
        self._auto_create = auto_create
        self._lock = threading.Lock()
        self._save_lock = threading.Lock()
        self._table: dict[str, GroupConfig] = {}
        self.budget: Final = Budget("consumer groups", GROUPS_SIZE_BYTES_MAX)
        self._counter = 0
        self._saved_counter = 0
        self._changed_ms = clock.now_ms()
        if files.exists(path):
            self._load(files.read(path))

    def _load(self, data: bytes) -> None:
        try:
            found = GroupConfigs.decode(data)
        except InvalidRequest as error:
            raise InvalidRequest(
                f"{self._path}: expected consumer groups as JSON, found: {error.message}; repair "
                "the file, or remove it: groups then have the defaults again",
                path=str(self._path),
            ) from error
        self._table = dict(found.subscription_group_table)
        self.budget.add(sum(map(_size, self._table.values())))
        self._counter = self._saved_counter = found.data_version.counter

    def get(self, name: str) -> GroupConfig | None:
        """A group that was seen or configured."""
        return self._table.get(name)

    def find(self, name: str) -> GroupConfig:
        """A group, made with the defaults if it may be.

        Raises:
            NotFound: it does not exist and is not made by being used.
            InvalidRequest: a name that no group can have.
        """
        config = self._table.get(name)
        if config is not None:
            return config
        check_group(name)
        if not self._auto_create:
            raise NotFound(
                f"consumer group {name}: expected one that exists, found none; create it first",
                what="group",
                group=name,
            )
        return self.put(GroupConfig(group_name=name))

    def put(self, config: GroupConfig) -> GroupConfig:
        """Make a group, or change one."""
        check_group(config.group_name)
        size = _size(config)
        if size > CONFIG_SIZE_BYTES_MAX:
            raise InvalidRequest(
                f"consumer group {config.group_name}: expected a configuration of at most "
                f"{CONFIG_SIZE_BYTES_MAX} bytes, found {size}",
                limit=CONFIG_SIZE_BYTES_MAX,
                found=size,
            )
        with self._lock:
            if config.group_name not in self._table and len(self._table) >= GROUP_COUNT_MAX:
                raise LimitExceeded(
                    f"consumer groups: expected at most {GROUP_COUNT_MAX}, found as many; "
                    "delete some first",
                    limit=GROUP_COUNT_MAX,
                    found=len(self._table) + 1,
                )
            known = self._table.get(config.group_name)
            self.budget.take(size - (0 if known is None else _size(known)))
            self._table[config.group_name] = config
            self._touch()
        return config

    def delete(self, name: str) -> bool:
        """Forget a group's configuration."""
        with self._lock:
            known = self._table.pop(name, None)
            if known is None:
                return False
            self.budget.give(_size(known))
            self._touch()
            return True

    def all(self) -> GroupConfigs:
        """Every group, with the table's version."""
        with self._lock:
            return GroupConfigs(
                data_version=DataVersion(counter=self._counter, timestamp=self._changed_ms),
                subscription_group_table=dict(self._table),
            )

    def save(self) -> None:
        """Write the file if anything changed since."""
        with self._save_lock:
            configs = self.all()
            if configs.data_version.counter == self._saved_counter:
                return
            self._files.make_folder(self._path.parent)
            self._files.replace(self._path, [configs.encode()])
            self._saved_counter = configs.data_version.counter

    @property
    def is_saved(self) -> bool:
        return self._counter == self._saved_counter

    def _touch(self) -> None:
        self._counter += 1
        self._changed_ms = self._clock.now_ms()


def _size(config: GroupConfig) -> int:
    """What a configuration takes; parts of it are any JSON that a tool has sent."""
    extras = (config.attributes, config.group_retry_policy, config.subscription_data_set)
    size = _CONFIG_SIZE + 2 * len(config.group_name)
    return size + sum(8 * len(fastjson.dumps(each)) for each in extras if each is not None)
