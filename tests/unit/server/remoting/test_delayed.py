"""Dueline's own requests over the 4.x port: delayed messages found, counted, moved, cancelled."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from tests.unit.broker.reading_world import START_MS
from tests.unit.server.remoting.world import Client, RemotingWorld, body_of, remoting_world

from dueline.server.remoting import delayed as module
from dueline.server.remoting.delayed import DelayedMessages

CANCEL, RESCHEDULE, LOOK_UP, COUNT = 30_001, 30_002, 30_003, 30_004
INVALID = 29


@pytest.fixture
def world(tmp_path: Path) -> Iterator[RemotingWorld]:
    with remoting_world(tmp_path) as world:
        world.serve(DelayedMessages(world.context, world.hub).table())
        world.send(b"aaa", TIMER_DELAY_MS="60000", KEYS="a")
        world.send(b"bb", b"bb", topic="u", TIMER_DELAY_MS="70000", KEYS="b")
        yield world


def ask(world: RemotingWorld, code: int, **body: Any) -> Any:
    answer = world.client().ask(code, body=body)
    return body_of(answer) if answer.code == 0 else answer.code


def answers(found: Any) -> list[tuple[str, int]]:
    return [(each["answer"], each["count"]) for each in found["answers"]]


def test_each_key_has_its_answer(world: RemotingWorld) -> None:
    found = ask(world, CANCEL, keys=["a", "nobody", "b"])

    assert answers(found) == [("cancelled", 1), ("unknown", 0), ("cancelled", 2)]
    assert ask(world, COUNT)["count"] == 0


def test_messages_move_to_a_time_or_by_a_delay(world: RemotingWorld) -> None:
    moves = [{"key": "a", "dueMs": START_MS + 5_000}, {"key": "b", "delayMs": 1_000}]

    assert answers(ask(world, RESCHEDULE, moves=moves)) == [("rescheduled", 1), ("rescheduled", 2)]
    dues = {
        each["dueMs"]
        for key in "ab"
        for each in ask(world, LOOK_UP, key=key)["messages"]
        if each["state"] == "pending"
    }
    assert dues == {START_MS + 5_000, START_MS + 1_000}


@pytest.mark.parametrize(
    "move",
    [{}, {"dueMs": 1, "delayMs": 1}, {"dueMs": -1}, {"delayMs": -START_MS - 1}],
)
def test_a_move_says_when_in_one_way(world: RemotingWorld, move: dict[str, int]) -> None:
    assert ask(world, RESCHEDULE, moves=[{"key": "a", **move}]) == INVALID
    assert ask(world, LOOK_UP, key="a")["messages"][0]["dueMs"] == START_MS + 60_000


def test_a_message_is_described(world: RemotingWorld) -> None:
    (found,) = ask(world, LOOK_UP, key="a")["messages"]

    assert (found["topic"], found["queueId"], found["state"]) == ("t", 0, "pending")
    assert (found["keys"], found["bodySizeBytes"]) == ("a", 3)
    assert ask(world, LOOK_UP, key="nobody")["messages"] == []


def test_what_waits_is_counted_by_topic(world: RemotingWorld) -> None:
    found = ask(world, COUNT)

    assert (found["count"], found["topics"]) == (3, {"t": 1, "u": 2})
    assert found["nextDueMs"] == START_MS + 60_000
    assert ask(world, COUNT, topic="u")["count"] == 2


def test_requests_and_answers_are_bounded(
    world: RemotingWorld, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "NAME_COUNT_MAX", 1)
    monkeypatch.setattr(module, "FOUND_COUNT_MAX", 1)

    assert ask(world, CANCEL, keys=["a", "b"]) == INVALID
    assert ask(world, RESCHEDULE, moves=[{"key": "a", "delayMs": 1}] * 2) == INVALID
    assert len(ask(world, LOOK_UP, key="b")["messages"]) == 1
    assert ask(world, COUNT)["count"] == 3


def test_a_client_may_ask_again(world: RemotingWorld) -> None:
    client: Client = world.client()

    assert [client.ask(COUNT, body={}).code for _ in range(3)] == [0, 0, 0]
