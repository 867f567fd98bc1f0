"""POP consumption over the wire, and queues that the broker divides."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from tests.remoting.peer import Peer, bodies_of, properties_of, records_of
from tests.remoting.serving import RunningBroker

from dueline.clock import system_time_ms
from dueline.store import Record
from dueline.wire import Command, RequestCode


def pop(  # noqa: PLR0913 - the request's fields, by keyword
    peer: Peer,
    *,
    topic: str = "orders",
    count: int = 32,
    invisible_ms: int = 60_000,
    poll_ms: int = 0,
    expression: str = "*",
) -> Command:
    ext = {
        "consumerGroup": "g",
        "topic": topic,
        "queueId": "-1",
        "maxMsgNums": str(count),
        "invisibleTime": str(invisible_ms),
        "pollTime": str(poll_ms),
        "bornTime": str(system_time_ms()),
        "initMode": "0",
        "expType": "TAG",
        "exp": expression,
    }
    return peer.call(RequestCode.POP_MESSAGE, ext)


def receipt_ext(record: Record, **changes: str) -> dict[str, str]:
    return {
        "consumerGroup": "g",
        "topic": "orders",
        "queueId": str(record.queue_id),
        "extraInfo": properties_of(record)["POP_CK"],
        "offset": str(record.queue_offset),
        **changes,
    }


def test_popped_messages_are_hidden_until_their_time_is_over(peer: Peer) -> None:
    for queue_id in range(4):
        peer.send_message("orders", b"%d" % queue_id, queue_id=queue_id)

    first = pop(peer, invisible_ms=300)
    hidden = pop(peer)
    again = pop(peer, poll_ms=30_000)

    assert sorted(bodies_of(first)) == [b"0", b"1", b"2", b"3"]
    assert (hidden.code, hidden.body) == (210, b"")
    assert again.code == 0
    assert {record.reconsume_times for record in records_of(first)} == {0}
    assert {record.reconsume_times for record in records_of(again)} == {1}
    words = properties_of(records_of(first)[0])["POP_CK"].split(" ")
    assert len(words) == 8
    assert words[5] == "dueline"


def test_acknowledged_message_does_not_come_again(broker: RunningBroker, peer: Peer) -> None:
    peer.send_message("orders", b"done")
    (record,) = records_of(pop(peer, invisible_ms=200))

    assert peer.call(RequestCode.ACK_MESSAGE, receipt_ext(record)).code == 0

    assert pop(peer, poll_ms=500).code == 210
    assert broker.offsets.get("g", "orders")[0] == 1


def ack_entry(record: Record, bits: object = "AQ==", **changes: object) -> dict[str, object]:
    start, pop_time, invisible, revive, retry, _, queue, _ = properties_of(record)["POP_CK"].split()
    numbers = {"so": start, "q": queue, "rq": revive, "pt": pop_time, "it": invisible}
    own = {name: int(value) for name, value in numbers.items()}
    return {"c": "g", "t": "orders", "r": retry, **own, "b": bits, **changes}


def ack_batch(peer: Peer, *entries: dict[str, object]) -> int:
    body = json.dumps({"brokerName": "dueline", "acks": entries}).encode()
    return peer.call(RequestCode.BATCH_ACK_MESSAGE, {}, body).code


def test_batch_of_acknowledgements(broker: RunningBroker, peer: Peer) -> None:
    for number in range(4):
        peer.send_message("orders", b"%d" % number)
    records = records_of(pop(peer, invisible_ms=500))

    # As fastjson writes bits and as fastjson 2 does; the third is not ours and comes again.
    code = ack_batch(
        peer,
        ack_entry(records[0]),
        ack_entry(records[1], [1]),
        ack_entry(records[2], rq=7),
    )

    assert code == 0
    assert bodies_of(pop(peer, poll_ms=30_000)) == [b"2", b"3"]
    assert broker.offsets.get("g", "orders")[0] == 2


def test_batch_without_acknowledgements_and_with_bad_bits(peer: Peer) -> None:
    peer.send_message("orders", b"x")
    (record,) = records_of(pop(peer))

    assert ack_batch(peer) == 208
    assert ack_batch(peer, ack_entry(record, "")) == 208
    assert ack_batch(peer, ack_entry(record, "%")) == 29
    assert ack_batch(peer, ack_entry(record, ["x"])) == 29
    assert ack_batch(peer, ack_entry(record, [1] * 1_000)) == 29
    assert ack_batch(peer, ack_entry(record, so=record.queue_offset + 9)) == 0
    assert ack_batch(peer, ack_entry(record)) == 0


def test_changed_time_counts_and_the_old_receipt_does_not(peer: Peer) -> None:
    peer.send_message("orders", b"later")
    (record,) = records_of(pop(peer))
    before_ms = system_time_ms()

    changed = peer.call(
        RequestCode.CHANGE_MESSAGE_INVISIBLE_TIME, receipt_ext(record, invisibleTime="400")
    )
    stale = peer.call(RequestCode.ACK_MESSAGE, receipt_ext(record))
    again = pop(peer, poll_ms=30_000)

    assert changed.code == 0
    assert stale.code == 29
    assert bodies_of(again) == [b"later"]
    assert system_time_ms() >= before_ms + 400


def test_receipt_made_of_a_changed_answer_is_good(peer: Peer) -> None:
    peer.send_message("orders")
    (record,) = records_of(pop(peer))
    changed = peer.call(
        RequestCode.CHANGE_MESSAGE_INVISIBLE_TIME, receipt_ext(record, invisibleTime="60000")
    )
    words = properties_of(record)["POP_CK"].split(" ")
    words[1:4] = [changed.ext["popTime"], changed.ext["invisibleTime"], changed.ext["reviveQid"]]

    answer = peer.call(RequestCode.ACK_MESSAGE, receipt_ext(record, extraInfo=" ".join(words)))

    assert answer.code == 0


@pytest.mark.parametrize("extra", ["", "1 2 3", "0 1 2 x 0 dueline 0 0", "0 1 2 5 0 dueline 0 0"])
def test_foreign_receipts_are_refused(peer: Peer, extra: str) -> None:
    peer.send_message("orders")
    (record,) = records_of(pop(peer))

    answer = peer.call(RequestCode.ACK_MESSAGE, receipt_ext(record, extraInfo=extra))

    assert answer.code == 29


def test_receipt_survives_a_restart(tmp_path: Path) -> None:
    with RunningBroker(tmp_path) as broker, Peer(broker.address) as peer:
        peer.send_message("orders", b"done")
        peer.send_message("orders", b"not done")
        records = records_of(pop(peer, invisible_ms=500))

    with RunningBroker(tmp_path) as broker, Peer(broker.address) as peer:
        answer = peer.call(RequestCode.ACK_MESSAGE, receipt_ext(records[0]))
        again = pop(peer, poll_ms=30_000)

    assert answer.code == 0
    assert bodies_of(again) == [b"not done"]


def test_pop_of_a_topic_of_the_brokers_own_or_of_no_message_is_refused(peer: Peer) -> None:
    peer.send_message("orders")

    assert pop(peer, topic="RMQ_SYS_TRANS_HALF_TOPIC").code in (16, 17)
    assert pop(peer, count=0).code == 29


def test_waiting_pop_is_woken_and_filters(peer: Peer) -> None:
    peer.send_message("orders", b"red", TAGS="red")
    assert pop(peer, expression="blue").code == 210
    peer.send_message("orders", b"later", TAGS="blue", TIMER_DELAY_MS="300")

    assert bodies_of(pop(peer, expression="blue", poll_ms=30_000)) == [b"later"]


def test_after_the_last_attempt_it_is_a_dead_letter(peer: Peer) -> None:
    group = {"groupName": "g", "retryMaxTimes": 0}
    peer.call(RequestCode.UPDATE_AND_CREATE_SUBSCRIPTION_GROUP, {}, json.dumps(group).encode())
    peer.send_message("orders", b"bad")
    pop(peer, invisible_ms=1)

    assert pop(peer, poll_ms=300).code == 210

    assert bodies_of(peer.pull("%DLQ%g", suspend_ms=30_000)) == [b"bad"]


# Assignments


def assignment(peer: Peer, client_id: str, topic: str = "orders") -> list[tuple[str, int]]:
    body = {"topic": topic, "consumerGroup": "g", "clientId": client_id, "strategyName": "AVG"}
    answer = peer.call(RequestCode.QUERY_ASSIGNMENT, {}, json.dumps(body).encode())
    assert answer.code == 0
    found = json.loads(answer.body)["messageQueueAssignments"]
    return [(each["mode"], each["messageQueue"]["queueId"]) for each in found]


def test_queues_are_divided_among_the_clients_or_popped_by_all(
    broker: RunningBroker, peer: Peer
) -> None:
    peer.send_message("orders")
    with Peer(broker.address) as other:
        peer.heartbeat("c1", group="g", subscriptions={"orders": "*"})
        other.heartbeat("c2", group="g", subscriptions={"orders": "*"})
        assert assignment(peer, "c1") == [("PULL", 0), ("PULL", 1)]
        assert assignment(other, "c2") == [("PULL", 2), ("PULL", 3)]
        assert assignment(other, "nobody") == []

        mode = {"topic": "orders", "consumerGroup": "g", "mode": "POP", "popShareQueueNum": 0}
        peer.call(RequestCode.SET_MESSAGE_REQUEST_MODE, {}, json.dumps(mode).encode())

        assert assignment(peer, "c1") == [("POP", -1)]
        assert assignment(peer, "c1", "%RETRY%g") == [("PULL", 0)]
