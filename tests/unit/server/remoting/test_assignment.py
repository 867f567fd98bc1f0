"""The broker divides queues as clients would."""

from __future__ import annotations

import hypothesis
import hypothesis.strategies as st

from dueline.client import consumer
from dueline.server.remoting.assignment import part_of


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
