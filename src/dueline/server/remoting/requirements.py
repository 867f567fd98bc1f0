"""What each request of the 4.x protocol asks of its caller: a table from codes to rights.

A requirement reads a request and says which rights it takes: one of some actions on each of some
resources, or none: then it is enough to be a user. The table is RocketMQ's (ACL 2.0), but for

- requests about a whole broker that RocketMQ lets every user make, which take rights on the
  cluster here (all topics, all groups, all offsets);
- what an ordinary consumer asks on its way (the ends of a queue), where SUB is enough here;
- a group's retry topic, where rights on that very group are taken, not on any.

Where the right depends on what is found, by an offset, key or handle, the handler asks again with
`Request.check`: `LATER` marks these.

A code without a line here cannot be served (`dueline.server.remoting.guard`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Final

from dueline.admission import RETRY_PREFIX
from dueline.broker.access import CLUSTER, Action, Resource, group, topic
from dueline.wire import Command
from dueline.wire.admin_bodies import GroupConfigBody
from dueline.wire.bodies import (
    AckBatch,
    Heartbeat,
    LockRequest,
    QueryAssignment,
    SetRequestMode,
)
from dueline.wire.codes import RequestCode
from dueline.wire.delayed import DelayedCode
from dueline.wire.headers import SendRequest

__all__ = ["REQUIREMENTS", "Needs", "Requirement"]

DEFAULT_TOPIC: Final = "TBW102"
"""Its route tells producers where a new topic would be; it has no messages."""

KNOWN_COUNT_MAX: Final = 1_000
KNOWN_SIZE_MAX: Final = 512
"""Needs of one kind that are remembered, and the characters that they may depend on."""

Needs = tuple[Action, tuple[Resource, ...]]
NO_NEEDS: Final[Needs] = (Action(0), ())


@dataclass(frozen=True, slots=True, kw_only=True)
class Requirement:
    """What a request takes.

    `is_change`: the audit trail has a line for each that succeeds. `is_open`: nobody is asked who
    they are.
    """

    needs: Callable[[Command], Needs]
    reads_body: bool = False
    is_change: bool = False
    is_open: Callable[[Command], bool] | None = None


def _on(
    actions: Action, *, topics: Iterable[str] = (), groups: Iterable[str] = ()
) -> Callable[[Command], Needs]:
    """Rights on the topics and groups that these fields name; absent ones are not asked for.

    A field with a question mark may also be empty, which then names nothing.
    """
    kinds = [(topic, name) for name in topics] + [(group, name) for name in groups]
    wanted = [(kind, name.endswith("?")) for kind, name in kinds]
    fields = [name.removesuffix("?") for _, name in kinds]

    def make(*values: str | None) -> Needs:
        return actions, tuple(
            [
                kind(value)
                for (kind, is_optional), value in zip(wanted, values, strict=True)
                if value is not None and (value or not is_optional)
            ]
        )

    known = _Known(make)
    return lambda command: known.of(*map(command.ext.get, fields))


class _Known:
    """Needs by the values of fields that they depend on: most requests name what others did."""

    def __init__(self, make: Callable[..., Needs]) -> None:
        self._make = make
        self._known: dict[tuple[str | None, ...], Needs] = {}

    def of(self, *values: str | None) -> Needs:
        found = self._known.get(values)
        return found if found is not None else self._remember(values)

    def _remember(self, values: tuple[str | None, ...]) -> Needs:
        needs = self._make(*values)
        if sum(len(value) for value in values if value is not None) <= KNOWN_SIZE_MAX:
            if len(self._known) >= KNOWN_COUNT_MAX:
                self._known.clear()
            self._known[values] = needs
        return needs


def _user(*, is_change: bool = False) -> Requirement:
    return Requirement(needs=lambda command: NO_NEEDS, is_change=is_change)


LATER: Final = _user
"""To be a user is enough to begin with; the handler asks for what it finds."""


def _cluster(actions: Action, *, is_change: bool = False) -> Requirement:
    needs = (actions, (CLUSTER,))
    return Requirement(needs=lambda command: needs, is_change=is_change)


def _fields(
    actions: Action,
    *,
    topics: Iterable[str] = (),
    groups: Iterable[str] = (),
    is_change: bool = False,
) -> Requirement:
    return Requirement(needs=_on(actions, topics=topics, groups=groups), is_change=is_change)


def _consumer(actions: Action) -> Requirement:
    return _fields(actions, topics=["topic"], groups=["consumerGroup"])


def _route(command: Command) -> Needs:
    return _PUB | _SUB | _GET, (topic(command.ext.get("topic", "")),)


def _is_default_route(command: Command) -> bool:
    """The way to the broker, which then says what is wrong with a client's name or secret.

    Java's producers hide a name server's refusal behind "No route info of this topic".
    """
    return command.ext.get("topic") == DEFAULT_TOPIC


def _send(command: Command) -> Needs:
    """The same names decide here as in `SendRequest`: the short ones, if they are there."""
    ext = command.ext
    name = ext.get("b") if "b" in ext else ext.get("topic")
    if name is None:
        SendRequest.decode(ext)  # says what is missing
    return _SENDING.of(name or "")


def _sending(name: str) -> Needs:
    return (_SUB if name.startswith(RETRY_PREFIX) else _PUB), (topic(name),)


_SENDING: Final = _Known(_sending)


def _heartbeat(command: Command) -> Needs:
    beat = Heartbeat.decode_request(command.body)
    found = {group(each.group_name) for each in beat.consumer_data_set}
    for consumer in beat.consumer_data_set:
        found |= {topic(each.topic) for each in consumer.subscription_data_set}
    return _SUB, tuple(found)


def _lock(command: Command) -> Needs:
    wanted = LockRequest.decode_request(command.body)
    topics = {topic(queue.topic) for queue in wanted.queues}
    return _SUB, (group(wanted.consumer_group), *topics)


def _ack_batch(command: Command) -> Needs:
    acks = AckBatch.decode_request(command.body).acks
    return _SUB, tuple(
        {topic(each.topic) for each in acks} | {group(each.consumer_group) for each in acks}
    )


def _assignment(command: Command) -> Needs:
    wanted = QueryAssignment.decode_request(command.body)
    return _SUB, (group(wanted.consumer_group), topic(wanted.topic))


def _mode(command: Command) -> Needs:
    wanted = SetRequestMode.decode_request(command.body)
    return _UPDATE, (group(wanted.consumer_group), topic(wanted.topic))


def _group_config(command: Command) -> Needs:
    return _CREATE | _UPDATE, (group(GroupConfigBody.decode_request(command.body).group_name),)


def _body(needs: Callable[[Command], Needs], *, is_change: bool = False) -> Requirement:
    return Requirement(needs=needs, reads_body=True, is_change=is_change)


_PUB, _SUB, _GET, _LIST = Action.PUB, Action.SUB, Action.GET, Action.LIST
_CREATE, _UPDATE, _DELETE = Action.CREATE, Action.UPDATE, Action.DELETE
_ALL_GET: Final = _cluster(_GET | _LIST)

REQUIREMENTS: Final[dict[int, Requirement]] = {
    # Messages
    RequestCode.SEND_MESSAGE: Requirement(needs=_send),
    RequestCode.SEND_MESSAGE_V2: Requirement(needs=_send),
    RequestCode.SEND_BATCH_MESSAGE: Requirement(needs=_send),
    RequestCode.SEND_REPLY_MESSAGE: _user(),  # to a client that waits for it; in no topic
    RequestCode.SEND_REPLY_MESSAGE_V2: _user(),
    RequestCode.END_TRANSACTION: LATER(),
    RequestCode.PULL_MESSAGE: _consumer(_SUB),
    RequestCode.LITE_PULL_MESSAGE: _consumer(_SUB),
    RequestCode.POP_MESSAGE: _consumer(_SUB),
    RequestCode.ACK_MESSAGE: _consumer(_SUB),
    RequestCode.BATCH_ACK_MESSAGE: _body(_ack_batch),
    RequestCode.CHANGE_MESSAGE_INVISIBLE_TIME: _consumer(_SUB),
    RequestCode.CONSUMER_SEND_MESSAGE_BACK: _fields(_SUB, groups=["group"]),  # and LATER
    RequestCode.QUERY_MESSAGE: _fields(_SUB | _GET, topics=["topic"]),
    RequestCode.VIEW_MESSAGE_BY_ID: LATER(),
    RequestCode.RECALL_MESSAGE: LATER(is_change=True),
    # Members of groups
    RequestCode.HEART_BEAT: _body(_heartbeat),
    RequestCode.UNREGISTER_CLIENT: _fields(_SUB, groups=["consumerGroup?"]),
    RequestCode.GET_CONSUMER_LIST_BY_GROUP: _fields(_SUB | _GET, groups=["consumerGroup"]),
    RequestCode.LOCK_BATCH_MESSAGE_QUEUE: _body(_lock),
    RequestCode.UNLOCK_BATCH_MESSAGE_QUEUE: _body(_lock),
    RequestCode.CHECK_CLIENT_CONFIG: _user(),
    RequestCode.QUERY_ASSIGNMENT: _body(_assignment),
    RequestCode.SET_MESSAGE_REQUEST_MODE: _body(_mode, is_change=True),
    # Offsets
    RequestCode.QUERY_CONSUMER_OFFSET: _consumer(_SUB | _GET),
    RequestCode.UPDATE_CONSUMER_OFFSET: _consumer(_SUB | _UPDATE),
    RequestCode.SEARCH_OFFSET_BY_TIMESTAMP: _fields(_SUB | _GET, topics=["topic"]),
    RequestCode.GET_MAX_OFFSET: _fields(_SUB | _GET, topics=["topic"]),
    RequestCode.GET_MIN_OFFSET: _fields(_SUB | _GET, topics=["topic"]),
    RequestCode.GET_EARLIEST_MESSAGE_STORE_TIME: _fields(_SUB | _GET, topics=["topic"]),
    RequestCode.INVOKE_BROKER_TO_RESET_OFFSET: _fields(
        _UPDATE, topics=["topic"], groups=["group"], is_change=True
    ),
    RequestCode.GET_ALL_CONSUMER_OFFSET: _ALL_GET,
    # Topics
    RequestCode.UPDATE_AND_CREATE_TOPIC: _fields(
        _CREATE | _UPDATE, topics=["topic"], is_change=True
    ),
    RequestCode.DELETE_TOPIC_IN_BROKER: _fields(_DELETE, topics=["topic"], is_change=True),
    RequestCode.DELETE_TOPIC_IN_NAME_SERVER: _fields(_DELETE, topics=["topic"], is_change=True),
    RequestCode.GET_ALL_TOPIC_CONFIG: _ALL_GET,
    RequestCode.GET_TOPIC_CONFIG: _fields(_GET, topics=["topic"]),
    RequestCode.GET_TOPIC_STATS_INFO: _fields(_GET, topics=["topic"]),
    RequestCode.QUERY_TOPIC_CONSUME_BY_WHO: _fields(_GET, topics=["topic"]),
    RequestCode.QUERY_CONSUME_QUEUE: _fields(_GET, topics=["topic"], groups=["consumerGroup?"]),
    RequestCode.GET_SYSTEM_TOPIC_LIST_FROM_BROKER: _user(),
    # Groups
    RequestCode.UPDATE_AND_CREATE_SUBSCRIPTION_GROUP: _body(_group_config, is_change=True),
    RequestCode.DELETE_SUBSCRIPTION_GROUP: _fields(_DELETE, groups=["groupName"], is_change=True),
    RequestCode.GET_ALL_SUBSCRIPTION_GROUP_CONFIG: _ALL_GET,
    RequestCode.GET_SUBSCRIPTION_GROUP_CONFIG: _fields(_GET, groups=["group"]),
    RequestCode.GET_CONSUMER_CONNECTION_LIST: _fields(_GET, groups=["consumerGroup"]),
    RequestCode.GET_PRODUCER_CONNECTION_LIST: _cluster(_GET),
    RequestCode.GET_CONSUME_STATS: _fields(_GET, topics=["topic?"], groups=["consumerGroup"]),
    RequestCode.GET_BROKER_CONSUME_STATS: _ALL_GET,
    RequestCode.QUERY_CONSUME_TIME_SPAN: _fields(_GET, topics=["topic"], groups=["group"]),
    RequestCode.QUERY_TOPICS_BY_CONSUMER: _fields(_GET, groups=["group"]),
    RequestCode.QUERY_SUBSCRIPTION_BY_CONSUMER: _fields(_GET, topics=["topic?"], groups=["group"]),
    RequestCode.GET_CONSUMER_RUNNING_INFO: _fields(_GET, groups=["consumerGroup"]),
    RequestCode.CONSUME_MESSAGE_DIRECTLY: _fields(_SUB, groups=["consumerGroup"]),  # and LATER
    # The broker
    RequestCode.GET_BROKER_RUNTIME_INFO: _cluster(_GET),
    RequestCode.GET_BROKER_CONFIG: _cluster(_GET),
    RequestCode.GET_ALL_DELAY_OFFSET: _cluster(_GET),
    # Users
    **dict.fromkeys(
        (
            RequestCode.AUTH_CREATE_USER,
            RequestCode.AUTH_UPDATE_USER,
            RequestCode.AUTH_DELETE_USER,
            RequestCode.AUTH_CREATE_ACL,
            RequestCode.AUTH_UPDATE_ACL,
            RequestCode.AUTH_DELETE_ACL,
        ),
        _cluster(_UPDATE, is_change=True),
    ),
    **dict.fromkeys(
        (
            RequestCode.AUTH_GET_USER,
            RequestCode.AUTH_LIST_USER,
            RequestCode.AUTH_GET_ACL,
            RequestCode.AUTH_LIST_ACL,
        ),
        _cluster(_GET),
    ),
    # Delayed messages
    DelayedCode.CANCEL: LATER(is_change=True),
    DelayedCode.RESCHEDULE: LATER(is_change=True),
    DelayedCode.LOOK_UP: LATER(),
    DelayedCode.COUNT_PENDING: LATER(),
    # The name server
    RequestCode.GET_ROUTE_INFO_BY_TOPIC: Requirement(needs=_route, is_open=_is_default_route),
    RequestCode.GET_BROKER_CLUSTER_INFO: _user(),
    RequestCode.GET_ALL_TOPIC_LIST_FROM_NAME_SERVER: _ALL_GET,
    RequestCode.GET_TOPICS_BY_CLUSTER: _ALL_GET,
    RequestCode.GET_SYSTEM_TOPIC_LIST_FROM_NAME_SERVER: _user(),
    RequestCode.PUT_KEY_VALUE_CONFIG: _cluster(_UPDATE, is_change=True),
    RequestCode.GET_KEY_VALUE_CONFIG: _cluster(_GET),
    RequestCode.DELETE_KEY_VALUE_CONFIG: _cluster(_UPDATE, is_change=True),
    RequestCode.LIST_KEY_VALUES_BY_NAMESPACE: _cluster(_GET),
    RequestCode.GET_NAME_SERVER_CONFIG: _cluster(_GET),
    RequestCode.WIPE_WRITE_PERMISSION_OF_BROKER: _cluster(_UPDATE, is_change=True),
    RequestCode.ADD_WRITE_PERMISSION_OF_BROKER: _cluster(_UPDATE, is_change=True),
}
