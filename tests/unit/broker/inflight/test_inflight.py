"""Receipts: who holds a message, for how long, and what survives."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.unit.broker.inflight.world import START_MS, TEN_SECONDS, World

from dueline.broker.inflight import Ack, Holding, InvalidReceipt, Outcomes, Receipt
from dueline.errors import StoreClosed


@pytest.fixture
def world(tmp_path: Path) -> Iterator[World]:
    made = World(tmp_path)
    yield made
    made.store.close()


def test_received_message_is_invisible_until_its_time_is_over(world: World) -> None:
    world.send("a")

    first = world.take().messages
    assert [held.attempt for held in first] == [1]
    world.clock.advance(9_999)
    assert world.take().messages == []
    world.clock.advance(1)

    again = world.take().messages
    assert [(held.record.body, held.attempt) for held in again] == [(b"a", 2)]


def test_finished_message_never_comes_again(world: World) -> None:
    world.send("a")
    (held,) = world.take().messages

    world.finish(held.receipt)

    assert world.answers == [None]
    world.clock.advance(3_600_000)
    assert world.bodies() == []


def test_finish_is_answered_only_when_it_is_written(world: World) -> None:
    world.send("a")
    (held,) = world.take().messages

    world.inflight.acknowledge("g", "t", held.receipt, world.answers.append)

    assert world.answers == []
    world.inflight.flush()
    assert world.answers == [None]


def test_finishing_twice_is_no_error(world: World) -> None:
    world.send("a")
    (held,) = world.take().messages

    world.finish(held.receipt)
    world.finish(held.receipt)

    assert world.answers == [None, None]


def test_receipt_counts_after_its_time_while_nobody_else_has_the_message(world: World) -> None:
    world.send("a")
    (held,) = world.take().messages
    world.clock.advance(60_000)

    world.finish(held.receipt)

    assert world.bodies() == []


def test_receipt_of_an_earlier_attempt_is_refused(world: World) -> None:
    world.send("a")
    (first,) = world.take().messages
    world.clock.advance(10_000)
    (second,) = world.take().messages

    with pytest.raises(InvalidReceipt):
        world.finish(first.receipt)

    world.finish(second.receipt)
    assert world.answers == [None]


def test_changed_duration_replaces_the_receipt(world: World) -> None:
    world.send("a")
    (held,) = world.take().messages

    receipt = world.inflight.extend("g", "t", held.receipt, 1_000)

    with pytest.raises(InvalidReceipt):
        world.inflight.extend("g", "t", held.receipt, 5_000)
    world.clock.advance(1_000)
    (again,) = world.take().messages
    assert again.attempt == 2
    with pytest.raises(InvalidReceipt):
        world.finish(receipt)


def test_change_wakes_those_who_wait(world: World) -> None:
    world.send("a")
    (held,) = world.take().messages
    woken: list[int] = []
    unwatch = world.inflight.watch("g", "t", lambda: woken.append(1))

    world.inflight.extend("g", "t", held.receipt, 0)
    unwatch()

    assert woken == [1]
    assert world.inflight.next_visible_ms("g", "t") == START_MS


def test_receipts_of_others_are_refused(world: World, tmp_path: Path) -> None:
    other = World(tmp_path / "other")
    other.send("a")
    (foreign,) = other.take().messages
    world.send("a")
    (own,) = world.take().messages

    for group, topic, receipt in (
        ("g", "t", foreign.receipt),
        ("other", "t", own.receipt),
        ("g", "other", own.receipt),
    ):
        with pytest.raises(InvalidReceipt):
            world.inflight.acknowledge(group, topic, receipt, world.answers.append)
    assert world.answers == []
    other.store.close()


@given(text=st.text(max_size=80))
def test_any_other_text_is_refused_as_a_receipt(
    text: str,
) -> None:
    with pytest.raises(InvalidReceipt):
        Receipt.decode(text)


def test_messages_that_the_filter_refuses_are_done(world: World) -> None:
    world.send("no", TAGS="b")
    world.send("yes", TAGS="a")

    found = world.take(tags="a").messages

    assert [held.record.body for held in found] == [b"yes"]
    world.finish(found[0].receipt)
    assert world.offsets.get("g", "t") == {0: 2, 1: 0}


def test_group_begins_where_it_stood_with_another_protocol(world: World) -> None:
    world.send("a", "b", "c")
    world.offsets.set("g", "t", {0: 2})

    assert world.bodies() == ["c"]


def test_offset_follows_the_first_unfinished_message(world: World) -> None:
    world.send("a", "b", "c")
    first, second, third = world.take().messages

    world.finish(second.receipt)
    world.finish(third.receipt)
    assert world.offsets.get("g", "t")[0] == 0
    world.finish(first.receipt)

    assert world.offsets.get("g", "t")[0] == 3


def test_message_group_is_handed_out_one_at_a_time(world: World) -> None:
    for body in ("a0", "a1", "b0", "a2"):
        world.send(body, __SHARDINGKEY=body[0])

    first = world.take().messages
    assert [held.record.body for held in first] == [b"a0", b"b0"]
    assert world.bodies() == []
    world.finish(first[0].receipt)

    assert world.bodies() == ["a1"]


def test_failed_message_holds_up_its_message_group_and_comes_first(world: World) -> None:
    for body in ("a0", "a1"):
        world.send(body, __SHARDINGKEY="a")

    assert world.bodies() == ["a0"]
    world.clock.advance(10_000)

    assert world.bodies() == ["a0"]


def test_message_group_keeps_its_order_over_a_restart(world: World) -> None:
    for body in ("a0", "a1", "a2"):
        world.send(body, __SHARDINGKEY="a")
    (first,) = world.take().messages

    world.restart()
    world.finish(first.receipt)

    assert world.bodies() == ["a1"]


def test_message_is_dead_after_its_last_attempt(world: World) -> None:
    world.send("a")
    for _ in range(TEN_SECONDS.attempt_max):
        assert world.bodies() == ["a"]
        world.clock.advance(10_000)

    received = world.take()

    assert received.messages == []
    (dead,) = received.dead
    assert dead.record.body == b"a"
    assert world.take().dead == []  # somebody is at it
    world.finish(dead.receipt)
    world.clock.advance(3_600_000)
    assert world.take().dead == []


def test_returned_message_comes_at_once_and_was_no_attempt(world: World) -> None:
    world.send("a")
    (held,) = world.take().messages

    world.inflight.give_back("g", "t", [held.receipt])

    (again,) = world.take().messages
    assert again.attempt == 1
    assert again.receipt != held.receipt


def test_renewed_message_stays_with_its_owner_while_that_is_there(world: World) -> None:
    world.send("a")
    present = {"me"}
    world.inflight.renew_while(present.__contains__)
    mine = Holding(invisible_ms=60_000, owner="me", renew=True)
    assert world.bodies(holding=mine) == ["a"]

    for _ in range(10):
        world.clock.advance(60_000)
        assert world.bodies() == []
    present.clear()
    world.clock.advance(60_000)

    assert world.bodies() == ["a"]


def test_messages_of_an_owner_who_left_come_at_once(world: World) -> None:
    world.send("a")
    mine = Holding(invisible_ms=60_000, owner="me", renew=True)
    assert world.bodies(holding=mine) == ["a"]

    assert world.inflight.release("me") == 1

    assert world.bodies() == ["a"]


def test_queues_take_turns(world: World) -> None:
    world.send("a", "b", queue_id=0)
    world.send("c", "d", queue_id=1)

    found = world.bodies(1) + world.bodies(1)

    assert sorted(found) == ["a", "c"]


def test_restart_keeps_what_was_received_and_what_was_finished(world: World) -> None:
    world.send("held", "done", "new")
    held, done = world.take(2).messages
    world.finish(done.receipt)

    world.restart()

    assert world.bodies() == ["new"]
    world.clock.advance(10_000)
    again = world.take().messages
    assert {(each.record.body, each.attempt) for each in again} == {(b"held", 2), (b"new", 2)}
    with pytest.raises(InvalidReceipt):
        world.finish(held.receipt)


def test_receipt_still_counts_after_a_restart(world: World) -> None:
    world.send("a")
    (held,) = world.take().messages

    world.restart()
    world.finish(held.receipt)
    world.restart()

    world.clock.advance(60_000)
    assert world.bodies() == []


def test_unwritten_receipts_only_mean_that_messages_come_again(world: World) -> None:
    world.send("a")
    assert world.bodies() == ["a"]

    world.restart(is_flushed=False)

    assert world.bodies() == ["a"]


# Many at once


def test_many_acknowledgements_are_answered_together_and_one_by_one(world: World) -> None:
    world.send("a", "b", "c")
    first, second, _ = world.take().messages
    answers: list[Outcomes] = []
    acks = [
        Ack("g", "t", first.receipt),
        Ack("g", "t", "bad"),
        Ack("other", "t", second.receipt),
        Ack("g", "t", second.receipt),
        Ack("g", "t", second.receipt),
    ]

    world.inflight.acknowledge_all(acks, answers.append)
    assert answers == []
    world.inflight.flush()

    ((one, bad, foreign, two, twice),) = answers
    assert (one, two, twice) == (None, None, None)
    assert isinstance(bad, InvalidReceipt)
    assert isinstance(foreign, InvalidReceipt)
    world.restart()
    world.clock.advance(10_000)
    assert world.bodies() == ["c"]


def test_none_or_nothing_but_refusals_is_answered_at_once(world: World) -> None:
    answers: list[Outcomes] = []

    world.inflight.acknowledge_all([], answers.append)
    world.inflight.acknowledge_all([Ack("g", "t", "bad")], answers.append)

    assert answers[0] == []
    assert isinstance(answers[1][0], InvalidReceipt)


def test_receipts_that_cannot_be_written_are_an_outcome(world: World) -> None:
    world.send("a")
    (held,) = world.take().messages
    world.inflight.close()
    answers: list[Outcomes] = []

    world.inflight.acknowledge_all([Ack("g", "t", held.receipt)], answers.append)

    assert isinstance(answers[0][0], StoreClosed)


# Receipts by queue, offset and serial number


def test_holding_is_named_by_its_queue_offset_and_serial_number(world: World) -> None:
    world.send("a", queue_id=1)
    (held,) = world.take().messages
    named = Receipt.decode(held.receipt)

    made = world.inflight.receipt("g", "t", queue_id=1, offset=0, serial=named.serial)

    assert made == held.receipt
    world.restart()
    assert world.inflight.receipt("g", "t", queue_id=1, offset=0, serial=named.serial) == made


@pytest.mark.parametrize(
    ("group", "queue_id", "offset", "serial"),
    [
        ("unknown", 0, 0, 1),
        ("g", 7, 0, 1),
        ("g", 0, -1, 1),
        ("g", 0, 1 << 62, 1),
        ("g", 0, 0, -1),
        ("g", 0, 0, 1 << 32),
    ],
)
def test_holding_that_cannot_be_has_no_receipt_and_leaves_no_trace(
    world: World, group: str, queue_id: int, offset: int, serial: int
) -> None:
    world.send("a")
    world.take()
    before = world.inflight._lanes.budget.size_bytes

    with pytest.raises(InvalidReceipt):
        world.inflight.receipt(group, "t", queue_id=queue_id, offset=offset, serial=serial)

    assert world.inflight._lanes.budget.size_bytes == before
