"""Undecided half messages: one schedule, whichever protocol reaches their producers."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from functools import partial
from pathlib import Path

import pytest
from tests.unit.broker.sending_world import START_MS, World

from dueline.broker import BrokerOptions
from dueline.broker.asking import Ask, Question
from dueline.broker.names import UNDECIDED_TOPIC
from dueline.broker.transactions import Half, TransactionOptions
from dueline.store import PutResult
from dueline.store import record as records

OPTIONS = TransactionOptions(first_ask_ms=6_000, ask_interval_ms=30_000, ask_count_max=2)
FIRST_MS = START_MS + 6_000


class Door:
    """Reaches the producers of a group, or of a topic; remembers whom it asked."""

    def __init__(self, *names: str, by_topic: bool = False) -> None:
        self.names = list(names)
        self.by_topic = by_topic
        self.asked: list[tuple[str, Question]] = []

    def producers(self, half: Half) -> Iterable[Ask]:
        if self.by_topic and not half.is_of_topic:
            return
        for name in self.names:
            yield partial(self._ask, name)

    def _ask(self, name: str, question: Question) -> None:
        self.asked.append((name, question))

    @property
    def whom(self) -> list[str]:
        return [name for name, _ in self.asked]


@pytest.fixture
def world(tmp_path: Path) -> Iterator[World]:
    world = World(tmp_path, BrokerOptions(transactions=OPTIONS))
    yield world
    world.store.close()


def half(world: World, group: str = "pg", **properties: str) -> PutResult:
    return world.accepted("orders", b"half", TRAN_MSG="true", PGROUP=group, **properties)


def turn(world: World, at_ms: int) -> None:
    world.broker.asking.turn(at_ms)


def test_producer_is_asked_after_a_while_and_again_after_the_interval(world: World) -> None:
    door = Door("a")
    world.broker.asking.add_door(door.producers)
    half(world)

    for at_ms in (FIRST_MS - 1, FIRST_MS, FIRST_MS + 29_999, FIRST_MS + 30_000):
        turn(world, at_ms)
        turn(world, at_ms)

    assert door.whom == ["a", "a"]


def test_question_shows_the_message_as_its_producer_knows_it(world: World) -> None:
    door = Door("a")
    world.broker.asking.add_door(door.producers)
    sent = half(world, KEYS="k", UNIQ_KEY="u")

    turn(world, FIRST_MS)

    ((_, question),) = door.asked
    record = question.record
    assert (record.topic, record.queue_id) == (b"orders", 0)
    assert (record.position, record.queue_offset) == (sent.position, sent.queue_offset)
    assert records.decode(record.encode()) == record
    assert (question.properties["KEYS"], question.unique_id) == ("k", "u")
    assert (question.topic, question.offset_id) == ("orders", sent.message_id)


def test_producers_of_all_doors_are_asked_in_turn(world: World) -> None:
    by_group, by_topic = Door("a", "b"), Door("c", by_topic=True)
    for door in (by_group, by_topic):
        world.broker.asking.add_door(door.producers)
    for _ in range(3):
        half(world, group="orders")

    turn(world, FIRST_MS)

    assert sorted(by_group.whom + by_topic.whom) == ["a", "b", "c"]


def test_producers_of_a_topic_are_not_asked_for_messages_of_a_group(world: World) -> None:
    door = Door("c", by_topic=True)
    world.broker.asking.add_door(door.producers)
    half(world, group="pg")
    half(world, group="orders")

    turn(world, FIRST_MS)

    assert [question.properties["PGROUP"] for _, question in door.asked] == ["orders"]


def test_producer_that_comes_later_is_asked_soon(world: World) -> None:
    door = Door()
    world.broker.asking.add_door(door.producers)
    half(world)
    turn(world, FIRST_MS)
    door.names.append("late")

    turn(world, FIRST_MS + 999)
    assert door.whom == []
    turn(world, FIRST_MS + 1_000)
    assert door.whom == ["late"]


def test_message_that_was_asked_for_in_vain_is_given_up(world: World) -> None:
    door = Door("a")
    world.broker.asking.add_door(door.producers)
    half(world)

    for number in range(10):
        turn(world, FIRST_MS + number * 30_000)

    assert door.whom == ["a"] * OPTIONS.ask_count_max
    (aside,) = world.read(UNDECIDED_TOPIC)
    assert aside.body == b"half"


@pytest.mark.parametrize("group", ["pg", "orders"])
def test_message_whose_producers_stay_away_is_given_up_in_the_end(world: World, group: str) -> None:
    half(world, group=group)

    turn(world, START_MS + OPTIONS.undecided_ms_max)
    assert world.read(UNDECIDED_TOPIC) == []
    turn(world, START_MS + OPTIONS.undecided_ms_max + 1_000)

    assert len(world.read(UNDECIDED_TOPIC)) == 1


def test_decided_message_is_not_asked_for(world: World) -> None:
    door = Door("a")
    world.broker.asking.add_door(door.producers)
    sent = half(world)
    world.broker.transactions.end(sent.position, commit=False, group="pg", done=lambda _: None)

    turn(world, FIRST_MS)

    assert door.whom == []
