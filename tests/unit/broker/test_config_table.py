"""Tables of settings: their file, their bounds, and what a reader makes of odd JSON."""

from __future__ import annotations

import json
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pytest

from dueline.broker.config_table import ConfigTable, Form, entry_from_json, entry_to_json
from dueline.clock import Clock
from dueline.errors import InvalidRequest, LimitExceeded
from dueline.store import Files


@dataclass(frozen=True, slots=True, kw_only=True)
class Shop:
    shop_name: str
    door_count: int = 1
    is_open: bool | None = None
    labels: dict[str, str] | None = None
    anything: Any = None
    size_bytes: int = 10

    @property
    def name(self) -> str:
        return self.shop_name


FORM = Form(
    kind=Shop,
    one="shop",
    many="shops",
    key="shopTable",
    count_max=3,
    without_file="shops open again",
)


def make(folder: Path, now_ms: int = 1_000) -> ConfigTable[Shop]:
    path, clock = folder / "config" / "shops.json", Clock(lambda: now_ms)
    return ConfigTable(path, Files(), FORM, clock=clock, size_bytes_max=100_000)


def written(folder: Path) -> Any:
    return json.loads((folder / "config" / "shops.json").read_bytes())


def test_the_file_has_names_in_camel_case_and_a_version(tmp_path: Path) -> None:
    table = make(tmp_path)
    table.put(Shop(shop_name="a", door_count=2, labels={"x": "y"}))

    table.save()

    assert written(tmp_path) == {
        "dataVersion": {"counter": 1, "timestamp": 1_000},
        "shopTable": {
            "a": {"shopName": "a", "doorCount": 2, "labels": {"x": "y"}, "sizeBytes": 10}
        },
    }


def test_what_was_saved_is_there_again(tmp_path: Path) -> None:
    table = make(tmp_path)
    shops = [Shop(shop_name="a", is_open=True), Shop(shop_name="b", anything=[1, {"c": None}])]
    for shop in shops:
        table.put(shop)
    table.save()

    again = make(tmp_path)

    assert list(again.snapshot().entries.values()) == shops
    assert (again.snapshot().counter, again.is_saved) == (2, True)
    assert again.budget.size_bytes == 20


def test_only_what_changed_is_put_into_words_again_and_the_file_is_whole(tmp_path: Path) -> None:
    table = make(tmp_path)
    first = Shop(shop_name="a")
    table.put(first)
    table.save()
    table.put(Shop(shop_name="b"))
    table.put(replace(first, door_count=7))
    table.save()
    table.remove("b")
    table.save()

    assert written(tmp_path)["shopTable"] == {
        "a": {"shopName": "a", "doorCount": 7, "sizeBytes": 10}
    }


def test_an_entry_is_saved_when_its_last_change_is(tmp_path: Path) -> None:
    table = make(tmp_path)
    table.put(Shop(shop_name="a"))
    table.save()
    table.put(Shop(shop_name="b"))

    assert (table.has_saved("a"), table.has_saved("b"), table.is_saved) == (True, False, False)
    table.save()
    assert (table.has_saved("b"), table.is_saved) == (True, True)


def test_too_many_and_too_large_entries_are_refused(tmp_path: Path) -> None:
    table = make(tmp_path)
    with pytest.raises(InvalidRequest, match=r"shop a: .* 65536 bytes, found 65537"):
        table.put(Shop(shop_name="a", size_bytes=65_537))
    for name in "abc":
        table.put(Shop(shop_name=name, size_bytes=30_000))
    with pytest.raises(LimitExceeded, match="shops: expected at most 3"):
        table.put(Shop(shop_name="d"))
    with pytest.raises(LimitExceeded):
        table.put(Shop(shop_name="c", size_bytes=60_000))  # all together

    assert table.names() == ["a", "b", "c"]
    table.remove("a")
    table.put(Shop(shop_name="d"))
    assert table.budget.size_bytes == 60_010


def test_built_in_entries_are_not_in_the_way_and_need_no_file(tmp_path: Path) -> None:
    table = make(tmp_path)
    table.put(Shop(shop_name="own", door_count=5))
    table.save()

    again = make(tmp_path)
    again.add_built_in(Shop(shop_name="own"))
    again.add_built_in(Shop(shop_name="other"))

    shops = [again.get("own"), again.get("other")]
    assert [shop.door_count for shop in shops if shop is not None] == [5, 1]
    assert again.is_saved


def test_what_is_adopted_is_taken_beyond_the_bounds_and_a_known_one_stays(tmp_path: Path) -> None:
    table = make(tmp_path)
    for name in "abc":
        table.put(Shop(shop_name=name))

    assert table.adopt(Shop(shop_name="d", door_count=9)).door_count == 9
    assert table.adopt(Shop(shop_name="d", door_count=2)).door_count == 9
    assert not table.has_saved("d")


@pytest.mark.parametrize(
    "text",
    ["{", "[]", "{}", '{"shopTable":[]}', '{"shopTable":{"a":{"shopName":1}}}', "[" * 100_000],
)
def test_a_file_that_cannot_be_read_is_refused_with_its_path(tmp_path: Path, text: str) -> None:
    path = tmp_path / "config" / "shops.json"
    path.parent.mkdir()
    path.write_text(text)

    with pytest.raises(InvalidRequest, match=r"shops\.json: expected shops .* shops open again"):
        make(tmp_path)


def test_numbers_may_be_text_and_what_is_unknown_or_null_is_left_out() -> None:
    value = {"shopName": "a", "doorCount": "-3", "isOpen": None, "other": 1}

    assert entry_from_json(Shop, value, "a") == Shop(shop_name="a", door_count=-3)


@pytest.mark.parametrize(
    "value",
    [
        None,
        {},
        {"shopName": 5},
        {"shopName": "a", "doorCount": True},
        {"shopName": "a", "doorCount": 1 << 63},
        {"shopName": "a", "isOpen": "yes"},
        {"shopName": "a", "labels": {"x": 1}},
        {"shopName": "a", "labels": []},
    ],
)
def test_values_of_another_type_are_refused(value: object) -> None:
    with pytest.raises(InvalidRequest, match=r"^here"):
        entry_from_json(Shop, value, "here")


def test_json_and_entry_are_each_others_inverse() -> None:
    shop = Shop(shop_name="ü\ud800", labels={"a": "b"}, anything={"x": [1.5, None]})

    assert entry_from_json(Shop, json.loads(json.dumps(entry_to_json(shop))), "") == shop
