"""Heartbeats, members of groups, and locks of queues.

Whenever a consumer group's clients or subscriptions change, every client of it is told (40), so
that all of them divide the queues anew at once instead of within 20 seconds. A connection that
breaks takes its clients with it.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from dueline.broker.filters import filter_of
from dueline.broker.groups import Consumption, Member
from dueline.errors import InvalidRequest
from dueline.server.remoting.answers import OK, Refused, Response
from dueline.server.remoting.channel import Channel, Request
from dueline.server.remoting.context import Context
from dueline.server.remoting.convert import subscription
from dueline.server.remoting.hub import Handler, Hub, decoded
from dueline.wire.bodies import (
    CheckClientConfig,
    ConsumerList,
    Heartbeat,
    LockRequest,
    LockResult,
    MessageQueue,
)
from dueline.wire.codes import RequestCode, ResponseCode
from dueline.wire.headers import (
    ConsumerGroupRequest,
    HeartbeatResponse,
    UnregisterClientRequest,
)

__all__ = ["GroupMembers"]

EXPIRE_S: Final = 10.0
GROUP_COUNT_MAX: Final = 1_000
SUBSCRIPTION_COUNT_MAX: Final = 4_000
QUEUE_COUNT_MAX: Final = 4_000
"""Of one request."""


class GroupMembers:
    """Handlers of 34, 35, 38, 41, 42 and 46; sends 40."""

    def __init__(self, context: Context, hub: Hub) -> None:
        self._context = context
        self._hub = hub
        self._groups = context.groups
        context.groups.on_change(lambda name: context.outbox.post(lambda: self._tell(name)))
        hub.on_leave.append(self._left)

    def table(self) -> Mapping[int, Handler]:
        return {
            RequestCode.HEART_BEAT: decoded(self._hub, Heartbeat, self.heartbeat),
            RequestCode.UNREGISTER_CLIENT: self.unregister,
            RequestCode.GET_CONSUMER_LIST_BY_GROUP: self.consumer_list,
            RequestCode.LOCK_BATCH_MESSAGE_QUEUE: decoded(self._hub, LockRequest, self.lock),
            RequestCode.UNLOCK_BATCH_MESSAGE_QUEUE: decoded(self._hub, LockRequest, self.unlock),
            RequestCode.CHECK_CLIENT_CONFIG: decoded(
                self._hub, CheckClientConfig, self.check_filter
            ),
        }

    def heartbeat(self, request: Request, beat: Heartbeat) -> Response:
        _check_counts(beat)
        is_changed = False
        for producer in beat.producer_data_set:
            self._groups.producer(producer.group_name, self._member(request, beat.client_id))
        for consumer in beat.consumer_data_set:
            self._context.broker.consumer_groups.ensure(consumer.group_name)
            # With a fingerprint a client may leave out what it has said before.
            is_short = beat.without_sub and not consumer.subscription_data_set
            is_changed |= self._groups.consumer(
                consumer.group_name,
                self._member(request, beat.client_id),
                Consumption(
                    consume_type=consumer.consume_type,
                    message_model=consumer.message_model,
                    consume_from_where=consumer.consume_from_where,
                ),
                None if is_short else map(subscription, consumer.subscription_data_set),
            )
        request.channel.is_member = True
        self._context.save_soon()
        response = HeartbeatResponse(is_support_heart_beat_v2=True, is_sub_change=is_changed)
        return Response(ext=response.encode())

    def _member(self, request: Request, client_id: str) -> Member:
        return Member(
            client_id=client_id,
            channel=request.channel,
            address=request.channel.address,
            language=request.command.language.name,
            version=request.command.version,
            seen_ms=self._context.clock.now_ms(),
        )

    def unregister(self, request: Request) -> Response:
        header = UnregisterClientRequest.decode(request.command.ext)
        self._groups.leave(
            header.client_id,
            consumer_group=header.consumer_group,
            producer_group=header.producer_group,
        )
        return OK

    def consumer_list(self, request: Request) -> Response:
        name = ConsumerGroupRequest.decode(request.command.ext).consumer_group
        group = self._groups.get(name)
        if group is None:
            raise Refused(
                ResponseCode.SYSTEM_ERROR, f"consumer group {name[:200]} has no clients here"
            )
        return Response(body=ConsumerList(consumer_id_list=group.client_ids).encode())

    def _left(self, channel: Channel) -> None:
        if channel.is_member:
            self._groups.drop_channel(channel)

    def _tell(self, name: str) -> None:
        config = self._context.broker.group_table.get(name)
        if config is not None and not config.notify_consumer_ids_changed_enable:
            return
        ext = ConsumerGroupRequest(consumer_group=name).encode()
        for member in self._groups.members(name):
            if isinstance(member.channel, Channel):
                member.channel.notify(RequestCode.NOTIFY_CONSUMER_IDS_CHANGED, ext)

    def expire(self) -> None:
        """Drop silent clients, now and then."""
        self._groups.expire(self._context.clock.now_ms())
        self._context.loop.call_later(EXPIRE_S, self.expire)

    # Locks

    def lock(self, _: Request, wanted: LockRequest) -> Response:
        _check_count("queues", len(wanted.queues), QUEUE_COUNT_MAX)
        held = self._context.broker.locks.lock(
            wanted.consumer_group,
            wanted.client_id,
            [(queue.topic, queue.queue_id) for queue in wanted.queues],
        )
        queues = frozenset(
            MessageQueue(broker_name=self._context.broker_name, topic=topic, queue_id=queue_id)
            for topic, queue_id in held
        )
        return Response(body=LockResult(queues=queues).encode())

    def unlock(self, _: Request, wanted: LockRequest) -> Response:
        self._context.broker.locks.unlock(
            wanted.consumer_group,
            wanted.client_id,
            [(queue.topic, queue.queue_id) for queue in wanted.queues],
        )
        return OK

    def check_filter(self, _: Request, config: CheckClientConfig) -> Response:
        wanted = config.subscription_data
        try:
            filter_of(wanted.sub_string, wanted.expression_type)
        except InvalidRequest as error:
            raise Refused(ResponseCode.SUBSCRIPTION_PARSE_FAILED, error.message) from error
        return OK


def _check_counts(beat: Heartbeat) -> None:
    """Each group and subscription takes a moment of everybody's time."""
    group_count = len(beat.producer_data_set) + len(beat.consumer_data_set)
    _check_count("groups", group_count, GROUP_COUNT_MAX)
    count = sum(len(each.subscription_data_set) for each in beat.consumer_data_set)
    _check_count("subscriptions", count, SUBSCRIPTION_COUNT_MAX)


def _check_count(what: str, found: int, limit: int) -> None:
    if found > limit:
        raise InvalidRequest(
            f"{what}: expected at most {limit} in one request, found {found}",
            limit=limit,
            found=found,
        )
