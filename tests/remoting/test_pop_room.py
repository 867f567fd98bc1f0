"""POP where an answer has little room: properties at their bound, bodies that fill a frame."""

from __future__ import annotations

import threading
from typing import Any

import pytest
from tests.remoting.peer import Peer, bodies_of, properties_of, records_of
from tests.remoting.serving import RunningBroker
from tests.remoting.test_pop import pop
from tests.waiting import PATIENCE_S, wait_until

from dueline.broker.inflight import Taken
from dueline.store import Record
from dueline.wire import Command, RequestCode

PROPERTIES_SIZE_MAX = 32_767  # what Java reads as a length in 16 bits, signed


def filled(name: str, *, left_bytes: int = 0) -> dict[str, str]:
    """Properties that are stored in all but `left_bytes` of the bytes that there are."""
    own = {"UNIQ_KEY": f"{name:0>32}", "pad": ""}
    used = sum(len(key) + len(value) + 2 for key, value in own.items()) - 1
    return {**own, "pad": "x" * (PROPERTIES_SIZE_MAX - used - left_bytes)}


def receipt_by_header(answer: Command, record: Record) -> str:
    """The receipt as Java's client makes it up for a message that has none."""
    ext = answer.ext
    starts = dict(word.split(" ")[1:] for word in ext["startOffsetInfo"].split(";"))
    offsets = dict(word.split(" ")[1:] for word in ext["msgOffsetInfo"].split(";"))
    queue = str(record.queue_id)
    together = sorted(
        each.queue_offset for each in records_of(answer) if each.queue_id == record.queue_id
    )
    offset = offsets[queue].split(",")[together.index(record.queue_offset)]
    times = (ext["popTime"], ext["invisibleTime"], ext["reviveQid"])
    return " ".join((starts[queue], *times, "0", "dueline", queue, offset))


def acknowledge(peer: Peer, answer: Command, record: Record) -> int:
    found = properties_of(record).get("POP_CK") or receipt_by_header(answer, record)
    ext = {
        "consumerGroup": "g",
        "topic": "orders",
        "queueId": str(record.queue_id),
        "extraInfo": found,
        "offset": str(record.queue_offset),
    }
    return peer.call(RequestCode.ACK_MESSAGE, ext).code


@pytest.mark.parametrize("left_bytes", [0, 1, 40, 75, 76, 100, 103, 104, 200])
def test_message_without_room_for_its_receipt_is_received_with_its_neighbours(
    broker: RunningBroker, peer: Peer, left_bytes: int
) -> None:
    peer.send_message("orders", b"before")
    assert peer.send_message("orders", b"full", names=filled("a", left_bytes=left_bytes)).code == 0
    peer.send_message("orders", b"after")

    answer = pop(peer)

    assert bodies_of(answer) == [b"before", b"full", b"after"]
    assert all(len(record.properties) <= PROPERTIES_SIZE_MAX for record in records_of(answer))
    assert [acknowledge(peer, answer, record) for record in records_of(answer)] == [0, 0, 0]
    assert pop(peer).code == 210
    assert broker.offsets.get("g", "orders")[0] == 3


def test_messages_without_room_and_different_receipts_come_one_answer_after_the_other(
    broker: RunningBroker, peer: Peer
) -> None:
    peer.send_message("orders", b"first", names=filled("a"))
    first = pop(peer, invisible_ms=1)
    peer.send_message("orders", b"second", names=filled("b"))
    peer.send_message("orders", b"plain")

    answers = [pop(peer, poll_ms=5_000), pop(peer, poll_ms=5_000)]

    assert bodies_of(first) == [b"first"]
    found = {
        record.body: (acknowledge(peer, answer, record), record.reconsume_times)
        for answer in answers
        for record in records_of(answer)
    }
    # Given back is not an attempt: what had to wait is received for the first time.
    assert found == {b"first": (0, 1), b"second": (0, 0), b"plain": (0, 0)}
    assert pop(peer).code == 210


def test_message_with_a_copied_receipt_and_no_room_has_a_receipt_of_its_own(peer: Peer) -> None:
    names = filled("a", left_bytes=len("POP_CK") + 2 + 20)
    peer.send_message("orders", b"copied", names={**names, "POP_CK": "1 2 3 4 5 6 7 8"})

    answer = pop(peer)
    (record,) = records_of(answer)

    assert properties_of(record).get("POP_CK") != "1 2 3 4 5 6 7 8"
    assert acknowledge(peer, answer, record) == 0


