"""Records of a POP answer carry their receipts, or leave room for one in the header."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.unit.server.remoting.world import RemotingWorld, remoting_world

from dueline.broker.inflight import Held
from dueline.broker.inflight.receipt import Receipt
from dueline.message import decode_properties
from dueline.server.remoting.pop_records import Records
from dueline.store import record as records

NOW_MS = 17_000
LARGE = "x" * 32_690
"""A property beside which there is no room for a receipt."""


@pytest.fixture
def world(tmp_path: Path) -> Iterator[RemotingWorld]:
    with remoting_world(tmp_path) as world:
        yield world


def held(
    world: RemotingWorld,
    properties: dict[str, str] | None = None,
    *,
    serial: int = 4,
    attempt: int = 1,
) -> Held:
    world.send(b"body", **(properties or {}))
    offset = world.store.offset_range("t", 0)[1] - 1
    return Held(
        bytes(world.store.read("t", 0, offset, count_max=1).records[0]),
        receipt=Receipt(epoch=1, lane=2, offset=offset, serial=serial).encode(),
        attempt=attempt,
        visible_ms=NOW_MS,
    )


def made(*found: Held) -> Records:
    return Records(list(found), "shard-1", NOW_MS, 60_000)


def properties_of(chunk: bytes) -> dict[str, str]:
    return decode_properties(records.decode(chunk).properties)


def test_a_receipt_travels_in_a_property(world: RemotingWorld) -> None:
    result = made(held(world, {"own": "x"}, serial=4, attempt=3))

    (chunk,) = result.chunks
    found = properties_of(chunk)
    assert found["POP_CK"] == "0 17000 60000 1004 0 shard-1 0 0"
    assert (found["1ST_POP_TIME"], found["own"]) == ("17000", "x")
    assert records.decode(chunk).reconsume_times == 2
    assert (result.revive_qid, result.left_out) == (0, [])


def test_the_first_time_is_kept(world: RemotingWorld) -> None:
    (chunk,) = made(held(world, {"1ST_POP_TIME": "5", "POP_CK": "old"})).chunks

    assert properties_of(chunk)["1ST_POP_TIME"] == "5"
    assert properties_of(chunk)["POP_CK"].startswith("0 17000")


def test_without_room_the_number_is_in_the_header_once(world: RemotingWorld) -> None:
    small = held(world, serial=1)
    first = held(world, {"large": LARGE}, serial=2)
    other = held(world, {"large": LARGE}, serial=3)
    same = held(world, {"large": LARGE}, serial=2)

    result = made(small, first, other, same)

    assert result.messages == [small, first, same]
    assert (result.left_out, result.revive_qid) == ([other], 1_002)
    assert ["POP_CK" in properties_of(chunk) for chunk in result.chunks] == [True, False, False]


def test_offsets_are_listed_by_queue(world: RemotingWorld) -> None:
    result = made(held(world), held(world))

    assert (result.start_offsets(), result.offsets()) == ("0 0 0", "0 0 0,1")
    assert (made().start_offsets(), made().offsets()) == (None, None)
