"""Groups that change their clients from one protocol to the other, and back."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.unit.broker.inflight.world import TEN_SECONDS, World

from dueline.broker.inflight import Held, InvalidReceipt, lanes
from dueline.broker.inflight import log as receipt_log
from dueline.errors import LimitExceeded
from dueline.message import Message


@pytest.fixture
def world(tmp_path: Path) -> Iterator[World]:
    made = World(tmp_path)
    yield made
    made.store.close()


def send_back(world: World, body: str, *, topic: str = "t", times: int = 1) -> None:
    """What the broker writes for a 4.x client that refuses a message, once its delay is over."""
    world.store.put(
        Message(
            topic="%RETRY%g",
            body=body.encode(),
            queue_id=0,
            properties={"RETRY_TOPIC": topic},
            reconsume_times=times,
        )
    )


def take(world: World, topic: str = "t", *, count: int = 8) -> list[Held]:
    return world.inflight.take(
        "g", topic, [0, 1], count_max=count, holding=TEN_SECONDS, retry_queue_ids=[0]
    ).messages


def bodies(held: list[Held]) -> list[str]:
    return [each.record.body.decode() for each in held]


# From the other protocol's offsets


def test_what_the_other_protocol_consumed_does_not_come_again(world: World) -> None:
    world.send("a", "b", "c", "d")
    held = take(world, count=2)
    world.offsets.set("g", "t", {0: 3})  # 4.x clients have committed

    world.clock.advance(10_000)

    assert bodies(take(world)) == ["d"]
    world.finish(held[0].receipt)  # late, and no error: it is done
    assert world.offsets.get("g", "t")[0] == 3


def test_consumed_by_the_other_protocol_is_remembered_over_a_restart(world: World) -> None:
    world.send("a", "b", "c")
    take(world, count=2)
    world.offsets.set("g", "t", {0: 3})
    assert take(world) == []

    world.restart()
    world.clock.advance(10_000)

    assert take(world) == []


def test_older_offset_of_the_other_protocol_brings_nothing_back(world: World) -> None:
    world.send("a", "b")
    for held in take(world):
        world.finish(held.receipt)

    world.offsets.set("g", "t", {0: 1})

    assert take(world) == []


def test_group_that_only_received_has_an_offset_for_the_other_protocol(world: World) -> None:
    world.send("a")

    take(world)

    assert world.offsets.get("g", "t") == {0: 0, 1: 0}


def test_offset_beyond_the_end_skips_nothing_that_comes_later(world: World) -> None:
    world.send("a")
    world.finish(take(world)[0].receipt)
    world.offsets.set("g", "t", {0: 5})
    world.offsets.save()

    world.restart()
    world.send("b", "c")

    assert bodies(take(world)) == ["b", "c"]


# What 4.x clients refused


def test_refused_by_a_4x_client_comes_to_a_5x_client_of_its_topic(world: World) -> None:
    send_back(world, "mine")
    send_back(world, "other", topic="u")

    (held,) = take(world)

    assert bodies([held]) == ["mine"]
    world.finish(held.receipt)
    assert bodies(take(world, "u")) == ["other"]


def test_refused_message_is_dead_when_both_protocols_tried_it_often_enough(world: World) -> None:
    send_back(world, "bad", times=2)  # of three attempts
    assert bodies(take(world)) == ["bad"]

    world.clock.advance(10_000)
    received = world.inflight.take(
        "g", "t", [0], count_max=8, holding=TEN_SECONDS, retry_queue_ids=[0]
    )

    assert bodies(received.dead) == ["bad"]


def test_topic_that_nobody_receives_keeps_the_retry_offset_back(world: World) -> None:
    send_back(world, "mine")
    send_back(world, "other", topic="u")
    send_back(world, "mine too")

    for held in take(world):
        world.finish(held.receipt)

    assert world.offsets.get("g", "%RETRY%g") == {0: 1}
    world.inflight.acknowledge("g", "u", take(world, "u")[0].receipt, world.answers.append)
    assert world.offsets.get("g", "%RETRY%g") == {0: 3}


def test_met_message_of_another_topic_is_not_forgotten_over_a_restart(world: World) -> None:
    send_back(world, "other", topic="u")
    send_back(world, "mine")
    world.finish(take(world)[0].receipt)

    world.restart()

    assert bodies(take(world, "u")) == ["other"]


def test_retries_that_4x_clients_consumed_are_done_for_every_topic(world: World) -> None:
    send_back(world, "mine")
    send_back(world, "other", topic="u")
    take(world)
    world.offsets.set("g", "%RETRY%g", {0: 2})
    world.clock.advance(10_000)

    assert take(world) == []
    assert world.offsets.get("g", "%RETRY%g") == {0: 2}
    assert take(world, "u") == []


def test_retry_of_a_topic_that_cannot_be_does_not_stop_others(world: World) -> None:
    send_back(world, "odd", topic="x" * 300)
    send_back(world, "mine")

    assert bodies(take(world)) == ["mine"]


def test_lanes_are_bounded(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(lanes, "LANE_COUNT_MAX", 2)

    with pytest.raises(LimitExceeded):
        take(world)


# Reset


def test_reset_group_receives_again_and_its_old_receipts_are_void(world: World) -> None:
    world.send("a", "b")
    first, second = take(world)
    world.finish(first.receipt)

    world.offsets.reset("g", "t", {0: 0})

    with pytest.raises(InvalidReceipt):
        world.finish(second.receipt)
    again = take(world)
    assert bodies(again) == ["a", "b"]
    for held in again:
        world.finish(held.receipt)
    world.restart()
    assert take(world) == []
    assert world.offsets.get("g", "t")[0] == 2


def test_reset_survives_a_rewritten_file(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(receipt_log, "REWRITE_SIZE_BYTES", 1)
    world.inflight = world.open()
    world.send("a", "b")
    first, _ = take(world)
    world.offsets.reset("g", "t", {0: 0})
    world.inflight.flush()  # the changes of the lane that was replaced, then a file without it

    world.restart()
    world.clock.advance(10_000)

    assert bodies(take(world)) == ["a", "b"]
    with pytest.raises(InvalidReceipt):
        world.finish(first.receipt)


def test_change_of_a_replaced_lane_behind_a_rewritten_file_says_nothing(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(receipt_log, "REWRITE_SIZE_BYTES", 1)
    world.inflight = world.open()
    world.send("a", "b")
    take(world, count=1)
    real = receipt_log.ReceiptLog._rewrite

    def late(log: receipt_log.ReceiptLog, state: object, time_ms: int) -> None:
        """Somebody receives and an operator resets between the write and the rewriting."""
        monkeypatch.setattr(receipt_log.ReceiptLog, "_rewrite", real)
        take(world, count=1)
        world.offsets.reset("g", "t", {0: 0})
        real(log, world.inflight._lanes.state, time_ms)

    monkeypatch.setattr(receipt_log.ReceiptLog, "_rewrite", late)
    world.inflight.flush()
    world.restart()

    assert bodies(take(world)) == ["a", "b"]
