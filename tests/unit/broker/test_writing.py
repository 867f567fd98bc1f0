"""What goes to the writer together, and when the tables are on disk before it."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.unit.broker.sending_world import World

from dueline.broker.writing import Results, Writing, accepted
from dueline.errors import LimitExceeded, Unavailable
from dueline.message import Message


@pytest.fixture
def world(tmp_path: Path) -> Iterator[World]:
    world = World(tmp_path)
    yield world
    world.store.close()


@pytest.fixture
def writing(world: World) -> Writing:
    for topic in ("a", "b"):
        world.broker.topics.for_send(topic)
    world.broker.save()
    return Writing(world.broker.put, world.loop, topics=world.broker.topics, save=world.broker.save)


def write(writing: Writing, *bodies: bytes, topic: str = "a") -> list[Results | BaseException]:
    """Where the answer will be."""
    answers: list[Results | BaseException] = []
    messages = [Message(topic=topic, body=body) for body in bodies]
    writing.write(messages, answers.append, sum(map(len, bodies)))
    return answers


def bodies(world: World) -> list[list[bytes]]:
    return [[message.body for message in group] for group in world.groups]


def test_what_is_sent_in_one_turn_goes_to_the_writer_together(
    world: World, writing: Writing
) -> None:
    first, second = write(writing, b"1", b"2"), write(writing, b"3", topic="b")
    assert world.groups == []

    world.loop.turn()
    assert bodies(world) == [[b"1", b"2", b"3"]]
    assert not first  # the answers come in a turn of their own

    world.loop.turn()
    assert isinstance(first[0], list)
    assert isinstance(second[0], list)
    places = [(each.topic, each.queue_offset) for each in accepted([*first[0], *second[0]])]
    assert places == [("a", 0), ("a", 1), ("b", 0)]


def test_many_messages_under_way_are_remembered_for_a_while(world: World, writing: Writing) -> None:
    write(writing, *[b"x"] * 40)
    write(writing, *[b"y"] * 40, topic="b")
    world.loop.turn()
    assert writing.had_many(64)  # not answered yet

    world.loop.turn()
    assert writing.had_many(64)
    for _ in range(100):
        writing.had_many(64)
    assert not writing.had_many(2)

    write(writing, b"z")
    world.loop.turn()
    assert not writing.had_many(2)  # those that were answered do not count


def test_a_turn_is_ended_when_it_has_grown_large(world: World, writing: Writing) -> None:
    answers: list[Results | BaseException] = []
    writing.write([Message(topic="a", body=b"x")], answers.append, 5 << 20)

    assert bodies(world) == [[b"x"]]
    world.loop.turn()
    assert len(answers) == 1


def test_more_than_may_wait_is_written_as_far_as_there_is_room(
    world: World, writing: Writing
) -> None:
    world.room = 1
    small, large = write(writing, b"1"), write(writing, b"2", b"3")

    world.loop.settle()

    assert bodies(world) == [[b"1"]]
    assert isinstance(small[0], list)
    assert isinstance(large[0], LimitExceeded)


def test_a_stopping_broker_answers_that_it_stops(world: World, writing: Writing) -> None:
    answers = write(writing, b"1")
    world.broker.acceptance.end()

    world.loop.settle()

    assert isinstance(answers[0], Unavailable)
    assert world.groups == []


def test_an_answer_that_fails_keeps_nobody_else_from_theirs(
    world: World, writing: Writing, caplog: pytest.LogCaptureFixture
) -> None:
    def fail(_: object) -> None:
        raise RuntimeError("gone")

    writing.write([Message(topic="a", body=b"1")], fail, 1)
    answers = write(writing, b"2")

    world.loop.settle()

    assert isinstance(answers[0], list)
    assert "could not be passed on" in caplog.text


def test_messages_of_a_new_topic_wait_until_it_is_on_disk_in_their_order(
    world: World, writing: Writing
) -> None:
    world.broker.topics.for_send("new")
    first = write(writing, b"1", topic="new")
    later, other = write(writing, b"2", topic="new"), write(writing, b"x", topic="a")
    world.loop.turn()
    assert bodies(world) == [[b"x"]]

    world.loop.work()
    saved = json.loads((world.store.path / "config" / "topics.json").read_text())
    assert "new" in saved["topicConfigTable"]
    world.loop.settle()

    assert bodies(world) == [[b"x"], [b"1", b"2"]]
    assert all(isinstance(answer[0], list) for answer in (first, later, other))


def test_a_topic_that_is_changed_while_it_is_saved_is_saved_again(
    world: World, writing: Writing
) -> None:
    config = world.broker.topics.for_send("new")
    answers = write(writing, b"1", topic="new")
    world.loop.work()
    world.broker.topics.put(config)

    world.loop.turn()
    world.loop.turn()
    assert not answers
    assert world.groups == []

    world.loop.settle()
    assert isinstance(answers[0], list)


def test_what_cannot_be_saved_is_not_written(world: World) -> None:
    def save() -> None:
        raise Unavailable("the disk is full")

    writing = Writing(world.broker.put, world.loop, topics=world.broker.topics, save=save)
    world.broker.topics.for_send("new")
    answers = write(writing, b"1", topic="new")

    world.loop.settle()

    assert isinstance(answers[0], Unavailable)
    assert world.groups == []
