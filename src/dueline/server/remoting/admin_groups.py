"""Consumer groups, for the tools: configure, delete, progress, connections, reset of offsets."""

from __future__ import annotations

from collections.abc import Mapping

from dueline.broker.progress import QueueLag
from dueline.server.remoting.answers import OK, Refused, Response
from dueline.server.remoting.channel import Channel, Request
from dueline.server.remoting.context import Context
from dueline.server.remoting.convert import (
    connection_body,
    group_body,
    group_config,
    groups_body,
    subscription_body,
)
from dueline.server.remoting.hub import Handler, Hub, blocking
from dueline.wire import fastjson
from dueline.wire.admin_bodies import (
    ConsumerConnections,
    ConsumerOffsetsBody,
    ConsumeStats,
    ConsumeTimeSpan,
    ConsumeTimeSpans,
    GroupConfigBody,
    ProducerConnections,
    QueueOffsets,
    QueueProgress,
    SubscriptionAnswer,
    TopicList,
)
from dueline.wire.admin_headers import (
    BrokerConsumeStatsRequest,
    ConsumeStatsRequest,
    ConsumeTimeSpanRequest,
    DeleteGroupRequest,
    GroupRequest,
    GroupTopicRequest,
    ProducerGroupRequest,
    ResetOffsetRequest,
)
from dueline.wire.bodies import MessageQueue
from dueline.wire.codes import RequestCode, ResponseCode
from dueline.wire.headers import ConsumerGroupRequest

__all__ = ["GroupAdmin"]


