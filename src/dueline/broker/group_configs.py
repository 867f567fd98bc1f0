"""What a consumer group may do and how often its messages are tried; kept in one file.

    {"dataVersion": {…}, "subscriptionGroupTable": {"billing": {"retryMaxTimes": 16, …}}}

That is RocketMQ's `subscriptionGroup.json` (see `dueline.broker.config_table`). A group that nobody
has configured gets the defaults when it is first seen; losing a default costs nothing. Names are
checked on their way into the table, from the file too: what is in it may be used. Any thread may
call.
"""

from __future__ import annotations

import json
import logging
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from dueline.broker.config_table import ConfigTable, Form, Snapshot
from dueline.broker.consumer_offsets import check_group
from dueline.broker.names import TRANSACTION_GROUP
from dueline.budget import Budget
from dueline.clock import Clock
from dueline.errors import InvalidRequest, NotFound
from dueline.store.files import Files

__all__ = ["GroupConfig", "GroupTable", "check_client_group", "check_may_consume"]

GROUP_COUNT_MAX: Final = 100_000
GROUPS_SIZE_BYTES_MAX: Final = 128 << 20
_CONFIG_SIZE: Final = 768

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupConfig:
    """One consumer group."""

    group_name: str
    consume_enable: bool = True
    consume_from_min_enable: bool = True
    consume_broadcast_enable: bool = True
    consume_message_orderly: bool | None = None
    retry_queue_nums: int = 1
    retry_max_times: int = 16
    broker_id: int = 0
    which_broker_when_consume_slowly: int = 1
    notify_consumer_ids_changed_enable: bool = True
    group_sys_flag: int | None = None
    consume_timeout_minute: int | None = None
    attributes: dict[str, str] | None = None
    # Newer clients and tools send these; they are kept as they are.
    group_retry_policy: Any = None
    subscription_data_set: Any = None

    @property
    def name(self) -> str:
        return self.group_name

    @property
    def size_bytes(self) -> int:
        """What it takes, with its text; parts of it are any JSON that a tool has sent."""
        extras = (self.attributes, self.group_retry_policy, self.subscription_data_set)
        size = _CONFIG_SIZE + 2 * len(self.group_name)
        return size + sum(8 * len(json.dumps(each)) for each in extras if each is not None)


_FORM: Final = Form(
    kind=GroupConfig,
    one="consumer group",
    many="consumer groups",
    key="subscriptionGroupTable",
    count_max=GROUP_COUNT_MAX,
    without_file="groups then have the defaults again",
)


class GroupTable:
    """The configured consumer groups of one broker."""

    def __init__(self, path: Path, files: Files, *, clock: Clock, auto_create: bool = True) -> None:
        self._auto_create = auto_create
        self._table = ConfigTable(
            path, files, _FORM, clock=clock, size_bytes_max=GROUPS_SIZE_BYTES_MAX
        )
        for name in self._table.names():
            self._drop_unless_of_clients(name)

    def _drop_unless_of_clients(self, name: str) -> None:
        """A file of another broker lists groups that are not for clients here."""
        try:
            check_client_group(name)
        except InvalidRequest as error:
            log.warning("left out of the table of consumer groups: %s", error.message)
            self._table.remove(name)

    @property
    def budget(self) -> Budget:
        return self._table.budget

    def get(self, name: str) -> GroupConfig | None:
        """A group that was seen or configured."""
        return self._table.get(name)

    def existing(self, name: str) -> GroupConfig:
        """A group that must have been seen or configured.

        Raises:
            NotFound: it was not.
        """
        config = self._table.get(name)
        if config is None:
            raise NotFound(
                f"consumer group {name[:200]}: expected one that exists, found none; create it "
                "first",
                what="group",
                group=name,
            )
        return config

    def find(self, name: str) -> GroupConfig:
        """A group, made with the defaults if it may be.

        Raises:
            NotFound: it does not exist and is not made by being used.
            InvalidRequest: a name that no group can have.
        """
        config = self._table.get(name)
        if config is not None:
            return config
        check_client_group(name)
        if not self._auto_create:
            return self.existing(name)
        return self.put(GroupConfig(group_name=name))

    def put(self, config: GroupConfig) -> GroupConfig:
        """Make a group, or change one.

        Raises:
            InvalidRequest: a name that no group can have, or the broker's own.
            LimitExceeded: too many groups.
        """
        check_client_group(config.group_name)
        return self._table.put(config)

    def delete(self, name: str) -> bool:
        """Forget a group's configuration."""
        return self._table.remove(name)

    def all(self) -> Snapshot[GroupConfig]:
        """Every group, with the table's version."""
        return self._table.snapshot()

    def save(self) -> None:
        """Write the file if anything changed since."""
        self._table.save()

    @property
    def is_saved(self) -> bool:
        return self._table.is_saved


def check_client_group(name: str) -> None:
    """Refuse names that no group of clients can have.

    Raises:
        InvalidRequest: a bad name, or the group by which the broker itself reads half messages:
            to move its offsets would undo transactions.
    """
    check_group(name)
    if name == TRANSACTION_GROUP:
        raise InvalidRequest(
            f"consumer group {name}: expected one of clients, found the broker's own",
            field="group",
        )


def check_may_consume(config: GroupConfig) -> None:
    """Refuse groups that the operator has stopped.

    Raises:
        InvalidRequest: it is one.
    """
    if not config.consume_enable:
        raise InvalidRequest(
            f"consumer group {config.group_name}: expected one that may consume, found one that "
            "may not",
            field="group",
            what="permission",
        )
