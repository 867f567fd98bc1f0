"""States of delayed messages: one byte per number, against a dictionary."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.unit.store.making import int64s

from dueline.errors import CorruptRecord
from dueline.store import states
from dueline.store.files import Files
from dueline.store.states import CANCELLED, DELIVERED, DROPPED, FORGOTTEN, PENDING, States

CODES = st.sampled_from([DELIVERED, CANCELLED, DROPPED])


@given(
    st.integers(0, 1 << 40),
    st.lists(st.tuples(st.integers(0, 200), CODES), max_size=30),
    st.integers(0, 220),
)
def test_states_are_what_a_dictionary_says(
    base: int, marks: list[tuple[int, int]], end: int
) -> None:
    found = States(base)
    expected = {}
    found.extend(base + end)
    for number, code in marks:
        found.mark(int64s(base + number), code)
        expected[number] = code

    numbers = range(250)
    assert found.of(int64s(*(base + n for n in numbers))).tolist() == [
        expected.get(n, PENDING) for n in numbers
    ]
    assert [found.one(base + n) for n in numbers] == [expected.get(n, PENDING) for n in numbers]
    assert found.end == base + max([end, *(number + 1 for number in expected)])
    assert found.pending_count(base, found.end) == found.end - base - len(expected)


def test_numbers_before_the_kept_range_are_forgotten() -> None:
    found = States(10)
    found.mark(int64s(3, 11), DELIVERED)

    assert found.one(3) == FORGOTTEN
    assert found.of(int64s(9, 10, 11)).tolist() == [FORGOTTEN, PENDING, DELIVERED]


def test_room_grows() -> None:
    found = States(capacity=4)
    found.mark(int64s(1), DELIVERED)

    found.mark(int64s(1000), CANCELLED)

    assert found.of(int64s(0, 1, 2, 1000)).tolist() == [PENDING, DELIVERED, PENDING, CANCELLED]


@pytest.mark.parametrize(
    ("done", "limit", "base"), [([0, 1, 2, 4], 10, 3), ([0, 1, 2], 2, 2), ([1, 2], 10, 0)]
)
def test_trim_forgets_the_done_prefix(done: list[int], limit: int, base: int) -> None:
    found = States()
    found.extend(10)
    found.mark(int64s(*done), DELIVERED)

    found.trim(limit, least=1)

    assert found.base == base
    assert found.end == 10
    for number in range(10):
        expected = FORGOTTEN if number < base else DELIVERED if number in done else PENDING
        assert found.one(number) == expected


def test_small_prefix_is_not_worth_a_trim() -> None:
    found = States()
    found.extend(10)
    found.mark(np.arange(5), DELIVERED)

    found.trim(10, least=6)

    assert found.base == 0


def test_everything_may_be_forgotten(tmp_path: Path) -> None:
    found = States()
    found.mark(np.arange(7), DELIVERED)
    found.trim(7, least=1)
    found.save(Files(), tmp_path / "states", {})

    loaded, _ = states.load(Files(), tmp_path / "states")

    assert (loaded.base, loaded.end) == (7, 7)
    assert loaded.of(int64s(0, 6, 7, 8)).tolist() == [FORGOTTEN, FORGOTTEN, PENDING, PENDING]
    loaded.mark(int64s(8), CANCELLED)
    assert loaded.one(8) == CANCELLED


def test_copy_is_not_changed_later() -> None:
    found = States()
    found.extend(3)

    copy = found.copy()
    found.mark(int64s(1), DELIVERED)

    assert copy.of(int64s(0, 1, 2)).tolist() == [PENDING] * 3
    assert copy.end == 3


def test_snapshot_is_read_back_from_both_copies(tmp_path: Path) -> None:
    found = States(5)
    found.extend(9)
    found.mark(int64s(6, 8), DROPPED)

    found.save(Files(), tmp_path / "states", {"delay_position": 17})

    for path in (tmp_path / "states", states.mirror_of(tmp_path / "states")):
        loaded, meta = states.load(Files(), path)
        assert (loaded.base, loaded.end, meta) == (5, 9, {"delay_position": 17})
        assert loaded.of(np.arange(5, 9)).tolist() == [PENDING, DROPPED, PENDING, DROPPED]


def test_every_flipped_bit_of_a_snapshot_is_noticed(tmp_path: Path) -> None:
    found = States(5)
    found.mark(np.arange(5, 300, 3), DELIVERED)
    path = tmp_path / "states"
    found.save(Files(), path, {"x": 1})
    data = path.read_bytes()

    for bit in range(8 * len(data)):
        flipped = bytearray(data)
        flipped[bit // 8] ^= 1 << bit % 8
        path.write_bytes(flipped)
        try:
            loaded, meta = states.load(Files(), path)
        except CorruptRecord:
            continue
        # A digit of the CRC in capitals is the same CRC.
        assert (loaded.base, loaded.end, meta) == (5, found.end, {"x": 1})
        assert bytes(flipped).lower()[:8] == data.lower()[:8]


@pytest.mark.parametrize("data", [b"", b"\n", b"00000000 {}\n", b"zz {}\n", b"\xff" * 50])
def test_other_bytes_are_no_snapshot(tmp_path: Path, data: bytes) -> None:
    (tmp_path / "states").write_bytes(data)

    with pytest.raises(CorruptRecord):
        states.load(Files(), tmp_path / "states")


def test_missing_snapshot_is_missing(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError):
        states.load(Files(), tmp_path / "states")


@pytest.mark.parametrize("first", [0, 1, 3, 4, 5, 8, 9, 10])
def test_the_first_that_waits_is_found_step_by_step(
    first: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(states, "_STEP", 4)
    codes = np.full(10, states.DELIVERED, dtype=np.uint8)
    codes[first:] = states.PENDING
    found = states.States(100, codes)

    found.trim(110, least=1)

    assert found.base == 100 + first
