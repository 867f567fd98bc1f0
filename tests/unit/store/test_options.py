"""Options: sensible by default, refused by name where they cannot work."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
from tests.unit.store.making import SMALL, Wall, bodies, open_store, ordinary

from dueline.errors import InvalidRequest
from dueline.store import StoreOptions


def test_defaults_work() -> None:
    StoreOptions().check()


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("commit_segment_size_bytes", 4095),
        ("commit_segment_size_bytes", 1 << 31),
        ("delay_segment_size_bytes", 0),
        ("flush", "sometimes"),
        ("queue_file_units", 0),
        ("delay_max_ms", 0),
        ("body_size_max", 0),
        ("body_size_max", (15 << 20) + 1),
        ("open_units_max", -1),
        ("disk_used_ratio_max", 1.5),
        ("compact_live_ratio", -0.1),
        ("window_size_bytes_max", 0),
        ("retention_ms", -1),
        ("port", -1),
        ("port", 65_536),
    ],
)
def test_value_that_cannot_work_is_refused_by_name(name: str, value: object) -> None:
    with pytest.raises(InvalidRequest) as caught:
        replace(StoreOptions(), **{name: value}).check()  # type: ignore[arg-type]

    assert caught.value.field == name
    assert repr(value) in caught.value.message


@pytest.mark.parametrize(
    ("name", "value", "text"),
    [("levels", "1s 2x", "delay levels"), ("levels", "", "delay levels"), ("host", "here", "host")],
)
def test_text_that_cannot_be_read_is_refused(name: str, value: str, text: str) -> None:
    with pytest.raises(InvalidRequest, match=text):
        replace(StoreOptions(), **{name: value}).check()  # type: ignore[arg-type]


def test_store_is_not_opened_with_bad_options(tmp_path: Path) -> None:
    with pytest.raises(InvalidRequest):
        open_store(tmp_path / "store", Wall(), replace(SMALL, flush="sometimes"))

    assert not (tmp_path / "store").exists()


def test_queue_files_of_another_size_are_refused(tmp_path: Path) -> None:
    with open_store(tmp_path, Wall()) as store:
        store.put_all([ordinary(b"%d" % number) for number in range(10)])

    with pytest.raises(InvalidRequest, match="queue_file_units"):
        open_store(tmp_path, Wall(), replace(SMALL, queue_file_units=3))

    with open_store(tmp_path, Wall()) as store:
        assert bodies(store) == [b"%d" % number for number in range(10)]


@pytest.mark.parametrize("name", ["commit_segment_size_bytes", "delay_segment_size_bytes"])
def test_segments_of_another_size_are_refused(tmp_path: Path, name: str) -> None:
    with open_store(tmp_path, Wall()) as store:
        store.put_all([ordinary(), ordinary(DELAY="1")])

    with pytest.raises(InvalidRequest, match="size it was made with"):
        open_store(tmp_path, Wall(), replace(SMALL, **{name: 8192}))  # type: ignore[arg-type]

    with open_store(tmp_path, Wall()) as store:
        assert store.pending_count() == 1


def test_rules_are_taken_from_the_options() -> None:
    rules = replace(StoreOptions(), levels="7s", delay_max_ms=5, body_size_max=6).rules

    assert rules.levels.delays_ms == (7000,)
    assert (rules.delay_max_ms, rules.body_size_max) == (5, 6)