class GroupAdmin:
    """Handlers of 43, 200, 201, 203, 204, 207, 208, 222, 303, 317, 343, 345 and 352."""

    def __init__(self, context: Context, hub: Hub) -> None:
        self._context = context
        self._broker = context.broker
        self._offsets = context.broker.offsets
        self._hub = hub

    def table(self) -> Mapping[int, Handler]:
        work = {
            RequestCode.UPDATE_AND_CREATE_SUBSCRIPTION_GROUP: self.create,
            RequestCode.DELETE_SUBSCRIPTION_GROUP: self.delete,
            RequestCode.GET_ALL_SUBSCRIPTION_GROUP_CONFIG: self.all_configs,
            RequestCode.GET_SUBSCRIPTION_GROUP_CONFIG: self.config,
            RequestCode.GET_CONSUMER_CONNECTION_LIST: self.consumers,
            RequestCode.GET_PRODUCER_CONNECTION_LIST: self.producers,
            RequestCode.GET_CONSUME_STATS: self.progress,
            RequestCode.GET_BROKER_CONSUME_STATS: self.all_progress,
            RequestCode.QUERY_CONSUME_TIME_SPAN: self.time_spans,
            RequestCode.QUERY_TOPICS_BY_CONSUMER: self.topics_of,
            RequestCode.QUERY_SUBSCRIPTION_BY_CONSUMER: self.subscription,
            RequestCode.INVOKE_BROKER_TO_RESET_OFFSET: self.reset,
            RequestCode.GET_ALL_CONSUMER_OFFSET: self.all_offsets,
        }
        return {code: blocking(self._hub, each) for code, each in work.items()}

    # Configuration

    def create(self, request: Request) -> Response:
        body = GroupConfigBody.decode_request(request.command.body)
        self._broker.consumer_groups.configure(group_config(body))
        return OK

    def delete(self, request: Request) -> Response:
        header = DeleteGroupRequest.decode(request.command.ext)
        self._broker.consumer_groups.delete(
            header.group_name, with_offsets=bool(header.removes_offsets)
        )
        return OK

    def all_configs(self, _: Request) -> Response:
        return Response(body=groups_body(self._broker.group_table.all()).encode())

    def config(self, request: Request) -> Response:
        name = GroupRequest.decode(request.command.ext).group
        return Response(body=group_body(self._broker.group_table.existing(name)).encode())

    # Who is here

    def consumers(self, request: Request) -> Response:
        name = ConsumerGroupRequest.decode(request.command.ext).consumer_group
        group = self._context.groups.get(name)
        if group is None:
            raise Refused(
                ResponseCode.CONSUMER_NOT_ONLINE, f"consumer group {name[:200]} is not online"
            )
        body = ConsumerConnections(
            connection_set=[connection_body(each) for each in self._context.groups.members(name)],
            subscription_table={
                topic: subscription_body(each) for topic, each in group.subscriptions.items()
            },
            consume_type=group.consumption.consume_type,
            message_model=group.consumption.message_model,
            consume_from_where=group.consumption.consume_from_where,
        )
        return Response(body=body.encode())

    def producers(self, request: Request) -> Response:
        name = ProducerGroupRequest.decode(request.command.ext).producer_group
        members = self._context.groups.producers(name)
        if not members:
            raise Refused(ResponseCode.SYSTEM_ERROR, f"producer group {name[:200]} is not online")
        body = ProducerConnections(connection_set=[connection_body(each) for each in members])
        return Response(body=body.encode())

    # Progress

    def progress(self, request: Request) -> Response:
        header = ConsumeStatsRequest.decode(request.command.ext)
        verbs, group = self._broker.progress, header.consumer_group
        topics = [header.topic] if header.topic else verbs.topics_of(group)
        found = {topic: verbs.of_topic(group, topic) for topic in topics}
        return Response(body=self._stats(found).encode())

    def all_progress(self, request: Request) -> Response:
        """Every group's progress, by name; orderly groups are not told apart."""
        BrokerConsumeStatsRequest.decode(request.command.ext)
        stats = {
            group: self._stats(found) for group, found in self._broker.progress.of_groups().items()
        }
        total = sum(
            each.broker_offset - each.consumer_offset
            for found in stats.values()
            for each in found.offset_table.values()
        )
        body = {
            "brokerAddr": f"{self._context.addresses.host}:{self._context.addresses.port}",
            "consumeStatsList": [{group: [found.to_json()]} for group, found in stats.items()],
            "totalDiff": total,
        }
        return Response(body=fastjson.dumps(body))

    def _stats(self, topics: Mapping[str, Mapping[int, QueueLag]]) -> ConsumeStats:
        table = {
            self._queue(topic, queue_id): QueueProgress(
                broker_offset=each.end,
                consumer_offset=each.offset,
                pull_offset=each.offset,
                last_timestamp=each.consumed_ms,
            )
            for topic, queues in topics.items()
            for queue_id, each in queues.items()
        }
        return ConsumeStats(offset_table=table)

    def time_spans(self, request: Request) -> Response:
        header = ConsumeTimeSpanRequest.decode(request.command.ext)
        now_ms = self._context.clock.now_ms()
        spans = [
            ConsumeTimeSpan(
                message_queue=self._queue(header.topic, queue_id),
                min_time_stamp=each.first_ms,
                max_time_stamp=each.last_ms,
                consume_time_stamp=each.consumed_ms,
                delay_time=now_ms - each.next_ms if each.next_ms else 0,
            )
            for queue_id, each in self._broker.progress.times(header.group, header.topic).items()
        ]
        return Response(body=ConsumeTimeSpans(consume_time_span_set=spans).encode())

    def topics_of(self, request: Request) -> Response:
        group = GroupRequest.decode(request.command.ext).group
        return Response(body=TopicList(topic_list=self._broker.progress.topics_of(group)).encode())

    def subscription(self, request: Request) -> Response:
        header = GroupTopicRequest.decode(request.command.ext)
        group = self._context.groups.get(header.group)
        topic = header.topic or ""
        found = group.subscriptions.get(topic) if group is not None else None
        body = SubscriptionAnswer(
            group=header.group,
            topic=topic,
            subscription_data=None if found is None else subscription_body(found),
        )
        return Response(body=body.encode())

    def all_offsets(self, _: Request) -> Response:
        table = {
            f"{topic}@{group}": queues for (topic, group), queues in self._offsets.all().items()
        }
        return Response(body=ConsumerOffsetsBody(offset_table=table).encode())

    # Reset

    def reset(self, request: Request) -> Response:
        """Let a group go on from another place; clients that are here are told to."""
        header = ResetOffsetRequest.decode(request.command.ext)
        wanted = self._broker.progress.reset(
            header.group,
            header.topic,
            queue_id=_or_none(header.queue_id),
            offset=_or_none(header.offset),
            timestamp_ms=header.timestamp,
            may_skip=header.is_force,
        )
        body = QueueOffsets(
            offset_table={
                self._queue(header.topic, queue_id): offset for queue_id, offset in wanted.items()
            }
        ).encode()
        self._context.outbox.post(lambda: self._tell_reset(header, body))
        return Response(body=body)

    def _tell_reset(self, header: ResetOffsetRequest, body: bytes) -> None:
        ext = {
            "topic": header.topic,
            "group": header.group,
            "timestamp": str(header.timestamp),
            "isForce": "true" if header.is_force else "false",
        }
        for member in self._context.groups.members(header.group):
            if isinstance(member.channel, Channel):
                member.channel.notify(RequestCode.RESET_CONSUMER_CLIENT_OFFSET, ext, body)

    def _queue(self, topic: str, queue_id: int) -> MessageQueue:
        return MessageQueue(broker_name=self._context.broker_name, queue_id=queue_id, topic=topic)


def _or_none(number: int | None) -> int | None:
    """Tools write -1 for a number that they do not mean."""
    return None if number is None or number < 0 else number
