"""Pulls: what is read, what is waited for, and what wakes the waiting."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from tests.remoting.peer import Peer, bodies_of, records_of
from tests.remoting.serving import RunningBroker
from tests.waiting import wait_until

from dueline.clock import system_time_ms
from dueline.wire import RequestCode


@pytest.fixture
def sender(broker: RunningBroker) -> Iterator[Peer]:
    with Peer(broker.address) as connected:
        yield connected


def test_offsets_outside_the_queue_are_told_with_the_place_to_go_on(peer: Peer) -> None:
    for number in range(3):
        peer.send_message("orders", b"%d" % number)

    found, at_end, beyond = (peer.pull("orders", offset) for offset in (1, 3, 9))

    assert (found.code, bodies_of(found)) == (0, [b"1", b"2"])
    assert found.ext["nextBeginOffset"] == "3"
    assert (at_end.code, at_end.ext["nextBeginOffset"]) == (19, "3")
    assert (beyond.code, beyond.ext["nextBeginOffset"]) == (21, "3")
    assert (found.ext["minOffset"], found.ext["maxOffset"]) == ("0", "3")


@pytest.mark.parametrize(
    ("topic", "queue_id", "code"), [("nowhere", 0, 17), ("orders", 4, 29), ("orders", -1, 29)]
)
def test_pull_of_what_does_not_exist(peer: Peer, topic: str, queue_id: int, code: int) -> None:
    peer.send_message("orders")

    assert peer.pull(topic, queue_id=queue_id).code == code


def test_waiting_pull_is_woken_by_a_send(broker: RunningBroker, peer: Peer, sender: Peer) -> None:
    sender.send_message("orders", b"first")
    opaque = peer.send(RequestCode.PULL_MESSAGE, peer.pull_ext("orders", 1, suspend_ms=30_000))
    wait_until(lambda: broker.broker.meter.figures().waiting_reader_count, what="the pull to wait")

    sender.send_message("orders", b"second")

    answer = peer.wait_answer(opaque)
    assert (answer.code, bodies_of(answer)) == (0, [b"second"])


def test_waiting_pull_is_woken_by_a_due_message_and_not_before(peer: Peer, sender: Peer) -> None:
    sender.send_message("orders", b"first")
    before_ms = system_time_ms()
    sender.send_message("orders", b"later", TIMER_DELAY_MS="700")

    answer = peer.pull("orders", 1, suspend_ms=30_000)

    assert bodies_of(answer) == [b"later"]
    assert system_time_ms() >= before_ms + 700


def test_pull_that_waited_in_vain_is_told_so(peer: Peer) -> None:
    peer.send_message("orders")

    answer = peer.pull("orders", 1, suspend_ms=100)

    assert (answer.code, answer.ext["nextBeginOffset"]) == (19, "1")


def test_others_are_answered_while_a_pull_waits(peer: Peer) -> None:
    peer.send_message("orders")
    waiting = peer.send(RequestCode.PULL_MESSAGE, peer.pull_ext("orders", 1, suspend_ms=30_000))

    answer = peer.send_message("orders", b"same connection")

    assert answer.code == 0
    assert bodies_of(peer.wait_answer(waiting)) == [b"same connection"]


def test_unwanted_tags_do_not_end_the_waiting(
    broker: RunningBroker, peer: Peer, sender: Peer
) -> None:
    sender.send_message("orders", b"red", TAGS="red")
    opaque = peer.send(
        RequestCode.PULL_MESSAGE,
        peer.pull_ext("orders", 0, suspend_ms=30_000, expression="blue || green"),
    )
    wait_until(lambda: broker.broker.meter.figures().waiting_reader_count, what="the pull to wait")
    for number in range(40):
        sender.send_message("orders", b"red %d" % number, TAGS="red")

    sender.send_message("orders", b"blue", TAGS="blue")

    answer = peer.wait_answer(opaque)
    assert bodies_of(answer) == [b"blue"]
    assert answer.ext["nextBeginOffset"] == "42"


def test_no_match_without_waiting_says_where_to_go_on(peer: Peer) -> None:
    peer.send_message("orders", TAGS="red")

    answer = peer.pull("orders", expression="blue")

    assert (answer.code, answer.ext["nextBeginOffset"]) == (20, "1")


def test_sql_condition_selects(peer: Peer) -> None:
    for number in range(5):
        peer.send_message("orders", b"%d" % number, amount=str(number))

    answer = peer.pull("orders", expression="amount BETWEEN 1 AND 3", kind="SQL92")
    none = peer.pull("orders", expression="amount > 99", kind="SQL92")
    bad = peer.pull("orders", expression="amount >", kind="SQL92")

    assert bodies_of(answer) == [b"1", b"2", b"3"]
    assert (none.code, none.ext["nextBeginOffset"]) == (20, "5")
    assert bad.code == 23


def test_groups_subscription_is_used_when_the_pull_has_none(peer: Peer) -> None:
    peer.send_message("orders", b"red", TAGS="red")
    peer.send_message("orders", b"blue", TAGS="blue")
    assert peer.pull("orders", expression=None).code == 24

    peer.heartbeat("c", group="group", subscriptions={"orders": "blue"})

    assert bodies_of(peer.pull("orders", expression=None)) == [b"blue"]
    assert peer.pull("%RETRY%group", expression=None).code == 24
    newer = peer.pull_ext("orders", expression=None) | {"subVersion": "2"}
    assert peer.call(RequestCode.PULL_MESSAGE, newer).code == 25


def test_pull_commits_the_offset_it_carries(broker: RunningBroker, peer: Peer) -> None:
    peer.send_message("orders")

    peer.pull("orders", 1, commit=1)

    assert broker.offsets.get("group", "orders") == {0: 1}


def test_pull_is_bounded_by_size_but_gives_one(peer: Peer) -> None:
    for _ in range(3):
        peer.send_message("orders", bytes(700_000))

    assert len(records_of(peer.pull("orders"))) == 1


def test_waiting_pull_of_a_peer_that_has_gone_is_forgotten(
    broker: RunningBroker, sender: Peer
) -> None:
    sender.send_message("orders")
    gone = Peer(broker.address)
    gone.send(RequestCode.PULL_MESSAGE, gone.pull_ext("orders", 1, suspend_ms=30_000))
    wait_until(
        lambda: broker.broker.meter.figures().waiting_reader_count == 1, what="the pull to wait"
    )

    gone.close()

    wait_until(
        lambda: broker.broker.meter.figures().waiting_reader_count == 0, what="it to be forgotten"
    )
    assert sum(hub.request_count for hub in broker.service.hubs) == 0
