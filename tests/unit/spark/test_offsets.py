"""Offsets: one JSON form, and always different when there is something to read."""

import json

from dueline.flight.protocol import WindowCorner
from dueline.spark.offsets import Offset, ShardOffset


def test_offsets_have_one_form() -> None:
    offset = Offset(
        shards={
            "b:1": ShardOffset(due_ms=1, seq=2, end=3),
            "a:1": ShardOffset(due_ms=4, seq=5, end=6, turn=7),
        }
    )
    plain = {
        "a:1": {"due_ms": 4, "seq": 5, "end": 6, "turn": 7},
        "b:1": {"due_ms": 1, "seq": 2, "end": 3, "turn": 0},
    }

    assert json.dumps(offset.to_json()) == json.dumps(plain)
    assert Offset.from_json(plain) == offset


def test_the_same_corner_again_is_another_offset() -> None:
    corner = WindowCorner(due_ms=1, seq=2, end=3)
    first = ShardOffset(due_ms=0, seq=0, end=0).next(corner)

    second = first.next(corner)
    third = second.next(corner)

    assert len({first, second, third}) == 3
    assert {first.corner, second.corner, third.corner} == {corner}


def test_a_shard_moves_without_the_others() -> None:
    before = Offset(shards={"a:1": ShardOffset(due_ms=1, seq=1, end=1)})

    after = before.with_shard("b:1", ShardOffset(due_ms=2, seq=2, end=2))

    assert after.shards["a:1"] == before.shards["a:1"]
    assert "b:1" not in before.shards
