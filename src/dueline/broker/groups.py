"""Who is here: the clients of each consumer and producer group, and what the groups subscribe to.

Clients say so with heartbeats. A group's clients share its queues, and each of them works out the
same division from the list of clients and the list of queues: so every change of the list is told
to all of them (`on_change`), and a client that leaves or falls silent must leave the list.

A *channel* is whatever a protocol reaches a client by; this module only compares channels. Several
protocols may have clients in one group. Any thread may call; `on_change` is called without a lock.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import Final

from dueline.broker.consumer_offsets import check_group
from dueline.budget import Budget, check_size

__all__ = ["CLIENT_SILENCE_MS_MAX", "Consumption", "Group", "Groups", "Member", "Subscription"]

CLIENT_SILENCE_MS_MAX: Final = 120_000
GROUPS_SIZE_BYTES_MAX: Final = 64 << 20
CLIENT_ID_SIZE_MAX: Final = 1_024
WORD_SIZE_MAX: Final = 64
_GROUP_SIZE: Final = 1_024
_MEMBER_SIZE: Final = 512
_SUBSCRIPTION_SIZE: Final = 768
_TAG_SIZE: Final = 96


@dataclass(slots=True, kw_only=True)
class Member:
    """One client of a group."""

    client_id: str
    channel: object
    address: str = ""
    language: str = "JAVA"
    version: int = 0
    seen_ms: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Consumption:
    """How a group consumes; its last heartbeat decides."""

    consume_type: str = "CONSUME_PASSIVELY"
    message_model: str = "CLUSTERING"
    consume_from_where: str = "CONSUME_FROM_LAST_OFFSET"

    def check(self) -> None:
        """Refuse words that are no words."""
        for word in (self.consume_type, self.message_model, self.consume_from_where):
            check_size("consumption", word, WORD_SIZE_MAX)


@dataclass(frozen=True, slots=True, kw_only=True)
class Subscription:
    """What a group wants of a topic; `tags` and their hashes as the client has worked them out."""

    topic: str
    expression: str
    kind: str = "TAG"
    version: int = 0
    tags: frozenset[str] = frozenset()
    tag_hashes: frozenset[int] = frozenset()
    is_class_filter: bool = False


@dataclass(slots=True, kw_only=True)
class Group:
    """A consumer group with at least one client."""

    name: str
    consumption: Consumption = field(default_factory=Consumption)
    members: dict[str, Member] = field(default_factory=dict)
    subscriptions: dict[str, Subscription] = field(default_factory=dict)

    @property
    def client_ids(self) -> list[str]:
        return sorted(self.members)


OnChange = Callable[[str], None]


class Groups:
    """All groups with clients."""

    def __init__(self) -> None:
        self._consumers: dict[str, Group] = {}
        self._producers: dict[str, dict[str, Member]] = {}
        self._on_change: list[OnChange] = []
        self._lock = threading.RLock()
        self.budget: Final = Budget("clients and subscriptions", GROUPS_SIZE_BYTES_MAX)

    def on_change(self, callback: OnChange) -> None:
        """Call with a consumer group's name when its clients or its subscriptions changed."""
        self._on_change.append(callback)

    # Coming and staying

    def consumer(
        self,
        name: str,
        member: Member,
        consumption: Consumption,
        subscriptions: Iterable[Subscription] | None,
    ) -> bool:
        """A consumer's heartbeat; returns whether the group changed.

        Args:
            subscriptions: all that the client wants; None: what it said before.
        """
        consumption.check()
        with self._lock:
            group = self._consumers.get(name) or Group(name=name)
            is_changed = self._enter(name, group.members, member)
            self._consumers[name] = group
            group.consumption = consumption
            if subscriptions is not None:
                is_changed |= self._subscribe(group, list(subscriptions))
        if is_changed:
            self._tell(name)
        return is_changed

    def producer(self, name: str, member: Member) -> None:
        """A producer's heartbeat."""
        check_group(name)
        with self._lock:
            members = self._producers.get(name, {})
            self._enter(name, members, member)
            self._producers[name] = members

    def _enter(self, name: str, members: dict[str, Member], member: Member) -> bool:
        check_size("client id", member.client_id, CLIENT_ID_SIZE_MAX)
        known = members.get(member.client_id)
        if known is None:
            size = _member_size(member) + (0 if members else _group_size(name))
            self.budget.take(size)
        members[member.client_id] = member
        # The same client on a new connection has the same place in the list.
        return known is None

    def _subscribe(self, group: Group, subscriptions: list[Subscription]) -> bool:
        before = _subscriptions_size(group.subscriptions.values())
        # At most these: of an older version the known one stays, and is counted below.
        self.budget.take(max(_subscriptions_size(subscriptions) - before, 0))
        taken = max(_subscriptions_size(subscriptions), before)
        is_changed = _subscribe(group, subscriptions)
        self.budget.add(_subscriptions_size(group.subscriptions.values()) - taken)
        return is_changed

    # Leaving

    def leave(
        self,
        client_id: str,
        *,
        consumer_group: str | None = None,
        producer_group: str | None = None,
    ) -> None:
        """A client says goodbye to a group."""
        with self._lock:
            is_changed = consumer_group is not None and self._drop(
                lambda name, member: name == consumer_group and member.client_id == client_id,
                consumers=True,
            )
            if producer_group is not None:
                self._drop(
                    lambda name, member: name == producer_group and member.client_id == client_id,
                    consumers=False,
                )
        if is_changed:
            assert consumer_group is not None
            self._tell(consumer_group)

    def drop_channel(self, channel: object) -> None:
        """A connection has gone, and with it the clients that came by it."""
        self._drop_where(lambda _, member: member.channel is channel)

    def expire(self, now_ms: int) -> None:
        """Drop clients that have not been heard of for too long."""
        self._drop_where(lambda _, member: now_ms - member.seen_ms > CLIENT_SILENCE_MS_MAX)

    def _drop_where(self, is_gone: Callable[[str, Member], bool]) -> None:
        with self._lock:
            changed = self._drop(is_gone, consumers=True)
            self._drop(is_gone, consumers=False)
        for name in changed:
            self._tell(name)

    def _drop(self, is_gone: Callable[[str, Member], bool], *, consumers: bool) -> list[str]:
        tables = (
            {name: group.members for name, group in self._consumers.items()}
            if consumers
            else self._producers
        )
        changed = []
        for name, members in list(tables.items()):
            gone = [key for key, member in members.items() if is_gone(name, member)]
            for key in gone:
                self.budget.give(_member_size(members.pop(key)))
            if gone:
                changed.append(name)
            if not members:
                # A group without clients keeps its offsets and its configuration elsewhere.
                self._forget(name, consumers=consumers)
        return changed

    def _forget(self, name: str, *, consumers: bool) -> None:
        self.budget.give(_group_size(name))
        if consumers:
            group = self._consumers.pop(name)
            self.budget.give(_subscriptions_size(group.subscriptions.values()))
        else:
            del self._producers[name]

    def _tell(self, name: str) -> None:
        for callback in self._on_change:
            callback(name)

    # Asking

    def get(self, name: str) -> Group | None:
        """A consumer group with clients; do not change it."""
        return self._consumers.get(name)

    def member(self, name: str, client_id: str) -> Member | None:
        """One client of a consumer group."""
        group = self._consumers.get(name)
        return group.members.get(client_id) if group is not None else None

    def members(self, name: str) -> list[Member]:
        """The clients of a consumer group."""
        with self._lock:
            group = self._consumers.get(name)
            return list(group.members.values()) if group is not None else []

    def producers(self, name: str) -> list[Member]:
        """The clients of a producer group."""
        with self._lock:
            return list(self._producers.get(name, {}).values())

    def consumer_groups_of(self, topic: str) -> list[str]:
        """The groups with clients that subscribe to a topic."""
        with self._lock:
            return sorted(
                name for name, group in self._consumers.items() if topic in group.subscriptions
            )

    def find_client(self, client_id: str) -> Member | None:
        """A client by its id, whatever its groups."""
        with self._lock:
            for members in (
                *self._producers.values(),
                *(group.members for group in self._consumers.values()),
            ):
                if client_id in members:
                    return members[client_id]
        return None


