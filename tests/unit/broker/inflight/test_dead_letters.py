"""Dead letters are written first and acknowledged after that."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.unit.broker.inflight.house import House, bodies

from dueline.broker.inflight import Held, Outcomes
from dueline.broker.inflight.dead_letters import DeadLetters
from dueline.errors import LimitExceeded, OutcomeUnknown, StoreClosed


@pytest.fixture
def house(tmp_path: Path) -> Iterator[House]:
    made = House(tmp_path)
    yield made
    made.close()


def forward(house: House, held: list[Held]) -> Outcomes:
    answers: list[Outcomes] = []
    letters = DeadLetters(house.broker.put, house.broker.inflight, house.broker.topics)
    letters.forward("g", "t", held, answers.append)
    if not answers:
        house.broker.inflight.flush()
    (outcomes,) = answers
    return outcomes


def test_many_are_written_together_and_then_done(house: House) -> None:
    house.send("a", "b", "c")
    first, second, _ = house.take()

    assert forward(house, [first, second]) == [None, None]

    assert [record.body for record, _ in house.stored("%DLQ%g")] == [b"a", b"b"]
    assert house.broker.inflight.held_count("g", "t") == 1


def test_attempts_of_both_protocols_are_counted(house: House) -> None:
    house.send("a")
    house.take(invisible_ms=1_000)
    house.clock.advance(1_000)

    forward(house, house.take())

    ((record, _),) = house.stored("%DLQ%g")
    assert record.reconsume_times == 2


def test_what_cannot_be_written_is_not_acknowledged(house: House) -> None:
    house.send("a")
    held = house.take()
    house.result_error = LimitExceeded("too large")

    assert forward(house, held) == [house.result_error]

    house.clock.advance(10_000)
    assert bodies(house.take()) == ["a"]


def test_written_and_not_acknowledged_is_no_refusal(
    house: House, monkeypatch: pytest.MonkeyPatch
) -> None:
    house.send("a")
    held = house.take()
    monkeypatch.setattr("dueline.broker.inflight.log.GATHERED_COUNT_MAX", -1)

    (outcome,) = forward(house, held)

    assert isinstance(outcome, OutcomeUnknown)
    assert len(house.stored("%DLQ%g")) == 1


def test_closed_receipts_are_told(house: House) -> None:
    house.send("a")
    held = house.take()
    house.broker.inflight.close()

    (outcome,) = forward(house, held)

    assert isinstance(outcome, StoreClosed)
