"""The name server: where topics are, which brokers there are. One broker: this one.

Clients ask for a topic's route every 30 seconds. A topic without a route is answered with 17; a
producer then asks for TBW102, whose route says that a send may create the topic.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from dueline.budget import Budget
from dueline.errors import NotFound
from dueline.server.remoting.answers import OK, Refused, Response
from dueline.server.remoting.channel import Channel, Request
from dueline.server.remoting.context import Context
from dueline.server.remoting.hub import Handler, Hub, blocking
from dueline.wire.admin_bodies import ClusterInfo, KeyValues, TopicList
from dueline.wire.admin_headers import (
    AddWritePermissionResponse,
    BrokerNameRequest,
    ClusterRequest,
    DeleteTopicRequest,
    KeyRequest,
    KeyValueRequest,
    NamespaceRequest,
    ValueResponse,
    WipeWritePermissionResponse,
)
from dueline.wire.bodies import BrokerData, QueueData, RouteData
from dueline.wire.codes import RequestCode, ResponseCode
from dueline.wire.headers import RouteRequest

__all__ = ["NameServer"]

VALUES_SIZE_BYTES_MAX: Final = 4 << 20
_VALUE_SIZE: Final = 512


class NameServer:
    """Handlers of the name server's port."""

    def __init__(self, context: Context, hub: Hub) -> None:
        self._context = context
        self._hub = hub
        self._values: dict[tuple[str, str], str] = {}
        self.budget: Final = Budget("key and value pairs", VALUES_SIZE_BYTES_MAX)

    def table(self) -> Mapping[int, Handler]:
        return {
            RequestCode.GET_ROUTE_INFO_BY_TOPIC: self.route,
            RequestCode.GET_BROKER_CLUSTER_INFO: self.cluster,
            RequestCode.GET_ALL_TOPIC_LIST_FROM_NAME_SERVER: blocking(self._hub, self.topic_list),
            RequestCode.GET_TOPICS_BY_CLUSTER: blocking(self._hub, self.topics_by_cluster),
            RequestCode.GET_SYSTEM_TOPIC_LIST_FROM_NAME_SERVER: blocking(
                self._hub, self.system_topics
            ),
            RequestCode.DELETE_TOPIC_IN_NAME_SERVER: self.delete_topic,
            RequestCode.PUT_KEY_VALUE_CONFIG: self.put_value,
            RequestCode.GET_KEY_VALUE_CONFIG: self.get_value,
            RequestCode.DELETE_KEY_VALUE_CONFIG: self.delete_value,
            RequestCode.LIST_KEY_VALUES_BY_NAMESPACE: self.values,
            RequestCode.GET_NAME_SERVER_CONFIG: self.config,
            RequestCode.WIPE_WRITE_PERMISSION_OF_BROKER: blocking(self._hub, self.wipe_permission),
            RequestCode.ADD_WRITE_PERMISSION_OF_BROKER: blocking(self._hub, self.add_permission),
        }

    def route(self, request: Request) -> Response:
        topic = RouteRequest.decode(request.command.ext).topic
        config = self._context.topics.get(topic)
        if config is None:
            raise NotFound(f"no topic route info for topic {topic[:200]}", what="topic")
        queues = QueueData(
            broker_name=self._context.broker_name,
            perm=config.perm,
            read_queue_nums=config.read_queue_nums,
            write_queue_nums=config.write_queue_nums,
            topic_sys_flag=config.topic_sys_flag,
        )
        route = RouteData(
            broker_datas=[self._broker(request.channel)],
            queue_datas=[queues],
            order_topic_conf=self._values.get(("ORDER_TOPIC_CONFIG", topic)),
        )
        return Response(body=route.encode())

    def _broker(self, channel: Channel) -> BrokerData:
        return BrokerData(
            broker_addrs={0: self._context.addresses.seen_from(channel)},
            broker_name=self._context.broker_name,
            cluster=self._context.cluster_name,
        )

    def cluster(self, request: Request) -> Response:
        name = self._context.broker_name
        info = ClusterInfo(
            broker_addr_table={name: self._broker(request.channel)},
            cluster_addr_table={self._context.cluster_name: [name]},
        )
        return Response(body=info.encode())

    # Topics

    def topic_list(self, _: Request) -> Response:
        names = self._context.topics.names()
        return Response(body=TopicList(topic_list=names).encode())

    def topics_by_cluster(self, request: Request) -> Response:
        cluster = ClusterRequest.decode(request.command.ext).cluster
        if cluster != self._context.cluster_name:
            raise NotFound(
                f"cluster {cluster[:200]}: expected {self._context.cluster_name}, the only one here"
            )
        return self.topic_list(request)

    def system_topics(self, request: Request) -> Response:
        names = self._context.topics.system_names()
        names += [self._context.cluster_name, self._context.broker_name]
        address = self._context.addresses.seen_from(request.channel)
        return Response(body=TopicList(topic_list=names, broker_addr=address).encode())

    def delete_topic(self, request: Request) -> Response | None:
        """Tools delete a topic in the broker and then here; here there is one table for both."""
        topic = DeleteTopicRequest.decode(request.command.ext).topic
        if not self._context.topics.delete(topic):
            return OK
        self._context.saved(request, lambda: OK)
        return None

    # Permissions

    def wipe_permission(self, request: Request) -> Response:
        count = self._set_writable(request, is_writable=False)
        return Response(ext=WipeWritePermissionResponse(wipe_topic_count=count).encode())

    def add_permission(self, request: Request) -> Response:
        count = self._set_writable(request, is_writable=True)
        return Response(ext=AddWritePermissionResponse(add_topic_count=count).encode())

    def _set_writable(self, request: Request, *, is_writable: bool) -> int:
        if BrokerNameRequest.decode(request.command.ext).broker_name != self._context.broker_name:
            return 0
        return self._context.topics.set_writable(is_writable)

    # Key and value pairs: kept in memory, for the tools that write some before they delete topics

    def put_value(self, request: Request) -> Response:
        header = KeyValueRequest.decode(request.command.ext)
        place = (header.namespace, header.key)
        known = self._size(place)
        self.budget.take(_VALUE_SIZE + sum(map(len, (*place, header.value))) - known)
        self._values[place] = header.value
        return OK

    def _size(self, place: tuple[str, str]) -> int:
        """What a pair takes, if there is one."""
        value = self._values.get(place)
        return 0 if value is None else _VALUE_SIZE + sum(map(len, (*place, value)))

    def get_value(self, request: Request) -> Response:
        header = KeyRequest.decode(request.command.ext)
        value = self._values.get((header.namespace, header.key))
        if value is None:
            raise Refused(
                ResponseCode.QUERY_NOT_FOUND,
                f"no value for {header.key[:200]} in {header.namespace[:200]}",
            )
        return Response(ext=ValueResponse(value=value).encode())

    def delete_value(self, request: Request) -> Response:
        header = KeyRequest.decode(request.command.ext)
        self.budget.give(self._size((header.namespace, header.key)))
        self._values.pop((header.namespace, header.key), None)
        return OK

    def values(self, request: Request) -> Response:
        wanted = NamespaceRequest.decode(request.command.ext).namespace
        found = {
            key: value for (namespace, key), value in self._values.items() if namespace == wanted
        }
        if not found:
            raise Refused(ResponseCode.QUERY_NOT_FOUND, f"no values in {wanted[:200]}")
        return Response(body=KeyValues(table=found).encode())

    def config(self, _: Request) -> Response:
        port = self._context.addresses.port
        text = f"listenPort={port}\nbrokerName={self._context.broker_name}\n"
        return Response(body=text.encode())
