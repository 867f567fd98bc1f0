"""Comparisons under NOT, AND and OR, where values are missing."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pytest
from tests.unit.broker.waiting.waiting_world import WaitingWorld

from dueline.broker.waiting.columns import Columns
from dueline.broker.waiting.conditions import (
    All,
    Begins,
    Compare,
    Condition,
    Contains,
    Either,
    IsIn,
    IsNull,
    Like,
    Not,
)

EU = Compare(column="property", detail="region", sign="=", value="eu")
NO_REGION = IsNull(column="property", detail="region")


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> Iterator[WaitingWorld]:
    world = WaitingWorld(tmp_path_factory.mktemp("conditions"))
    yield world
    world.store.close()


def met(world: WaitingWorld, condition: Condition) -> list[int]:
    survey = world.store.survey()
    rows = survey.find(np.arange(60, dtype=np.int64))
    columns = Columns(survey, rows, with_records=condition.needs_records)
    found = condition.meets(columns).fill_null(False).to_numpy(zero_copy_only=False)
    return [int(number) for number in columns.rows.units.seq[found]]


@pytest.mark.parametrize(
    ("condition", "is_meant"),
    [
        (All(), lambda each: True),
        (EU, lambda each: each.region == "eu"),
        (Not(part=EU), lambda each: each.region == "us"),
        (NO_REGION, lambda each: not each.region),
        (Not(part=NO_REGION), lambda each: bool(each.region)),
        (Either(parts=(EU, NO_REGION)), lambda each: each.region != "us"),
        (Not(part=Either(parts=(EU, NO_REGION))), lambda each: each.region == "us"),
        (All(parts=(EU, Compare(column="tag", sign="<>", value="a"))),
         lambda each: each.region == "eu" and each.tags == "b"),
        (IsIn(column="property", detail="region", values=("eu", "xx")),
         lambda each: each.region == "eu"),
        (Not(part=IsIn(column="property", detail="region", values=("eu",))),
         lambda each: each.region == "us"),
        (Like(column="key", pattern="%-1_"), lambda s: bool(s.keys) and 10 <= s.number < 20),
        (Begins(column="key", text="al"), lambda each: bool(each.keys)),
        (Contains(column="body", text="äö"), lambda each: True),
        (Contains(column="body", text="%"), lambda each: False),
        (Compare(column="size", sign=">", value=1 << 40), lambda each: False),
        (Compare(column="number", sign="<=", value=3), lambda each: each.number <= 3),
    ],
)  # fmt: skip
def test_rows_that_meet_a_condition(world: WaitingWorld, condition: Condition, is_meant) -> None:  # type: ignore[no-untyped-def]
    wanted: list[int] = world.numbers(is_meant)
    assert met(world, condition) == wanted


def test_only_some_columns_need_the_record() -> None:
    assert EU.needs_records
    assert not Compare(column="due", sign="=", value=1).needs_records
    assert Not(part=All(parts=(EU,))).needs_records
