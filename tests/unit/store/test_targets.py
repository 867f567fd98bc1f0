"""Where rows may go: every bad row is found, and the first one is named."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest

from dueline.errors import InvalidRequest
from dueline.store.targets import Targets, queue_id_faults


def test_rows_are_known_by_their_names() -> None:
    targets = Targets.of(pa.array(["b", "a", "b"]))

    targets.check()

    assert [targets.names[index] for index in targets.indices] == ["b", "a", "b"]
    assert targets.bad().tolist() == [False] * 3
    assert targets.reasons().to_pylist() == [None] * 3


@pytest.mark.parametrize("column", [["ok", "no good", None], [None, "ok"], ["", "ok"]])
def test_bad_rows_are_found_and_the_first_is_named(column: list[str | None]) -> None:
    targets = Targets.of(pa.array(column, pa.string()))
    expected = [name != "ok" for name in column]

    assert targets.bad().tolist() == expected
    assert [reason is not None for reason in targets.reasons().to_pylist()] == expected
    with pytest.raises(InvalidRequest, match=f"row {expected.index(True)}: topic"):
        targets.check()


def test_another_rule_may_be_asked() -> None:
    def only_a(name: str) -> None:
        if name != "a":
            raise InvalidRequest(f"not {name}")

    targets = Targets.of(pa.chunked_array([["a"], ["b"]]), only_a)

    assert targets.reasons().to_pylist() == [None, "not b"]


def test_no_rows_are_no_fault() -> None:
    Targets.of(pa.array([], pa.string())).check()


def test_queue_ids_have_a_range() -> None:
    found = queue_id_faults(np.array([-1, 0, 1023, 1024]))

    assert found.tolist() == [True, False, False, True]
