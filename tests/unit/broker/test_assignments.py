"""The broker divides queues as clients would."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import hypothesis
import hypothesis.strategies as st
import pytest
from tests.unit.broker.reading_world import reading_world

from dueline.broker.assignments import ANY_QUEUE, Assigned, part_of
from dueline.broker.group_configs import GroupConfig
from dueline.broker.groups import Consumption, Member
from dueline.client import consumer
from dueline.errors import BrokerError, LimitExceeded


def average(count: int, clients: int, place: int) -> list[int]:
    """RocketMQ's AVG strategy, written out: one after the other, the first ones get one more."""
    sizes = [count // clients] * clients
    for number in range(count % clients):
        sizes[number] += 1
    start = sum(sizes[:place])
    return list(range(start, start + sizes[place]))


@hypothesis.given(st.integers(0, 40), st.integers(1, 12), st.data())
def test_parts_are_those_of_the_average_strategy(
    count: int, clients: int, data: st.DataObject
) -> None:
    place = data.draw(st.integers(0, clients - 1))
    names = [f"c{number:02}" for number in range(clients)]

    assert part_of(range(count), names, names[place]) == average(count, clients, place)
    assert consumer.part_of(range(count), names, names[place]) == average(count, clients, place)


def test_stranger_gets_nothing() -> None:
    assert part_of([1, 2], ["a"], "b") == []


def test_clients_that_pull_divide_the_queues_and_those_that_pop_share_them(tmp_path: Path) -> None:
    with reading_world(tmp_path) as world:
        broker, divided = world.broker, world.broker.assignments
        broker.topics.for_send("t", queue_count=4)
        broker.consumer_groups.ensure("g")
        for client_id in ("a", "b"):
            member = Member(client_id=client_id, channel=client_id)
            broker.groups.consumer("g", member, Consumption(), ())

        assert list(divided.assigned("g", "t", "b", is_broadcast=False).queue_ids) == [2, 3]
        assert list(divided.assigned("g", "t", "b", is_broadcast=True).queue_ids) == [0, 1, 2, 3]
        assert list(divided.assigned("nobody", "t", "b", is_broadcast=False).queue_ids) == []

        divided.set_mode("g", "t", "POP")
        divided.set_mode("g", "%RETRY%g", "POP")
        popped = divided.assigned("g", "t", "b", is_broadcast=False)
        assert popped == Assigned(mode="POP", queue_ids=[ANY_QUEUE])
        assert divided.assigned("g", "%RETRY%g", "a", is_broadcast=False).mode == "PULL"


def test_clients_that_receive_share_all_queues_and_are_told_each_where_order_matters(
    tmp_path: Path,
) -> None:
    with reading_world(tmp_path) as world:
        broker, divided = world.broker, world.broker.assignments
        config = broker.topics.for_send("t", queue_count=4)
        broker.group_table.put(GroupConfig(group_name="ordered", consume_message_orderly=True))

        assert list(divided.shared("g", "t")) == [ANY_QUEUE]
        assert list(divided.shared("ordered", "t")) == [0, 1, 2, 3]

        broker.topics.put(replace(config, read_queue_nums=0))
        with pytest.raises(BrokerError) as caught:
            divided.shared("g", "t")
        assert caught.value.details["what"] == "permission"


def test_modes_that_cannot_be_are_refused_and_the_others_are_bounded(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("dueline.broker.assignments.MODES_SIZE_BYTES_MAX", 2_000)
    with reading_world(tmp_path) as world:
        set_mode: Callable[[str, str, str], None] = world.broker.assignments.set_mode
        for group, topic, mode in (("g", "t", "PUSH"), ("a b", "t", "POP"), ("g", "a b", "POP")):
            with pytest.raises(BrokerError):
                set_mode(group, topic, mode)
        for number in range(3):
            set_mode("g", f"t{number}", "POP")
        with pytest.raises(LimitExceeded):
            set_mode("g", "t3", "POP")
        set_mode("g", "t0", "PULL")  # a known one may always be changed
