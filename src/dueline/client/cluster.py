"""Where topics are: routes from the name server, and a connection per broker.

Routes are asked for anew every 30 seconds and after a failure. A topic without a route has that of
`TBW102`, if the cluster creates topics by itself.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from time import monotonic
from typing import Final

from dueline.client.connection import AnyConnection, Dialling, Secured
from dueline.client.transport import AsyncTransport, Transport
from dueline.credentials import Credentials
from dueline.errors import BrokerError, InvalidRequest, LimitExceeded, NotFound, Unavailable
from dueline.schedule import DelayLevels
from dueline.tls import ClientTls
from dueline.wire import Command, RequestCode, ResponseCode
from dueline.wire.bodies import RouteData

__all__ = ["Cluster", "TopicQueue", "error_of"]

ROUTE_S_MAX: Final = 30.0
DEFAULT_TOPIC: Final = "TBW102"
DEFAULT_QUEUE_COUNT: Final = 4

_READ, _WRITE = 4, 2
_ERRORS: Final[Mapping[int, type[BrokerError]]] = {
    ResponseCode.SYSTEM_BUSY: LimitExceeded,
    ResponseCode.FLOW_CONTROL: LimitExceeded,
    ResponseCode.MESSAGE_ILLEGAL: InvalidRequest,
    ResponseCode.INVALID_PARAMETER: InvalidRequest,
    ResponseCode.ILLEGAL_OPERATION: InvalidRequest,
    ResponseCode.TOPIC_NOT_EXIST: NotFound,
    ResponseCode.SUBSCRIPTION_GROUP_NOT_EXIST: NotFound,
    ResponseCode.SERVICE_NOT_AVAILABLE: Unavailable,
    ResponseCode.GO_AWAY: Unavailable,
}


@dataclass(frozen=True, slots=True, kw_only=True, order=True)
class TopicQueue:
    """One queue of a topic, in the order in which all clients divide them."""

    topic: str
    broker_name: str
    queue_id: int


class Cluster:
    """Name servers and brokers."""

    def __init__(  # noqa: PLR0913 - where, and by keyword how
        self,
        name_servers: str,
        *,
        timeout_s: float,
        tls: ClientTls | None = None,
        credentials: Credentials | None = None,
        on_request: Callable[[Command], None] = lambda command: None,
        transport: Transport | None = None,
    ) -> None:
        """Nothing is connected yet.

        Args:
            transport: who opens connections and waits; None: asyncio.
            tls: None: as the environment says, see `dueline.tls`.
            credentials: who asks; None: the user that the environment names, or nobody.

        Raises:
            InvalidRequest: no name server, or certificates or a token that cannot be used.
        """
        self._name_servers = [each.strip() for each in name_servers.split(";") if each.strip()]
        if not self._name_servers:
            raise InvalidRequest("name server: expected host:port, found none")
        self.timeout_s: Final = timeout_s
        self.transport: Final = transport or AsyncTransport()
        found = tls or ClientTls.from_environment(os.environ)
        self._how = Dialling(
            timeout_s=timeout_s,
            secured=Secured.by(found) if found is not None else None,
            credentials=credentials or Credentials.from_environment(os.environ),
            on_request=on_request,
        )
        self._routes: dict[str, _Route] = {}

    async def close(self) -> None:
        await self.transport.disconnect()

    # Routes

    async def route(self, topic: str) -> RouteData:
        """Where a topic is.

        Raises:
            NotFound: no broker has it.
            Unavailable: no name server answers.
        """
        return (await self._route(topic)).data

    async def _route(self, topic: str) -> _Route:
        return self._fresh(topic) or await self._asked(topic)

    def _fresh(self, topic: str) -> _Route | None:
        """The route that is known and still counts."""
        known = self._routes.get(topic)
        is_fresh = known is not None and monotonic() - known.asked_s < ROUTE_S_MAX
        return known if is_fresh else None

    async def _asked(self, topic: str) -> _Route:
        now_s = monotonic()
        ext = {"topic": topic, "acceptStandardJsonOnly": "true"}
        answer = await self._ask_names(RequestCode.GET_ROUTE_INFO_BY_TOPIC, ext)
        if answer.code != ResponseCode.SUCCESS:
            self._routes.pop(topic, None)
            raise error_of(answer)
        route = self._routes[topic] = _Route(topic, RouteData.decode(answer.body), now_s)
        return route

    async def _ask_names(self, code: RequestCode, ext: dict[str, str]) -> Command:
        error: Unavailable | None = None
        for address in self._name_servers:
            try:
                connection = await self.connection(address)
                return await connection.call(code, ext, timeout_s=self.timeout_s)
            except Unavailable as failure:
                error = failure
        assert error is not None
        raise error

    def known_queues(self, topic: str) -> Sequence[TopicQueue]:
        """The queues to write to; none: they have to be asked for."""
        route = self._fresh(topic)
        return () if route is None else route.writing

    async def queues(self, topic: str, *, for_writing: bool = False) -> list[TopicQueue]:
        """The queues of a topic, in order; for writing also those it would have."""
        try:
            route = await self._route(topic)
            found = route.writing if for_writing else route.reading
        except NotFound:
            if not for_writing:
                raise
            default = await self.route(DEFAULT_TOPIC)
            found = _queues(topic, default, is_writing=True, count_max=DEFAULT_QUEUE_COUNT)
        if not found:
            raise NotFound(f"topic {topic}: expected queues, found none", what="topic")
        return found

    # Brokers

    def known_broker(self, topic: str, broker_name: str) -> AnyConnection | None:
        """The connection to a broker; None: it has to be found or opened."""
        route = self._fresh(topic)
        address = None if route is None else route.masters.get(broker_name)
        return None if address is None else self.transport.known(address)

    async def broker(self, topic: str, broker_name: str) -> AnyConnection:
        """A connection to a broker of a topic."""
        try:
            route = await self._route(topic)
        except NotFound:
            route = await self._route(DEFAULT_TOPIC)
        address = route.masters.get(broker_name)
        if address is None:
            raise Unavailable(f"broker {broker_name}: expected in the route of {topic}, found none")
        try:
            return await self.transport.connection(address, self._how)
        except Unavailable:
            self._routes.clear()  # it may be elsewhere by now
            raise

    async def brokers(self, topic: str) -> list[AnyConnection]:
        """Connections to all brokers of a topic."""
        route = await self._route(topic)
        return [await self.connection(address) for address in route.masters.values()]

    async def all_brokers(self) -> list[AnyConnection]:
        """Connections to all brokers that the name server knows."""
        # Imported here: the tools' bodies are many, and most clients need none of them.
        from dueline.wire.admin_bodies import ClusterInfo

        answer = await self._ask_names(RequestCode.GET_BROKER_CLUSTER_INFO, {})
        if answer.code != ResponseCode.SUCCESS:
            raise error_of(answer)
        brokers = ClusterInfo.decode(answer.body).broker_addr_table
        if not brokers:
            raise Unavailable("name server: expected brokers, found none")
        return [
            await self.connection(data.broker_addrs[0])
            for _, data in sorted(brokers.items())
            if 0 in data.broker_addrs
        ]

    async def levels(self, topic: str) -> DelayLevels:
        """The delay levels of a broker that has the topic, or would have it.

        Raises:
            BrokerError: it does not say, or there is no broker yet.
        """
        name = (await self.queues(topic, for_writing=True))[0].broker_name
        connection = await self.broker(topic, name)
        answer = await connection.call(RequestCode.GET_BROKER_CONFIG, timeout_s=self.timeout_s)
        if answer.code != ResponseCode.SUCCESS:
            raise error_of(answer)
        for line in answer.body.decode("utf-8", "replace").splitlines():
            name, _, value = line.partition("=")
            if name == "messageDelayLevel":
                return DelayLevels.parse(value)
        raise NotFound("broker: expected messageDelayLevel in its settings, found none")

    async def connection(self, address: str) -> AnyConnection:
        """The connection to an address, opened if need be."""
        return await self.transport.connection(address, self._how)


class _Route:
    """A route as it was found, and the queues that it says, in order."""

    def __init__(self, topic: str, data: RouteData, asked_s: float) -> None:
        self.data: Final = data
        self.asked_s: Final = asked_s
        self.masters: Final = {
            each.broker_name: each.broker_addrs[0]
            for each in data.broker_datas
            if 0 in each.broker_addrs
        }
        self.reading: Final = _queues(topic, data, is_writing=False)
        self.writing: Final = _queues(topic, data, is_writing=True)


def _queues(
    topic: str, route: RouteData, *, is_writing: bool, count_max: int = 1 << 16
) -> list[TopicQueue]:
    masters = {data.broker_name for data in route.broker_datas if 0 in data.broker_addrs}
    found = []
    for data in route.queue_datas:
        count = data.write_queue_nums if is_writing else data.read_queue_nums
        if data.broker_name in masters and data.perm & (_WRITE if is_writing else _READ):
            found += [
                TopicQueue(topic=topic, broker_name=data.broker_name, queue_id=queue_id)
                for queue_id in range(min(count, count_max))
            ]
    return sorted(found)


def error_of(answer: Command) -> BrokerError:
    """The error that a response code says."""
    kind = _ERRORS.get(answer.code, BrokerError)
    return kind(f"{answer.remark or 'refused'} (code {answer.code})", code=answer.code)
