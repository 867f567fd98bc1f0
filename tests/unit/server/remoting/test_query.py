"""Messages by key, by unique id and by position; delayed ones are taken back."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.unit.broker.reading_world import START_MS
from tests.unit.server.remoting.world import Client, RemotingWorld, remoting_world

from dueline.recall_handle import RecallHandle
from dueline.server.remoting import query as module
from dueline.server.remoting.query import Queries
from dueline.wire import Command, RequestCode

NOT_FOUND = 22


@pytest.fixture
def world(tmp_path: Path) -> Iterator[RemotingWorld]:
    with remoting_world(tmp_path) as world:
        world.serve(Queries(world.context, world.hub).table())
        yield world


def query(client: Client, key: str, count: int = 10, **ext: object) -> Command:
    wanted = {"topic": "t", "key": key, "maxNum": count, "beginTimestamp": 0}
    return client.ask(RequestCode.QUERY_MESSAGE, {**wanted, "endTimestamp": 1 << 50, **ext})


def sizes(answer: Command) -> list[int]:
    """The sizes of the records in a body: each begins with its own."""
    found, at = [], 0
    while at < len(answer.body):
        found.append(int.from_bytes(answer.body[at : at + 4], "big"))
        at += found[-1]
    return found


def test_messages_are_found_by_key_within_a_time(world: RemotingWorld) -> None:
    world.send(b"one", b"two", KEYS="k")
    world.clock.advance(5_000)
    (late,) = world.send(b"late", KEYS="k")
    client = world.client()

    answer = query(client, "k")
    assert (answer.code, len(sizes(answer))) == (0, 3)
    assert int(answer.ext["indexLastUpdateTimestamp"]) == START_MS + 5_000
    assert int(answer.ext["indexLastUpdatePhyoffset"]) == late.position
    early = query(client, "k", endTimestamp=START_MS + 4_999)
    assert len(sizes(early)) == 2
    assert b"late" not in early.body
    assert query(client, "other").code == NOT_FOUND


def test_a_query_is_bounded_in_messages_and_bytes(
    world: RemotingWorld, monkeypatch: pytest.MonkeyPatch
) -> None:
    world.send(*[b"x" * 100] * 70, KEYS="k")
    client = world.client()

    assert len(sizes(query(client, "k", 3))) == 3
    assert len(sizes(query(client, "k", 1_000))) == 64
    assert len(sizes(query(client, "k", 0))) == 1
    assert len(sizes(query(client, "k", 1, _UNIQUE_KEY_QUERY=True))) <= 32
    size = sizes(query(client, "k", 1))[0]
    monkeypatch.setattr(module, "SIZE_BYTES_MAX", 3 * size)
    assert len(sizes(query(client, "k"))) == 3
    monkeypatch.setattr(module, "SIZE_BYTES_MAX", 1)
    assert len(sizes(query(client, "k"))) == 1, "one always fits"


def test_a_message_is_shown_by_its_position(world: RemotingWorld) -> None:
    (sent,) = world.send(b"the body")
    client = world.client()

    answer = client.ask(RequestCode.VIEW_MESSAGE_BY_ID, {"offset": sent.position})
    assert b"the body" in answer.body
    assert client.ask(RequestCode.VIEW_MESSAGE_BY_ID, {"offset": 1 << 30}).code != 0


def test_a_delayed_message_is_taken_back(world: RemotingWorld) -> None:
    (sent,) = world.send(b"later", TIMER_DELAY_MS="5000")
    handle = RecallHandle(
        topic="t",
        broker_name=world.context.broker_name,
        due_ms=START_MS + 5_000,
        unique_id=sent.unique_id,
    ).encode()
    client = world.client()

    answer = client.ask(RequestCode.RECALL_MESSAGE, {"topic": "t", "recallHandle": handle})
    assert (answer.code, answer.ext.get("msgId")) == (0, sent.unique_id)
    assert world.store.pending_count() == 0
    again = client.ask(RequestCode.RECALL_MESSAGE, {"topic": "t", "recallHandle": handle})
    assert again.code == 0, "a client that did not hear the answer asks again"
    other = client.ask(RequestCode.RECALL_MESSAGE, {"topic": "u", "recallHandle": handle})
    assert other.code != 0
