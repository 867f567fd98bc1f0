"""Consumer groups, for the tools: configure, delete, progress, connections, reset of offsets."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from dueline.broker.names import is_system_group
from dueline.errors import InvalidRequest
from dueline.server.remoting.admin_topics import store_ms_at
from dueline.server.remoting.answers import OK, Answer, Refused
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
    ConsumerOffsets,
    ConsumeStats,
    ConsumeTimeSpan,
    ConsumeTimeSpans,
    GroupConfig,
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
from dueline.wire.bodies import Queue
from dueline.wire.codes import RequestCode, ResponseCode
from dueline.wire.headers import ConsumerGroupRequest

__all__ = ["GroupAdmin"]

EVERYTHING_MS: Final = -1
"""A reset to this time means the end of the queue."""


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

    def create(self, request: Request) -> Answer:
        body = GroupConfig.decode_request(request.command.body)
        self._broker.consumer_groups.configure(group_config(body))
        return OK

    def delete(self, request: Request) -> Answer:
        header = DeleteGroupRequest.decode(request.command.ext)
        self._broker.consumer_groups.delete(
            header.group_name, with_offsets=bool(header.removes_offsets)
        )
        return OK

    def all_configs(self, _: Request) -> Answer:
        return Answer(body=groups_body(self._broker.group_table.all()).encode())

    def config(self, request: Request) -> Answer:
        name = GroupRequest.decode(request.command.ext).group
        return Answer(body=group_body(self._broker.group_table.existing(name)).encode())

    # Who is here

    def consumers(self, request: Request) -> Answer:
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
        return Answer(body=body.encode())

    def producers(self, request: Request) -> Answer:
        name = ProducerGroupRequest.decode(request.command.ext).producer_group
        members = self._context.groups.producers(name)
        if not members:
            raise Refused(ResponseCode.SYSTEM_ERROR, f"producer group {name[:200]} is not online")
        body = ProducerConnections(connection_set=[connection_body(each) for each in members])
        return Answer(body=body.encode())

    # Progress

    def progress(self, request: Request) -> Answer:
        header = ConsumeStatsRequest.decode(request.command.ext)
        topics = [header.topic] if header.topic else self._topics_of(header.consumer_group)
        return Answer(body=self._progress(header.consumer_group, topics).encode())

    def all_progress(self, request: Request) -> Answer:
        """Every group's progress, by name; orderly groups are not told apart."""
        BrokerConsumeStatsRequest.decode(request.command.ext)
        stats = {
            group: self._progress(group, self._topics_of(group))
            for group in sorted({group for _, group in self._offsets.all()})
            if not is_system_group(group)
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
        return Answer(body=fastjson.dumps(body))

    def _progress(self, group: str, topics: list[str]) -> ConsumeStats:
        table = {}
        for topic in topics:
            offsets = self._offsets.get(group, topic)
            for queue_id in self._queue_ids(topic):
                _, end = self._context.store.offset_range(topic, queue_id)
                offset = offsets.get(queue_id, 0)
                table[self._queue(topic, queue_id)] = QueueProgress(
                    broker_offset=end,
                    consumer_offset=offset,
                    pull_offset=offset,
                    last_timestamp=store_ms_at(self._context, topic, queue_id, offset - 1),
                )
        return ConsumeStats(offset_table=table)

    def time_spans(self, request: Request) -> Answer:
        header = ConsumeTimeSpanRequest.decode(request.command.ext)
        offsets = self._offsets.get(header.group, header.topic)
        now_ms = self._context.clock.now_ms()
        spans = []
        for queue_id in self._queue_ids(header.topic):
            start, end = self._context.store.offset_range(header.topic, queue_id)
            offset = offsets.get(queue_id, 0)
            consumed_ms = store_ms_at(self._context, header.topic, queue_id, offset - 1)
            next_ms = store_ms_at(self._context, header.topic, queue_id, offset)
            spans.append(
                ConsumeTimeSpan(
                    message_queue=self._queue(header.topic, queue_id),
                    min_time_stamp=store_ms_at(self._context, header.topic, queue_id, start),
                    max_time_stamp=store_ms_at(self._context, header.topic, queue_id, end - 1),
                    consume_time_stamp=consumed_ms,
                    delay_time=now_ms - next_ms if next_ms else 0,
                )
            )
        return Answer(body=ConsumeTimeSpans(consume_time_span_set=spans).encode())

    def topics_of(self, request: Request) -> Answer:
        group = GroupRequest.decode(request.command.ext).group
        return Answer(body=TopicList(topic_list=self._topics_of(group)).encode())

    def _topics_of(self, group: str) -> list[str]:
        """What a group has read, and what it subscribes to now."""
        found = set(self._offsets.topics_of(group))
        known = self._context.groups.get(group)
        if known is not None:
            found |= set(known.subscriptions)
        return sorted(topic for topic in found if self._context.topics.get(topic) is not None)

    def subscription(self, request: Request) -> Answer:
        header = GroupTopicRequest.decode(request.command.ext)
        group = self._context.groups.get(header.group)
        topic = header.topic or ""
        found = group.subscriptions.get(topic) if group is not None else None
        body = SubscriptionAnswer(
            group=header.group,
            topic=topic,
            subscription_data=None if found is None else subscription_body(found),
        )
        return Answer(body=body.encode())

    def all_offsets(self, _: Request) -> Answer:
        table = {
            f"{topic}@{group}": queues for (topic, group), queues in self._offsets.all().items()
        }
        return Answer(body=ConsumerOffsets(offset_table=table).encode())

    # Reset

    def reset(self, request: Request) -> Answer:
        """Let a group go on from another place; clients that are here are told to."""
        header = ResetOffsetRequest.decode(request.command.ext)
        topic = self._context.topics.find(header.topic)
        self._broker.group_table.find(header.group)
        queue_ids = list(range(topic.read_queue_nums))
        if header.queue_id is not None and header.queue_id >= 0:
            if header.queue_id not in queue_ids:
                raise InvalidRequest(f"topic {header.topic}: no queue {header.queue_id}")
            queue_ids = [header.queue_id]
        known = self._offsets.get(header.group, header.topic)
        wanted = {queue_id: self._target(header, queue_id) for queue_id in queue_ids}
        if not header.is_force:
            wanted = {
                queue_id: min(offset, known.get(queue_id, offset))
                for queue_id, offset in wanted.items()
            }
        self._offsets.reset(header.group, header.topic, wanted)
        self._offsets.save()
        body = QueueOffsets(
            offset_table={
                self._queue(header.topic, queue_id): offset for queue_id, offset in wanted.items()
            }
        ).encode()
        self._context.outbox.post(lambda: self._tell_reset(header, body))
        return Answer(body=body)

    def _target(self, header: ResetOffsetRequest, queue_id: int) -> int:
        start, end = self._context.store.offset_range(header.topic, queue_id)
        if header.offset is not None and header.offset >= 0:
            return min(max(header.offset, start), end)
        if header.timestamp == EVERYTHING_MS:
            return end
        return self._context.store.search_offset(header.topic, queue_id, header.timestamp)

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

    def _queue_ids(self, topic: str) -> range:
        config = self._context.topics.find(topic)
        return range(config.queue_count)

    def _queue(self, topic: str, queue_id: int) -> Queue:
        return Queue(broker_name=self._context.broker_name, queue_id=queue_id, topic=topic)
