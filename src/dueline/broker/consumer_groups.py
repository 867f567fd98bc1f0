"""Consumer groups as operators and clients make and delete them.

A group is spread over several tables: its configuration, the topic of its retries, how far it has
read, what its clients hold in flight. The verbs here keep them together. Any thread may call;
`configure` and `delete` wait for the disk.
"""

from __future__ import annotations

from dueline.broker.consumer_offsets import ConsumerOffsets
from dueline.broker.group_configs import GroupConfig, GroupTable, check_client_group
from dueline.broker.inflight import InFlight
from dueline.broker.names import retry_topic
from dueline.broker.topics import Topics

__all__ = ["ConsumerGroups"]


class ConsumerGroups:
    """The verbs about the groups of one broker."""

    def __init__(
        self, table: GroupTable, topics: Topics, offsets: ConsumerOffsets, inflight: InFlight
    ) -> None:
        self._table = table
        self._topics = topics
        self._offsets = offsets
        self._inflight = inflight

    def ensure(self, name: str) -> GroupConfig:
        """A client of a group is here: the group has a configuration, and a topic for its retries.

        Raises:
            NotFound: groups are not made by being used.
            InvalidRequest: a name that no group of clients can have.
        """
        config = self._table.find(name)
        self._topics.ensure(retry_topic(name), queue_count=max(config.retry_queue_nums, 1))
        return config

    def configure(self, config: GroupConfig) -> None:
        """Make or change a group as an operator says.

        Raises:
            InvalidRequest: a name that no group of clients can have.
            LimitExceeded: too many groups.
        """
        self._table.put(config)
        self.ensure(config.group_name)
        self._topics.save()
        self._table.save()

    def delete(self, name: str, *, with_offsets: bool) -> None:
        """Forget a group's configuration and, if wanted, how far it has read and what it holds.

        Raises:
            InvalidRequest: the broker's own group.
        """
        check_client_group(name)
        self._table.delete(name)
        self._table.save()
        if with_offsets:
            # In this order: what is in flight says how far the group is.
            self._inflight.forget(name)
            self._offsets.remove(name)
            self._offsets.save()