def test_large_messages_come_in_as_many_answers_as_they_need(peer: Peer) -> None:
    for number in range(6):
        assert peer.send_message("orders", bytes([number]) * 3_900_000).code == 0

    found = []
    while (answer := pop(peer)).code == 0:
        found += [(record.body[:1], record.reconsume_times) for record in records_of(answer)]

    assert found == [(bytes([number]), 0) for number in range(6)]


def test_dead_letter_without_room_for_its_origin_is_written_all_the_same(
    broker: RunningBroker, peer: Peer
) -> None:
    config = b'{"groupName":"g","retryMaxTimes":0}'
    assert peer.call(RequestCode.UPDATE_AND_CREATE_SUBSCRIPTION_GROUP, {}, config).code == 0
    peer.send_message("orders", b"full", names=filled("a"))

    assert bodies_of(pop(peer, invisible_ms=1)) == [b"full"]
    pop(peer, poll_ms=300)

    wait_until(
        lambda: bodies_of(peer.pull("%DLQ%g", group="reader")) == [b"full"],
        what="the dead letter",
    )


def test_message_whose_attempts_are_at_their_bound_goes_to_the_dead_letters(
    broker: RunningBroker, peer: Peer
) -> None:
    peer.send_message("orders", b"old", attempts=2**31 - 1)
    peer.send_message("orders", b"new")

    first = pop(peer, invisible_ms=1)
    again = pop(peer, poll_ms=5_000)

    assert bodies_of(first) == [b"old", b"new"]
    assert bodies_of(again) == [b"new"]
    wait_until(
        lambda: bodies_of(peer.pull("%DLQ%g", group="reader")) == [b"old"], what="the dead letter"
    )


def test_refused_message_without_room_to_come_again_is_a_dead_letter(
    broker: RunningBroker, peer: Peer
) -> None:
    """A refused send-back would keep its consumer busy with the message for ever."""
    peer.heartbeat("c1", group="g", subscriptions={"orders": "*"})
    for place, left_bytes in enumerate((0, 30, 60, 90, 120, 150, 180, 250)):
        names = filled(f"{place}", left_bytes=left_bytes)
        peer.send_message("orders", b"%d" % place, names=names)
    records = records_of(peer.pull("orders", group="g"))
    assert len(records) == 8

    codes = [
        peer.call(
            RequestCode.CONSUMER_SEND_MESSAGE_BACK,
            {"offset": str(record.position), "group": "g", "delayLevel": "1"},
        ).code
        for record in records
    ]

    assert codes == [0] * 8

    def seen() -> list[bytes]:
        return sorted(
            body
            for topic in ("%DLQ%g", "%RETRY%g")
            for body in bodies_of(peer.pull(topic, group="reader"))
        )

    wait_until(lambda: seen() == [b"%d" % place for place in range(8)], what="all of them")
    assert bodies_of(peer.pull("%DLQ%g", group="reader"))[0] == b"0"
    assert b"7" in bodies_of(peer.pull("%RETRY%g", group="reader"))


def test_messages_taken_for_a_peer_that_has_gone_are_given_back(
    broker: RunningBroker, peer: Peer, monkeypatch: pytest.MonkeyPatch
) -> None:
    peer.send_message("orders", b"one")
    ext = {
        "consumerGroup": "g",
        "topic": "orders",
        "queueId": "-1",
        "maxMsgNums": "32",
        "invisibleTime": "600000",
        "pollTime": "0",
        "bornTime": "0",
        "initMode": "0",
    }
    begun = threading.Event()
    real_take = broker.inflight.take

    def take(*args: Any, **names: Any) -> Taken:
        begun.set()
        return real_take(*args, **names)

    monkeypatch.setattr(broker.inflight, "take", take)
    lane_set = broker.inflight._lanes.of("g", "orders")
    with lane_set.lock, Peer(broker.address) as leaving:
        # It leaves while the broker is about to take the message for it.
        leaving.send(RequestCode.POP_MESSAGE, ext)
        assert begun.wait(PATIENCE_S)
        leaving.close()
        wait_until(lambda: len(broker.service.hubs[0].channels) == 1, what="the peer to be gone")

    answer = pop(peer, poll_ms=10_000)

    assert [(each.body, each.reconsume_times) for each in records_of(answer)] == [(b"one", 0)]
