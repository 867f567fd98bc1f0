"""Topics, for the tools: create, change, delete, list, statistics."""

from __future__ import annotations

from collections.abc import Mapping

from dueline.broker.topics import TopicConfig
from dueline.errors import InvalidRequest
from dueline.server.remoting.answers import OK, Response
from dueline.server.remoting.channel import Request
from dueline.server.remoting.context import Context
from dueline.server.remoting.convert import topic_body, topics_body
from dueline.server.remoting.hub import Handler, Hub, blocking
from dueline.wire.admin_bodies import (
    GroupList,
    OffsetSpan,
    TopicList,
    TopicStats,
)
from dueline.wire.admin_headers import CreateTopicRequest, TopicRequest
from dueline.wire.bodies import MessageQueue
from dueline.wire.codes import RequestCode

__all__ = ["TopicAdmin"]


class TopicAdmin:
    """Handlers of 17, 21, 202, 215, 300, 305 and 351."""

    def __init__(self, context: Context, hub: Hub) -> None:
        self._context = context
        self._hub = hub

    def table(self) -> Mapping[int, Handler]:
        work = {
            RequestCode.UPDATE_AND_CREATE_TOPIC: self.create,
            RequestCode.DELETE_TOPIC_IN_BROKER: self.delete,
            RequestCode.GET_ALL_TOPIC_CONFIG: self.all_configs,
            RequestCode.GET_TOPIC_CONFIG: self.config,
            RequestCode.GET_TOPIC_STATS_INFO: self.stats,
            RequestCode.QUERY_TOPIC_CONSUME_BY_WHO: self.consumed_by,
            RequestCode.GET_SYSTEM_TOPIC_LIST_FROM_BROKER: self.system_topics,
        }
        return {code: blocking(self._hub, each) for code, each in work.items()}

    def create(self, request: Request) -> Response:
        header = CreateTopicRequest.decode(request.command.ext)
        self._context.topics.configure(
            TopicConfig(
                topic_name=header.topic,
                read_queue_nums=header.read_queue_nums,
                write_queue_nums=header.write_queue_nums,
                perm=header.perm,
                order=header.order,
                topic_filter_type=header.topic_filter_type,
                topic_sys_flag=header.topic_sys_flag or 0,
            ),
            _attributes(header.attributes or ""),
        )
        return OK

    def delete(self, request: Request) -> Response:
        topic = TopicRequest.decode(request.command.ext).topic
        self._context.topics.delete(topic)
        self._context.topics.save()
        return OK

    def all_configs(self, _: Request) -> Response:
        return Response(body=topics_body(self._context.topics.all()).encode())

    def config(self, request: Request) -> Response:
        topic = TopicRequest.decode(request.command.ext).topic
        return Response(body=topic_body(self._context.topics.find(topic)).encode())

    def stats(self, request: Request) -> Response:
        topic = TopicRequest.decode(request.command.ext).topic
        config = self._context.topics.find(topic)
        table = {}
        for queue_id in range(config.queue_count):
            start, end = self._context.reading.offset_range(topic, queue_id)
            queue = MessageQueue(
                broker_name=self._context.broker_name, queue_id=queue_id, topic=topic
            )
            table[queue] = OffsetSpan(
                min_offset=start,
                max_offset=end,
                last_update_timestamp=self._context.reading.shown_ms(topic, queue_id, end - 1),
            )
        return Response(body=TopicStats(offset_table=table).encode())

    def consumed_by(self, request: Request) -> Response:
        topic = TopicRequest.decode(request.command.ext).topic
        groups = self._context.groups.consumer_groups_of(topic)
        return Response(body=GroupList(group_list=groups).encode())

    def system_topics(self, _: Request) -> Response:
        names = self._context.topics.system_names()
        return Response(body=TopicList(topic_list=names).encode())


def _attributes(changes: str) -> dict[str, str | None]:
    """`+name=value,-name` as values by name; None: to be removed."""
    found: dict[str, str | None] = {}
    for change in filter(None, changes.split(",")):
        name, _, value = change[1:].partition("=")
        if change[0] == "+" and name and value:
            found[name] = value
        elif change[0] == "-" and name:
            found[name] = None
        else:
            raise InvalidRequest(
                f"attributes: expected +name=value or -name, found {change!r:.80}",
                field="attributes",
            )
    return found
