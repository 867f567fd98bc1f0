"""Who consumes which queue, when the broker decides: 400 and 401.

5.x push consumers with `clientRebalance=false` ask the broker for their queues instead of dividing
them by themselves; `dueline.broker.assignments` has the rules.
"""

from __future__ import annotations

from collections.abc import Mapping

from dueline.broker.assignments import Assigned
from dueline.server.remoting.answers import OK, Response
from dueline.server.remoting.channel import Request
from dueline.server.remoting.context import Context
from dueline.server.remoting.hub import Handler
from dueline.wire.bodies import (
    MessageQueue,
    QueryAssignment,
    QueueAssignment,
    QueueAssignments,
    SetRequestMode,
)
from dueline.wire.codes import RequestCode

__all__ = ["AssignmentRequests", "body_of"]


class AssignmentRequests:
    """Handlers of 400 and 401."""

    def __init__(self, context: Context) -> None:
        self._context = context
        self._assignments = context.broker.assignments

    def table(self) -> Mapping[int, Handler]:
        return {
            RequestCode.QUERY_ASSIGNMENT: self.query,
            RequestCode.SET_MESSAGE_REQUEST_MODE: self.set_mode,
        }

    def query(self, request: Request) -> Response:
        wanted = QueryAssignment.decode_request(request.command.body)
        assigned = self._assignments.assigned(
            wanted.consumer_group,
            wanted.topic,
            wanted.client_id,
            is_broadcast=wanted.message_model == "BROADCASTING",
        )
        return Response(body=body_of(assigned, wanted.topic, self._context.broker_name).encode())

    def set_mode(self, request: Request) -> Response:
        wanted = SetRequestMode.decode_request(request.command.body)
        self._assignments.set_mode(wanted.consumer_group, wanted.topic, wanted.mode)
        return OK


def body_of(assigned: Assigned, topic: str, broker_name: str) -> QueueAssignments:
    """A client's queues as the protocol lists them."""
    return QueueAssignments(
        message_queue_assignments=[
            QueueAssignment(
                message_queue=MessageQueue(broker_name=broker_name, queue_id=queue_id, topic=topic),
                mode=assigned.mode,
            )
            for queue_id in assigned.queue_ids
        ]
    )
