"""Receipts: who holds a message, for how long, and what survives."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.unit.broker.inflight.world import START_MS, TEN_SECONDS, World

from dueline.broker.inflight import Holding, InvalidReceipt
from dueline.broker.inflight import log as receipt_log
from dueline.broker.inflight.receipt import Receipt
from dueline.errors import StoreClosed
from dueline.store import Files
from dueline.testing import FaultyFiles, ManualClock


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
    world.inflight.is_present = present.__contains__
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


def test_torn_end_of_the_file_is_forgotten(world: World) -> None:
    world.send("a", "b")
    first, second = world.take().messages
    world.finish(first.receipt)
    whole = world.path.read_bytes()
    world.finish(second.receipt)
    longer = world.path.read_bytes()
    end = next(at for at in range(len(whole)) if whole[at] != longer[at])

    for cut in range(end, len(longer.rstrip(b"\0"))):
        world.path.write_bytes(longer[:cut])
        world.restart(is_flushed=False)
        world.clock.advance(10_000)
        again = world.take().messages
        assert [held.record.body for held in again] == [b"b"], cut
        world.path.write_bytes(longer)


def test_rewritten_file_says_the_same_and_stays_small(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(receipt_log, "REWRITE_SIZE_BYTES", 2_000)
    world.inflight = world.open()
    for number in range(200):
        world.send(str(number))
        held = world.take().messages
        if number % 20:
            world.finish(held[0].receipt)
            world.clock.advance(1)
    written = world.path.read_bytes().rstrip(b"\0")
    world.restart()

    assert len(written) < 6_000
    assert world.inflight.held_count("g", "t") == 10
    world.clock.advance(10_000)
    assert sorted(map(int, world.bodies(100))) == list(range(0, 200, 20))


@pytest.mark.parametrize("restart_count", [1, 2, 3])
@pytest.mark.parametrize("rewrite_size", [1, 1 << 20])
def test_receipt_of_a_fast_clock_hides_its_message_no_longer_than_was_asked(
    world: World, monkeypatch: pytest.MonkeyPatch, restart_count: int, rewrite_size: int
) -> None:
    monkeypatch.setattr(receipt_log, "REWRITE_SIZE_BYTES", rewrite_size)
    world.send("a", "b", "c")
    assert world.bodies(1) == ["a"]
    world.clock.advance(8 * 3_600_000)
    assert world.bodies(1) == ["a"]
    world.clock.advance(3_000)
    assert world.bodies(1) == ["b"]
    world.inflight.flush()

    world.clock = ManualClock(START_MS + 20_000)  # set right while the broker was down
    for _ in range(restart_count):
        world.restart()

    assert world.bodies() == ["c"]
    world.clock.advance(6_999)
    assert world.bodies() == []
    world.clock.advance(1)
    assert world.bodies() == ["a"]
    world.clock.advance(2_999)
    assert world.bodies() == []
    world.restart()
    world.clock.advance(1)
    assert sorted(world.bodies()) == ["b", "c"]


def test_restart_without_a_step_of_the_clock_changes_no_duration(world: World) -> None:
    world.send("a")
    assert world.bodies() == ["a"]
    for _ in range(9):
        world.clock.advance(1_000)
        world.restart()

    world.clock.advance(999)
    assert world.bodies() == []
    world.clock.advance(1)
    assert world.bodies() == ["a"]


@pytest.mark.parametrize("seed", range(20))
def test_acknowledged_stays_acknowledged_after_a_power_cut(tmp_path: Path, seed: int) -> None:
    files = FaultyFiles()
    world = World(tmp_path, files)
    world.send("a", "b", "c")
    first, second, _ = world.take().messages
    world.finish(first.receipt)
    world.inflight.extend("g", "t", second.receipt, 0)
    world.inflight.flush()

    files.power_cut(seed=seed)
    world.files = Files()
    world.restart(is_flushed=False)

    world.clock.advance(10_000)
    assert sorted(world.bodies()) == ["b", "c"]
    world.store.close()


def test_failed_write_closes_the_receipts(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    world.send("a")
    (held,) = world.take().messages
    world.inflight.flush()

    def broken(self: object) -> None:
        raise OSError(5, "Input/output error")

    world.send("b")
    monkeypatch.setattr("dueline.store.files.File.sync", broken)
    with pytest.raises(StoreClosed):
        world.finish(held.receipt)

    assert isinstance(world.answers[0], StoreClosed)
    with pytest.raises(StoreClosed):
        world.take()
