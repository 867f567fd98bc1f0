"""When a stored message is due: one record, many records, and tables of levels that changed."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest

from dueline.schedule import DelayLevels
from dueline.store.due import LevelHistory, due_ms, row_due_ms, said_due_ms

LEVELS = DelayLevels((1_000, 5_000))

CASES = [
    ({"TIMER_OUT_MS": "1700"}, 1_700),
    ({"TIMER_OUT_MS": "1700", "DELAY": "2"}, 1_700),
    ({"TIMER_OUT_MS": "soon"}, 0),
    ({"TIMER_OUT_MS": "9" * 18}, 999_999_999_999_999_999),
    ({"TIMER_OUT_MS": "9" * 19}, 1 << 60),
    ({"DELAY": "1"}, 50 + 1_000),
    ({"DELAY": "2"}, 50 + 5_000),
    ({"DELAY": "7"}, 50 + 5_000),
    ({"DELAY": "0"}, 50 + 1_000),
    ({"DELAY": "x"}, 50 + 1_000),
    ({}, 50 + 1_000),
]


@pytest.mark.parametrize(("properties", "expected"), CASES)
def test_due_time_of_a_record(properties: dict[str, str], expected: int) -> None:
    assert due_ms(properties, 50, LEVELS) == expected


def test_many_records_are_due_when_each_of_them_is() -> None:
    texts = ["\x02".join(f"{name}\x01{value}" for name, value in each.items()) for each, _ in CASES]
    count = len(CASES)

    found = row_due_ms(
        pa.array([text.encode() for text in texts], pa.binary()),
        np.arange(count, dtype=np.int64),
        np.full(count, 50, dtype=">i8"),
        LevelHistory([(0, "1s 5s")]),
    )

    assert found.tolist() == [expected for _, expected in CASES]


def test_a_record_is_due_by_the_table_of_its_time() -> None:
    history = LevelHistory([(100, "2s"), (200, "3s")], default="1s")
    texts = pa.array([b"DELAY\x011"] * 4, pa.binary())

    found = row_due_ms(texts, np.array([99, 100, 199, 200]), np.zeros(4, dtype=np.int64), history)

    assert found.tolist() == [1_000, 2_000, 2_000, 3_000]


def test_a_table_is_noted_when_it_changes() -> None:
    history = LevelHistory([[0, "1s"]])

    history.note(10, "1s")
    history.note(20, "2s")

    assert history.entries() == [[0, "1s"], [20, "2s"]]
    assert len(history) == 2


@pytest.mark.parametrize(
    ("text", "expected"), [(None, None), ("1700", 1_700), ("soon", 0), ("-5", 0)]
)
def test_only_a_time_to_the_millisecond_is_said(text: str | None, expected: int | None) -> None:
    properties = {"DELAY": "2"} if text is None else {"TIMER_OUT_MS": text}

    assert said_due_ms(properties) == expected
