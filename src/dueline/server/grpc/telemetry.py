"""Telemetry, Heartbeat and NotifyClientTermination: how a client comes, stays and goes.

On its telemetry stream a client says its settings and gets them back with the broker's values in
them; it waits for that before it starts. The stream stays open, for commands to the client.

Clients read the settings with traps of their own: they need an exponential backoff as producers
and a list of steps as consumers, whole seconds for polling, and a status beside the settings.
"""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any, Final

from dueline.broker.consumer_offsets import check_group
from dueline.budget import check_size
from dueline.errors import BrokerError
from dueline.message import TOPIC_SIZE_MAX
from dueline.server.grpc.call import Call
from dueline.server.grpc.clients import PUBLISHED_COUNT_MAX
from dueline.server.grpc.codes import Code, Refused, ok, status
from dueline.server.grpc.convert import name_of, set_time
from dueline.server.grpc.parts import Parts, client_id_of
from dueline.server.grpc.schema import ENUMS
from dueline.server.grpc.stubs import message_class

__all__ = ["Telemetry"]

_Command: Final = message_class("TelemetryCommand")
_Heartbeat: Final = message_class("HeartbeatResponse")
_Termination: Final = message_class("NotifyClientTerminationResponse")

_CONSUMERS: Final = {
    ENUMS["ClientType"][name] for name in ("PUSH_CONSUMER", "SIMPLE_CONSUMER", "PULL_CONSUMER")
}


class Telemetry:
    """The methods about clients themselves."""

    def __init__(self, parts: Parts) -> None:
        self._parts = parts

    async def telemetry(self, commands: AsyncIterator[Any], call: Call) -> None:
        """One client's stream, for as long as it lasts."""
        client_id = client_id_of(call)
        self._parts.clients.opened(client_id, call.push)
        try:
            async for command in commands:
                if command.WhichOneof("command") == "settings":
                    call.write(self._answer(client_id, command.settings))
                    await call.flushed()  # the next is read when this one was
        finally:
            self._parts.clients.closed(client_id, call.push)

    def _answer(self, client_id: str, settings: Any) -> Any:
        try:
            self._note(client_id, settings)
            answer = _Command(status=ok())
            answer.settings.CopyFrom(self._merged(settings))
        except BrokerError as error:
            answer = _Command(status=status(error))
        return answer

    def _note(self, client_id: str, settings: Any) -> None:
        client = self._parts.clients.get(client_id)
        if client is None:
            return
        client.client_type = settings.client_type
        client.seen_ms = self._parts.now_ms()
        if settings.HasField("publishing"):
            topics = settings.publishing.topics[:PUBLISHED_COUNT_MAX]
            self._parts.clients.publishes(client, frozenset(map(name_of, topics)))
            if topics:
                check_size("namespace", topics[0].resource_namespace, TOPIC_SIZE_MAX)
                client.namespace = topics[0].resource_namespace
        if settings.HasField("subscription"):
            group = name_of(settings.subscription.group)
            check_group(group)
            client.group = group

    def _merged(self, settings: Any) -> Any:
        """The client's settings with the broker's values in them."""
        merged = type(settings)()
        merged.CopyFrom(settings)
        merged.metric.Clear()
        merged.metric.on = False
        if settings.HasField("publishing"):
            self._set_producer(merged)
        elif settings.HasField("subscription"):
            self._set_consumer(merged)
        else:
            raise Refused(
                Code.UNRECOGNIZED_CLIENT_TYPE,
                "settings: expected those of a producer or of a consumer, found neither",
            )
        return merged

    def _set_producer(self, settings: Any) -> None:
        publishing = settings.publishing
        publishing.max_body_size = self._parts.broker.store_options.body_size_max
        publishing.validate_message_type = True
        policy = settings.backoff_policy
        policy.max_attempts = 3
        set_time(policy.exponential_backoff.initial, 10)
        set_time(policy.exponential_backoff.max, 1_000)
        policy.exponential_backoff.multiplier = 2.0

    def _set_consumer(self, settings: Any) -> None:
        group = name_of(settings.subscription.group)
        config = self._parts.broker.consumer_groups.ensure(group)
        options = self._parts.options
        subscription = settings.subscription
        subscription.fifo = bool(config.consume_message_orderly)
        subscription.receive_batch_size = options.receive_count_max
        set_time(subscription.long_polling_timeout, options.polling_ms_default)
        policy = settings.backoff_policy
        policy.max_attempts = self._parts.broker.receiving.attempt_max(group)
        del policy.customized_backoff.next[:]
        for step_ms in self._parts.broker.options.retries.backoff_ms:
            set_time(policy.customized_backoff.next.add(), step_ms)

    async def heartbeat(self, request: Any, call: Call) -> Any:
        client = self._parts.clients.get(client_id_of(call))
        if client is not None:
            client.seen_ms = self._parts.now_ms()
        if request.client_type in _CONSUMERS:
            self._parts.broker.consumer_groups.ensure(name_of(request.group))
            await self._parts.saved()
        return _Heartbeat(status=ok())

    async def notify_client_termination(self, request: Any, call: Call) -> Any:
        self._parts.clients.terminated(client_id_of(call))
        return _Termination(status=ok())
