"""Who consumes which queue, when the broker decides and not the clients.

    assigned    for clients that pull: a topic's queues in order, in equal parts, to the group's
                clients in order of their ids, as they would divide them themselves
    shared      for clients that receive: all of them take from all queues, so one assignment to
                `ANY_QUEUE` says it; a group that consumes in order is told each queue

A topic that is set to POP for a group is shared by its clients too, whichever verb they asked with.
Retry topics are always pulled. Modes are kept in memory; PULL is the default. Any thread may call.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final, TypeVar

from dueline.broker.consumer_offsets import check_group
from dueline.broker.group_configs import GroupTable
from dueline.broker.groups import Groups
from dueline.broker.names import group_of_retry
from dueline.broker.topics import Topics, check_readable
from dueline.budget import Budget
from dueline.errors import InvalidRequest
from dueline.message import check_topic

__all__ = ["ANY_QUEUE", "Assigned", "Assignments", "part_of"]

PULL: Final = "PULL"
POP: Final = "POP"
ANY_QUEUE: Final = -1
MODES_SIZE_BYTES_MAX: Final = 8 << 20
_MODE_SIZE: Final = 512

T = TypeVar("T")


@dataclass(frozen=True, slots=True, kw_only=True)
class Assigned:
    """A client's queues of a topic, and how it consumes them."""

    mode: str
    queue_ids: Sequence[int]


class Assignments:
    """The division of queues in one broker."""

    def __init__(self, topics: Topics, groups: Groups, group_table: GroupTable) -> None:
        self._topics = topics
        self._groups = groups
        self._group_table = group_table
        self._modes: dict[tuple[str, str], str] = {}
        self.budget: Final = Budget("request modes", MODES_SIZE_BYTES_MAX)

    def set_mode(self, group: str, topic: str, mode: str) -> None:
        """How a group's clients consume a topic.

        Raises:
            InvalidRequest: names that cannot be, or another mode than PULL and POP.
            LimitExceeded: more of them than can be remembered.
        """
        if mode not in (PULL, POP):
            raise InvalidRequest(f"mode: expected {PULL} or {POP}, found {mode!r:.80}")
        check_group(group)
        check_topic(topic)
        if (group, topic) not in self._modes:
            self.budget.take(_MODE_SIZE + len(group) + len(topic))
        self._modes[group, topic] = mode

    def assigned(self, group: str, topic: str, client_id: str, *, is_broadcast: bool) -> Assigned:
        """The queues of one client of a group.

        Args:
            is_broadcast: each client consumes all messages.

        Raises:
            NotFound: no such topic.
        """
        queue_ids = range(self._topics.find(topic).read_queue_nums)
        is_retry = group_of_retry(topic) is not None
        if not is_retry and self._modes.get((group, topic)) == POP:
            return Assigned(mode=POP, queue_ids=[ANY_QUEUE])
        if is_broadcast:
            return Assigned(mode=PULL, queue_ids=queue_ids)
        known = self._groups.get(group)
        clients = known.client_ids if known is not None else []
        return Assigned(mode=PULL, queue_ids=part_of(queue_ids, clients, client_id))

    def shared(self, group: str, topic: str) -> Sequence[int]:
        """The queues from which every client of a group receives.

        Raises:
            NotFound: no such topic, or no such group where groups are not made by being used.
            InvalidRequest: the operator lets nobody read the topic, or a bad group.
        """
        config = self._topics.find(topic)
        check_readable(config)
        is_ordered = self._group_table.find(group).consume_message_orderly
        return range(config.read_queue_nums) if is_ordered else [ANY_QUEUE]


def part_of(items: Sequence[T], clients: Sequence[str], client_id: str) -> list[T]:
    """One client's equal part, in one piece; earlier clients get what does not divide.

    >>> part_of([0, 1, 2, 3, 4], ["a", "b"], "a"), part_of([0, 1, 2, 3, 4], ["a", "b"], "b")
    ([0, 1, 2], [3, 4])
    """
    if client_id not in clients:
        return []
    place = sorted(clients).index(client_id)
    size, rest = divmod(len(items), len(clients))
    start = place * size + min(place, rest)
    return list(items[start : start + size + (place < rest)])
