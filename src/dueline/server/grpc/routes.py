"""Where topics are and who gets which queue: QueryRoute and QueryAssignment.

A client is sent back to where it came from: the endpoints in the answer are those it asked with,
since an address that reached us once will do so again, through whatever stands between.

Topics accept every type of message unless the operator gave them one (`message.type`).
"""

from __future__ import annotations

from typing import Any, Final

from dueline.broker.topics import Permission, TopicConfig
from dueline.message import check_topic
from dueline.server.grpc.call import Call
from dueline.server.grpc.codes import ok
from dueline.server.grpc.convert import MessageType, name_of
from dueline.server.grpc.parts import Parts
from dueline.server.grpc.schema import ENUMS
from dueline.server.grpc.stubs import message_class
from dueline.settings import parse_address

__all__ = ["Routes", "accepted_types", "topic_of"]

_EVERY_TYPE: Final = [MessageType[name] for name in ("NORMAL", "FIFO", "DELAY", "TRANSACTION")]

_RouteResponse: Final = message_class("QueryRouteResponse")
_AssignmentResponse: Final = message_class("QueryAssignmentResponse")
_MessageQueue: Final = message_class("MessageQueue")
_Endpoints: Final = message_class("Endpoints")


def topic_of(resource: Any) -> str:
    """A topic's name that clients may use.

    Raises:
        InvalidRequest: it is none.
    """
    topic = name_of(resource)
    check_topic(topic)
    return topic


def accepted_types(config: TopicConfig) -> list[int]:
    """The types of messages that a topic takes."""
    name = (config.attributes or {}).get("message.type", "MIXED").upper()
    return [MessageType[name]] if name in MessageType else _EVERY_TYPE


class Routes:
    """The methods about routes."""

    def __init__(self, parts: Parts) -> None:
        self._parts = parts

    async def query_route(self, request: Any, call: Call) -> Any:
        topic = topic_of(request.topic)
        config = await self.find(topic)
        queues = [
            self._queue(request, config, queue_id)
            for queue_id in range(max(config.read_queue_nums, config.write_queue_nums))
        ]
        return _RouteResponse(status=ok(), message_queues=queues)

    async def query_assignment(self, request: Any, call: Call) -> Any:
        group = name_of(request.group)
        config = await self.find(topic_of(request.topic))
        answer = _AssignmentResponse(status=ok())
        for queue_id in self._parts.broker.assignments.shared(group, config.topic_name):
            answer.assignments.add().message_queue.CopyFrom(self._queue(request, config, queue_id))
        return answer

    async def find(self, topic: str) -> TopicConfig:
        """The topic, made if it may be: clients ask before they send or receive.

        Raises:
            NotFound: it does not exist and is not made by being used.
        """
        config = self._parts.broker.topics.for_client(topic)
        await self._parts.saved()
        return config

    def _queue(self, request: Any, config: TopicConfig, queue_id: int) -> Any:
        queue = _MessageQueue(
            id=queue_id,
            permission=_permission(config, queue_id),
            accept_message_types=accepted_types(config),
        )
        queue.topic.CopyFrom(request.topic)
        queue.broker.name = self._parts.broker.options.broker_name
        queue.broker.endpoints.CopyFrom(
            request.endpoints
            if request.endpoints.addresses
            else endpoints_of(self._parts.options.address)
        )
        return queue


def endpoints_of(address: str) -> Any:
    """An address of ours as the protocol writes it."""
    host, port = parse_address(address)
    is_v6, is_v4 = ":" in host, host.replace(".", "").isdigit()
    scheme = "IPv6" if is_v6 else "IPv4" if is_v4 else "DOMAIN_NAME"
    endpoints = _Endpoints(scheme=ENUMS["AddressScheme"][scheme])
    endpoints.addresses.add(host=host, port=port)
    return endpoints


def _permission(config: TopicConfig, queue_id: int) -> int:
    can_read = bool(config.perm & Permission.READ) and queue_id < config.read_queue_nums
    can_write = bool(config.perm & Permission.WRITE) and queue_id < config.write_queue_nums
    names = {(True, True): "READ_WRITE", (True, False): "READ", (False, True): "WRITE"}
    return ENUMS["Permission"][names.get((can_read, can_write), "NONE")]
