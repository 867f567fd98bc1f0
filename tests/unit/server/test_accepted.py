"""Sockets whose server is somebody else: counted, and ended when they are too many."""

import socket
from collections.abc import Iterator
from contextlib import ExitStack

import pytest

from dueline.server.accepted import Accepted
from dueline.server.connections import Connections


@pytest.fixture
def stack() -> Iterator[ExitStack]:
    with ExitStack() as made:
        yield made


def connected(
    listener: socket.socket, stack: ExitStack, count: int
) -> list[tuple[socket.socket, socket.socket]]:
    """Clients and what the listener accepted for them."""
    pairs = []
    for _ in range(count):
        client = stack.enter_context(socket.create_connection(listener.getsockname(), timeout=10))
        accepted, _ = listener.accept()
        stack.enter_context(accepted)
        pairs.append((client, accepted))
    return pairs


def is_ended(client: socket.socket) -> bool:
    client.setblocking(False)
    try:
        return client.recv(1) == b""
    except BlockingIOError:
        return False


def test_what_is_over_the_bound_is_ended_and_others_are_left_alone(stack: ExitStack) -> None:
    listener = stack.enter_context(socket.create_server(("127.0.0.1", 0)))
    other = stack.enter_context(socket.create_server(("127.0.0.1", 0)))
    ours, theirs = connected(listener, stack, 6), connected(other, stack, 3)
    connections = Connections(8)
    accepted = Accepted(connections, lambda: [listener.getsockname()[1]])

    accepted.look()

    assert connections.file_count == 6
    assert accepted.ended_count == 2
    assert sum(is_ended(client) for client, _ in ours) == 2
    assert not any(is_ended(client) for client, _ in theirs)


def test_within_the_bound_nothing_is_ended(stack: ExitStack) -> None:
    listener = stack.enter_context(socket.create_server(("127.0.0.1", 0)))
    pairs = connected(listener, stack, 4)
    accepted = Accepted(Connections(8), lambda: [listener.getsockname()[1]])

    accepted.look()

    assert accepted.ended_count == 0
    assert not any(is_ended(client) for client, _ in pairs)
