"""Who is connected: what each client said about itself, and the stream to reach it by.

A client opens one telemetry stream and says on it what it is (settings). It is *present* while it
has a stream; a stream that breaks is opened again by the client within a second or so. When it
stays away, `on_gone` is told, so that messages it would have gone on holding come again.

Used from the event loop only, but for `is_present`, which any thread may ask.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from typing import Any, Final

from dueline.broker.groups import CLIENT_ID_SIZE_MAX
from dueline.budget import Budget, check_size
from dueline.errors import LimitExceeded
from dueline.message import TOPIC_SIZE_MAX
from dueline.server.grpc.schema import ENUMS

__all__ = ["Client", "Clients", "Stream"]

CLIENTS_SIZE_BYTES_MAX: Final = 64 << 20
PUBLISHED_COUNT_MAX: Final = 1_000
_CLIENT_SIZE: Final = 2_048
_TOPIC_SIZE: Final = 160

PUSH_CONSUMER: Final = ENUMS["ClientType"]["PUSH_CONSUMER"]

Stream = Callable[[Any], None]
"""Sends a command to the client; raises LimitExceeded if it does not read."""


@dataclass(slots=True, kw_only=True)
class Client:
    """One client program's producer or consumer."""

    client_id: str
    client_type: int = 0
    group: str = ""
    topics: frozenset[str] = frozenset()
    """What a producer publishes to."""
    namespace: str = ""
    streams: list[Stream] = field(default_factory=list)
    seen_ms: int = 0


class Clients:
    """All clients of the port."""

    def __init__(
        self,
        *,
        count_max: int,
        gone_after_ms: int,
        on_gone: Callable[[str], None] = lambda client_id: None,
    ) -> None:
        self._count_max: Final = count_max
        self._gone_after_s: Final = gone_after_ms / 1_000
        self._clients: dict[str, Client] = {}
        self._timers: dict[str, asyncio.TimerHandle] = {}
        self.budget: Final = Budget("clients and their topics", CLIENTS_SIZE_BYTES_MAX)
        self._on_gone = on_gone

    def __len__(self) -> int:
        return len(self._clients)

    def get(self, client_id: str) -> Client | None:
        return self._clients.get(client_id)

    def is_present(self, client_id: str) -> bool:
        client = self._clients.get(client_id)
        return client is not None and bool(client.streams)

    def is_push_consumer(self, client_id: str) -> bool:
        client = self._clients.get(client_id)
        return client is not None and client.client_type == PUSH_CONSUMER

    def opened(self, client_id: str, stream: Stream) -> Client:
        """A client has opened a stream.

        Raises:
            LimitExceeded: too many clients.
        """
        client = self._clients.get(client_id)
        if client is None:
            if len(self._clients) >= self._count_max:
                raise LimitExceeded(
                    f"clients: expected at most {self._count_max}, found as many",
                    limit=self._count_max,
                    found=len(self._clients) + 1,
                )
            check_size("client id", client_id, CLIENT_ID_SIZE_MAX)
            client = Client(client_id=client_id)
            self.budget.take(_size(client))
            self._clients[client_id] = client
        client.streams.append(stream)
        self._cancel_timer(client_id)
        return client

    def publishes(self, client: Client, topics: frozenset[str]) -> None:
        """A producer has said where it publishes to; what it said before counts as well.

        Raises:
            InvalidRequest: a name that no topic has.
            LimitExceeded: too much for all clients together.
        """
        for topic in topics:
            check_size("topic", topic, TOPIC_SIZE_MAX)
        merged = client.topics | topics
        if len(merged) > PUBLISHED_COUNT_MAX:
            merged = topics
        if self._clients.get(client.client_id) is client:
            before = _size(client)
            self.budget.take(_size(replace(client, topics=merged)) - before)
        client.topics = merged

    def _remove(self, client_id: str) -> None:
        client = self._clients.pop(client_id, None)
        if client is not None:
            self.budget.give(_size(client))

    def closed(self, client_id: str, stream: Stream) -> None:
        """A stream has ended; its client has a moment to come back."""
        client = self._clients.get(client_id)
        if client is None or stream not in client.streams:
            return
        client.streams.remove(stream)
        if not client.streams:
            loop = asyncio.get_running_loop()
            self._cancel_timer(client_id)
            self._timers[client_id] = loop.call_later(
                self._gone_after_s, self._forget_if_absent, client_id
            )

    def terminated(self, client_id: str) -> None:
        """A client says that it ends."""
        self._cancel_timer(client_id)
        self._remove(client_id)
        self._on_gone(client_id)

    def producers_of(self, topic: str) -> Iterator[Client]:
        """Present clients that publish to a topic."""
        for client in list(self._clients.values()):
            if topic in client.topics and client.streams:
                yield client

    def stop(self) -> None:
        for timer in self._timers.values():
            timer.cancel()
        self._timers.clear()

    def _forget_if_absent(self, client_id: str) -> None:
        self._timers.pop(client_id, None)
        if not self.is_present(client_id):
            self._remove(client_id)
            self._on_gone(client_id)

    def _cancel_timer(self, client_id: str) -> None:
        timer = self._timers.pop(client_id, None)
        if timer is not None:
            timer.cancel()


def _size(client: Client) -> int:
    topics_size = sum(_TOPIC_SIZE + len(topic) for topic in client.topics)
    return _CLIENT_SIZE + 2 * len(client.client_id) + topics_size
