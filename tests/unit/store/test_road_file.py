"""The file of the rules: there and back, and damage is refused."""

from __future__ import annotations

from pathlib import Path

import pytest

from dueline.errors import InvalidRequest
from dueline.store import Files, road_file
from dueline.store.road import RoadRule

RULES = {"a": RoadRule(is_paused=True), "b": RoadRule(rate=5, expiry_ms=1000, resumed_ms=7)}


def test_rules_come_back_as_they_were(tmp_path: Path) -> None:
    assert road_file.load(Files(), tmp_path) == {}
    road_file.save(Files(), tmp_path, {**RULES, "c": RoadRule()})
    assert road_file.load(Files(), tmp_path) == RULES


@pytest.mark.parametrize(
    "text",
    [
        "",
        "[]",
        '{"rules": 5}',
        '{"rules": {"a": {"rate": "x"}}}',
        '{"rules": {"a": {"rate": 0}}}',
        '{"rules": {"a": {"rate": true}}}',
        '{"rules": {"a": {"speed": 5}}}',
        '{"rules": {"a": {"is_paused": 1}}}',
    ],
)
def test_damage_is_refused_with_what_to_do(tmp_path: Path, text: str) -> None:
    (tmp_path / "road.json").write_text(text)
    with pytest.raises(InvalidRequest, match=r"road\.json: "):
        road_file.load(Files(), tmp_path)
