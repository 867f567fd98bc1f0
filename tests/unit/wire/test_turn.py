"""Turns of any size, read with one reader; what they say is tested with their kernels."""

from __future__ import annotations

import pytest
from tests.unit.wire.test_turn_kernels import send
from tests.unit.wire.turn_oracle import LIMITS, NOW_MS, check, reader

from dueline import compiled
from dueline.wire.frame import READ_HEADER_SIZE_BYTES_MAX
from dueline.wire.turn import LIMIT_FRAME, LIMIT_HEADER, LIMIT_NOW_MS, TURN_KERNELS

pytest.importorskip("numba")


def test_a_large_turn_has_room_and_a_small_one_after_it_too() -> None:
    assert compiled.load([TURN_KERNELS])
    turns, kernels = reader(), compiled.ready(TURN_KERNELS)
    for count in (1, 2_000, 3):
        pieces = [send("UNIQ_KEY\x01A")] * count

        turn = turns.read(kernels, pieces, NOW_MS)

        assert check(turn, pieces) == count
        assert len(turn.heads) == 1
        assert b"TBW102" in turn.key(0)


def test_a_turn_is_not_changed_by_the_next_one() -> None:
    assert compiled.load([TURN_KERNELS])
    turns, kernels = reader(), compiled.ready(TURN_KERNELS)
    pieces = [send("UNIQ_KEY\x01A\x02KEYS\x01k")]
    first = turns.read(kernels, pieces, NOW_MS)

    turns.read(kernels, [send("UNIQ_KEY\x01BBBBBB", a="other")] * 3, NOW_MS)

    assert check(first, pieces) == 1


def test_limits_are_given_as_numbers() -> None:
    numbers = LIMITS.numbers()

    assert numbers[LIMIT_FRAME] == LIMITS.frame_size_bytes_max - 4
    assert numbers[LIMIT_HEADER] == READ_HEADER_SIZE_BYTES_MAX
    assert numbers[LIMIT_NOW_MS] == 0, "a turn says"
