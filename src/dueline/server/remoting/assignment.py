"""Who consumes which queue, when the broker decides: 400 and 401.

5.x push consumers with `clientRebalance=false` ask the broker for their queues instead of dividing
them by themselves. The broker divides as they would: queues in order, in equal parts, to the
clients in order of their ids. A topic that is set to POP for a group is not divided at all: its
clients take messages from all queues. Retry topics are always pulled.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final, TypeVar

from dueline.broker.consumer_offsets import check_group
from dueline.broker.names import group_of_retry
from dueline.budget import Budget
from dueline.errors import InvalidRequest
from dueline.message import check_topic
from dueline.server.remoting.answers import OK, Answer
from dueline.server.remoting.channel import Request
from dueline.server.remoting.context import Context
from dueline.server.remoting.hub import Handler
from dueline.wire.bodies import (
    QueryAssignment,
    Queue,
    QueueAssignment,
    QueueAssignments,
    SetRequestMode,
)
from dueline.wire.codes import RequestCode

__all__ = ["ANY_QUEUE", "Assignments", "part_of"]

PULL: Final = "PULL"
POP: Final = "POP"
ANY_QUEUE: Final = -1
MODES_SIZE_BYTES_MAX: Final = 8 << 20
_MODE_SIZE: Final = 512

T = TypeVar("T")


class Assignments:
    """Handlers of 400 and 401; modes are kept in memory, PULL is the default."""

    def __init__(self, context: Context) -> None:
        self._context = context
        self._modes: dict[tuple[str, str], str] = {}
        self.budget: Final = Budget("request modes", MODES_SIZE_BYTES_MAX)

    def table(self) -> Mapping[int, Handler]:
        return {
            RequestCode.QUERY_ASSIGNMENT: self.query,
            RequestCode.SET_MESSAGE_REQUEST_MODE: self.set_mode,
        }

    def query(self, request: Request) -> Answer:
        wanted = QueryAssignment.decode_request(request.command.body)
        config = self._context.topics.find(wanted.topic)
        queue_ids = list(range(config.read_queue_nums))
        mode = self._modes.get((wanted.consumer_group, wanted.topic), PULL)
        if group_of_retry(wanted.topic) is not None:
            mode = PULL
        if mode == POP:
            chosen = [ANY_QUEUE]
        elif wanted.message_model == "BROADCASTING":
            chosen = queue_ids
        else:
            group = self._context.groups.get(wanted.consumer_group)
            clients = group.client_ids if group is not None else []
            chosen = part_of(queue_ids, clients, wanted.client_id)
        assignments = [
            QueueAssignment(
                message_queue=Queue(
                    broker_name=self._context.broker_name, queue_id=queue_id, topic=wanted.topic
                ),
                mode=mode,
            )
            for queue_id in chosen
        ]
        return Answer(body=QueueAssignments(message_queue_assignments=assignments).encode())

    def set_mode(self, request: Request) -> Answer:
        wanted = SetRequestMode.decode_request(request.command.body)
        if wanted.mode not in (PULL, POP):
            raise InvalidRequest(f"mode: expected {PULL} or {POP}, found {wanted.mode!r:.80}")
        check_group(wanted.consumer_group)
        check_topic(wanted.topic)
        if (wanted.consumer_group, wanted.topic) not in self._modes:
            self.budget.take(_MODE_SIZE + len(wanted.consumer_group) + len(wanted.topic))
        self._modes[wanted.consumer_group, wanted.topic] = wanted.mode
        return OK


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
