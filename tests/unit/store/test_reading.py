"""Reading: by offset, by position, by time, by key."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
from tests.golden.layout import java_hash
from tests.unit.store.making import (
    START_MS,
    Wall,
    bodies,
    carry_over,
    delayed,
    open_store,
    ordinary,
)

from dueline.errors import NotFound
from dueline.message import Message
from dueline.store import ReadStatus, Store
from dueline.store import record as records
from dueline.store.files import File


@pytest.fixture
def wall() -> Wall:
    return Wall()


@pytest.fixture
def store(tmp_path: Path, wall: Wall) -> Iterator[Store]:
    with open_store(tmp_path, wall) as store:
        yield store


@pytest.fixture
def ten(store: Store) -> Store:
    """Ten messages: files of a queue hold seven units."""
    for number in range(10):
        store.put(ordinary(b"%d" % number, TAGS="even" if number % 2 == 0 else "odd"))
    return store


def found(
    store: Store, offset: int, count_max: int = 32, size_bytes_max: int = 1 << 20
) -> list[bytes]:
    result = store.read("orders", 0, offset, count_max=count_max, size_bytes_max=size_bytes_max)
    return [records.decode(bytes(view)).body for view in result.records]


def test_records_come_in_order_and_bounded(ten: Store) -> None:
    assert found(ten, 2, count_max=3) == [b"2", b"3", b"4"]
    ten.checkpoint()
    assert found(ten, 5, count_max=9) == [b"5", b"6"], "up to the end of a queue file"
    assert found(ten, 7, count_max=9) == [b"7", b"8", b"9"]


def test_result_says_where_to_go_on(ten: Store) -> None:
    result = ten.read("orders", 0, 8, count_max=32)

    assert (result.status, result.next_offset) == (ReadStatus.FOUND, 10)
    assert (result.start, result.end) == (0, 10)


@pytest.mark.parametrize(
    ("topic", "offset", "status", "next_offset"),
    [
        ("orders", 10, ReadStatus.AT_END, 10),
        ("orders", 11, ReadStatus.BEYOND_END, 10),
        ("orders", -1, ReadStatus.BEFORE_START, 0),
        ("nobody's", 0, ReadStatus.AT_END, 0),
        ("nobody's", 5, ReadStatus.BEYOND_END, 0),
    ],
)
def test_offsets_outside_of_the_queue(
    ten: Store, topic: str, offset: int, status: ReadStatus, next_offset: int
) -> None:
    result = ten.read(topic, 0, offset)

    assert (result.status, result.next_offset, result.records) == (status, next_offset, [])


def test_bytes_are_bounded_but_one_record_always_comes(ten: Store) -> None:
    size = len(ten.read("orders", 0, 0, count_max=1).records[0])

    assert found(ten, 0, size_bytes_max=2 * size) == [b"0", b"1"]
    assert found(ten, 0, size_bytes_max=1) == [b"0"]


def test_tag_filter_skips_but_goes_on(ten: Store) -> None:
    odd = java_hash("odd")

    result = ten.read("orders", 0, 0, count_max=4, accept=lambda codes: codes == odd)
    assert [records.decode(bytes(view)).body for view in result.records] == [b"1", b"3"]
    assert result.next_offset == 4

    none = ten.read("orders", 0, 0, count_max=4, accept=lambda codes: np.zeros(len(codes), bool))
    assert (none.status, none.next_offset, none.records) == (ReadStatus.NO_MATCH, 4, [])


def test_damaged_record_is_named_and_passed_over(ten: Store, tmp_path: Path) -> None:
    position = ten.query("orders", ten.record_at(0).properties.decode().split("\x01")[-1])
    assert len(position) == 1
    third = records.decode(bytes(ten.read("orders", 0, 3, count_max=1).records[0]))
    path = tmp_path / "commitlog" / ("0" * 20)
    with path.open("r+b") as file:
        file.seek(third.position + 89)
        file.write(b"X")

    result = ten.read("orders", 0, 2, count_max=4)

    assert [records.decode(bytes(view)).body for view in result.records] == [b"2", b"4", b"5"]
    assert result.damaged == [3]
    assert result.next_offset == 6


def test_reading_does_not_write_and_a_checkpoint_mends_a_wrong_offset(
    ten: Store, tmp_path: Path
) -> None:
    third = records.decode(bytes(ten.read("orders", 0, 3, count_max=1).records[0]))
    path = tmp_path / "commitlog" / ("0" * 20)
    with path.open("r+b") as file:
        file.seek(third.position + 20)
        file.write(b"\x77" * 8)
    damaged = path.read_bytes()

    result = ten.read("orders", 0, 2, count_max=3)

    assert [records.decode(bytes(view)).queue_offset for view in result.records] == [2, 3, 4]
    assert path.read_bytes() == damaged
    ten.checkpoint()
    assert path.read_bytes()[third.position + 20 : third.position + 28] == (3).to_bytes(8, "big")
    assert ten.read("orders", 0, 3, count_max=1).records[0] == result.records[1]


def test_record_by_position(store: Store) -> None:
    first, second = store.put(ordinary(b"one")), store.put(ordinary(b"two"))

    assert store.record_at(second.position).body == b"two"
    assert store.record_at(first.position).body == b"one"
    for position in (first.position + 1, second.position + 500, -1, 1 << 62):
        with pytest.raises(NotFound):
            store.record_at(position)


def test_time_is_searched_by_when_it_was_visible(store: Store, wall: Wall) -> None:
    store.put(delayed(50, b"delayed"))
    carry_over(store)
    store.put(ordinary(b"at 0"))
    wall.advance(100)
    store.put(ordinary(b"at 100"))

    assert bodies(store) == [b"at 0", b"delayed", b"at 100"]
    for at_ms, offset in ((-5, 0), (0, 0), (1, 1), (50, 1), (51, 2), (100, 2), (101, 3)):
        assert store.search_offset("orders", 0, START_MS + at_ms) == offset, at_ms
    assert store.search_offset("nobody's", 0, START_MS) == 0


def test_time_is_searched_among_wide_hosts(store: Store, wall: Wall) -> None:
    host = bytes(19) + b"\1"
    for _ in range(3):
        store.put(Message(topic="orders", body=b"", born_host=host))
        wall.advance(10)

    assert store.search_offset("orders", 0, START_MS + 10) == 1


def test_keys_find_visible_messages_of_the_topic(store: Store, wall: Wall) -> None:
    for number in range(4):
        store.put(ordinary(b"%d" % number, KEYS="k other"))
        wall.advance(10)
    store.put(ordinary(b"elsewhere", topic="x", KEYS="k"))
    store.put(delayed(1000, b"later", KEYS="k"))
    carry_over(store)

    assert [record.body for record in store.query("orders", "k")] == [b"3", b"2", b"1", b"0"]
    assert [record.body for record in store.query("x", "k")] == [b"elsewhere"]
    assert store.query("orders", "nobody's") == []
    begin, end = START_MS + 10, START_MS + 20
    limited = store.query("orders", "k", begin_ms=begin, end_ms=end)
    assert [record.body for record in limited] == [b"2", b"1"]
    assert len(store.query("orders", "k", count_max=3)) == 3

    wall.advance(2000)
    store.open_gate()
    assert store.query("orders", "k")[0].body == b"later"


def test_bytes_of_what_a_key_finds_are_bounded_but_one_record_always_comes(store: Store) -> None:
    for number in range(4):
        store.put(Message(topic="orders", body=b"%d" % number * 500, properties={"KEYS": "k"}))
    size_bytes = store.record_at(0).size_bytes

    def bodies(size_bytes_max: int) -> list[bytes]:
        found = store.query("orders", "k", size_bytes_max=size_bytes_max)
        return [record.body[:1] for record in found]

    assert bodies(3 * size_bytes) == [b"3", b"2", b"1"]
    assert bodies(3 * size_bytes - 1) == [b"3", b"2"]
    assert bodies(1) == [b"3"]


def test_unique_id_finds_its_message(store: Store) -> None:
    result = store.put(ordinary(b"mine"))

    assert [record.body for record in store.query("orders", result.unique_id)] == [b"mine"]


def test_keys_with_other_white_space_are_one_key(tmp_path: Path, wall: Wall) -> None:
    """Only a space separates keys; both index forms (one put, recovery of many) must agree."""
    with open_store(tmp_path / "s", wall) as store:
        store.put(ordinary(b"x", KEYS="a\tb c"))
        assert len(store.query("orders", "a\tb")) == 1
        assert store.query("orders", "a") == []
    (tmp_path / "s" / "checkpoint.json").unlink()
    (tmp_path / "s" / "checkpoint.json.mirror").unlink()

    with open_store(tmp_path / "s", wall) as store:
        assert len(store.query("orders", "a\tb")) == 1
        assert store.query("orders", "a") == []


def test_queues_are_listed(ten: Store) -> None:
    ten.put(Message(topic="x", body=b"", queue_id=5))

    assert ten.queues() == [("orders", 0), ("x", 5)]
    assert ten.offset_range("x", 5) == (0, 1)
    assert ten.offset_range("x", 6) == (0, 0)


def test_what_is_in_memory_is_at_hand(ten: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[tuple[int, int]] = []
    is_cached = True

    def answer(file: File, start: int, end: int) -> bool:
        asked.append((start, end))
        return is_cached

    monkeypatch.setattr(File, "is_cached", answer)
    records_at = [ten.read("orders", 0, offset, count_max=1) for offset in range(10)]
    sizes = [len(result.records[0]) for result in records_at]

    assert ten.is_at_hand("orders", 0, 2, count_max=3)
    assert asked == [(sum(sizes[:2]), sum(sizes[:5]))], "exactly what would be read"
    is_cached = False
    assert not ten.is_at_hand("orders", 0, 2, count_max=3)
    assert ten.is_at_hand("orders", 0, 10, count_max=3), "there is nothing to read"
    assert ten.is_at_hand("others", 0, 0, count_max=3)


def test_units_of_a_file_are_at_hand_when_they_were_read(
    ten: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(File, "is_cached", lambda file, start, end: True)
    ten.checkpoint()

    assert not ten.is_at_hand("orders", 0, 0, count_max=2)
    assert found(ten, 0, count_max=2) == [b"0", b"1"]
    assert ten.is_at_hand("orders", 0, 2, count_max=2)
    assert found(ten, 2, count_max=2) == [b"2", b"3"]
