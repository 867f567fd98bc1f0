"""How often a held message was tried."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest
from tests.unit.broker.inflight.house import House


@pytest.fixture
def house(tmp_path: Path) -> Iterator[House]:
    made = House(tmp_path)
    yield made
    made.close()


@pytest.mark.parametrize(
    ("refused", "attempt", "retries"),
    [(0, 1, 0), (0, 3, 2), (2, 1, 2), (2**31 - 1, 1, 2**31 - 1), (2**31 - 1, 5, 2**31 - 1)],
)
def test_retries_are_those_of_both_protocols_in_31_bits(
    house: House, refused: int, attempt: int, retries: int
) -> None:
    house.send("a")
    (held,) = house.take()
    record = replace(held.record, reconsume_times=refused)

    assert replace(held, record=record, attempt=attempt).retry_count == retries