def _subscribe(group: Group, subscriptions: Iterable[Subscription]) -> bool:
    """Take a client's list: newer versions replace, topics that are not listed go."""
    wanted = {each.topic: each for each in subscriptions}
    is_changed = False
    for topic, subscription in wanted.items():
        known = group.subscriptions.get(topic)
        if known is None:
            is_changed = True
            group.subscriptions[topic] = subscription
        elif subscription.version > known.version or _differs(known, subscription):
            is_changed |= _differs(known, subscription)
            group.subscriptions[topic] = subscription
    for topic in [topic for topic in group.subscriptions if topic not in wanted]:
        del group.subscriptions[topic]
        is_changed = True
    return is_changed


def _differs(known: Subscription, other: Subscription) -> bool:
    """Another expression of the same age or a newer one; an older client's does not count."""
    if other.version < known.version:
        return False
    return (known.expression, known.kind) != (other.expression, other.kind)


def _group_size(name: str) -> int:
    return _GROUP_SIZE + len(name)


def _member_size(member: Member) -> int:
    return _MEMBER_SIZE + 2 * len(member.client_id)


def _subscriptions_size(subscriptions: Iterable[Subscription]) -> int:
    return sum(
        _SUBSCRIPTION_SIZE
        + 4 * (len(each.topic) + len(each.expression) + len(each.kind))
        + _TAG_SIZE * len(each.tag_hashes)
        + sum(_TAG_SIZE + 4 * len(tag) for tag in each.tags)
        for each in subscriptions
    )
