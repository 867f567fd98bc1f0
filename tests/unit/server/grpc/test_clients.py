"""What 5.x clients say about themselves is bounded in bytes, and forgotten with them."""

from __future__ import annotations

from typing import Any

import pytest

from dueline.errors import InvalidRequest, LimitExceeded
from dueline.server.grpc import clients as module
from dueline.server.grpc.clients import Clients


def stream(_: Any) -> None:
    """A stream that nobody reads."""


def topics_of(name: str, count: int = 100) -> frozenset[str]:
    return frozenset(f"{name}-{number}" + "t" * 80 for number in range(count))


def test_topics_of_clients_are_bounded_in_bytes(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "CLIENTS_SIZE_BYTES_MAX", 256 << 10)
    clients = Clients(count_max=100_000, gone_after_ms=1_000)

    def attack() -> None:
        for number in range(1_000):
            client = clients.opened(f"c{number}", stream)
            clients.publishes(client, topics_of(f"{number}"))

    with pytest.raises(LimitExceeded, match="expected at most 262144 bytes"):
        attack()

    assert clients.budget.size_bytes <= 256 << 10
    for number in range(len(clients)):
        clients.terminated(f"c{number}")
    assert (len(clients), clients.budget.size_bytes) == (0, 0)


def test_client_that_publishes_elsewhere_each_time_has_its_last_topics() -> None:
    clients = Clients(count_max=10, gone_after_ms=1_000)
    client = clients.opened("c", stream)

    for number in range(30):
        clients.publishes(client, topics_of(f"{number}"))

    assert client.topics >= topics_of("29")
    assert len(client.topics) <= 1_000


def test_names_longer_than_any_real_one_are_refused() -> None:
    clients = Clients(count_max=10, gone_after_ms=1_000)
    client = clients.opened("c", stream)

    with pytest.raises(InvalidRequest, match="topic"):
        clients.publishes(client, frozenset({"t" * 200}))
    with pytest.raises(InvalidRequest, match="client id"):
        clients.opened("c" * 2_000, stream)
    assert (len(clients), client.topics) == (1, frozenset())
