"""Corners: what is inside, and their JSON."""

from __future__ import annotations

import pytest

from dueline.errors import InvalidRequest
from dueline.store.corner import CORNER_START, Corner


@pytest.mark.parametrize(
    ("due_ms", "seq", "is_inside"),
    [(4, 99, True), (5, 7, True), (5, 8, False), (6, 0, False), (4, 100, False), (0, 0, True)],
)
def test_corner_holds_what_is_before_horizon_and_end(
    due_ms: int, seq: int, is_inside: bool
) -> None:
    assert Corner(due_ms=5, seq=7, end=100).holds(due_ms, seq) is is_inside


def test_start_holds_nothing() -> None:
    assert not CORNER_START.holds(0, 0)


def test_json_is_read_back() -> None:
    corner = Corner(due_ms=5, seq=7, end=100)

    assert corner.to_json() == '{"due_ms": 5, "seq": 7, "end": 100}'
    assert Corner.from_json(corner.to_json()) == corner


@pytest.mark.parametrize("text", ["", "[]", "{}", '{"due_ms": 1, "seq": null, "end": 2}', "5"])
def test_other_json_is_refused(text: str) -> None:
    with pytest.raises(InvalidRequest, match="corner: expected JSON"):
        Corner.from_json(text)
