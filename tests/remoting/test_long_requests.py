"""Requests that would take long: refused, done in parts, or done where they stop nobody."""

from __future__ import annotations

import json

import pytest
from tests.remoting.peer import Peer, bodies_of, records_of
from tests.remoting.serving import RunningBroker
from tests.unit.wire.test_fastjson import REFUSED_REQUESTS

from dueline.wire import RequestCode
from dueline.wire.batch import BatchMessage, encode_batch

LONG_CONDITION = " OR ".join(["a = 1"] * 250)


@pytest.mark.parametrize("name", REFUSED_REQUESTS)
@pytest.mark.parametrize(
    "code",
    [
        RequestCode.HEART_BEAT,
        RequestCode.LOCK_BATCH_MESSAGE_QUEUE,
        RequestCode.UNLOCK_BATCH_MESSAGE_QUEUE,
        RequestCode.CHECK_CLIENT_CONFIG,
        RequestCode.QUERY_ASSIGNMENT,
        RequestCode.SET_MESSAGE_REQUEST_MODE,
        RequestCode.BATCH_ACK_MESSAGE,
        RequestCode.UPDATE_AND_CREATE_SUBSCRIPTION_GROUP,
    ],
)
def test_body_that_would_take_long_is_refused(peer: Peer, code: RequestCode, name: str) -> None:
    answer = peer.call(code, {}, REFUSED_REQUESTS[name])

    assert answer.code == 29
    assert "body: expected" in (answer.remark or "")


def test_large_heartbeat_of_a_real_client_is_taken(broker: RunningBroker, peer: Peer) -> None:
    topics = {f"topic-with-a-long-name-{number:04}": "*" for number in range(700)}

    assert peer.heartbeat("c", group="g", subscriptions=topics).code == 0

    group = broker.broker.groups.get("g")
    assert group is not None
    assert len(group.subscriptions) == 700


@pytest.mark.parametrize(
    ("count", "code"), [(1_000, 0), (1_001, 29)], ids=["as many as may be", "more"]
)
def test_groups_of_one_heartbeat_are_counted(peer: Peer, count: int, code: int) -> None:
    groups = [{"groupName": f"p{number}"} for number in range(count)]
    body = json.dumps({"clientID": "c", "producerDataSet": groups}).encode()

    assert peer.call(RequestCode.HEART_BEAT, {}, body).code == code


def test_long_condition_is_refused_at_the_pull_and_at_the_check(peer: Peer) -> None:
    peer.send_message("orders")
    condition = " OR ".join(["a = 1"] * 5_000)
    config = {
        "clientId": "c",
        "group": "g",
        "subscriptionData": {"topic": "orders", "subString": condition, "expressionType": "SQL92"},
    }

    checked = peer.call(RequestCode.CHECK_CLIENT_CONFIG, {}, json.dumps(config).encode())
    pulled = peer.pull("orders", expression=condition, kind="SQL92")

    assert (checked.code, pulled.code) == (23, 23)
    assert "filter: expected at most" in (pulled.remark or "")


def test_pull_by_a_long_condition_answers_in_parts_and_passes_over_nothing(peer: Peer) -> None:
    for number in range(200):
        peer.send_message("orders", b"%d" % number, a="1" if number % 50 == 0 else "2")

    found: list[bytes] = []
    offset = 0
    pull_count = 0
    while (answer := peer.pull("orders", offset, expression=LONG_CONDITION, kind="SQL92")).code in (
        0,
        20,
    ):
        found += bodies_of(answer)
        assert int(answer.ext["nextBeginOffset"]) > offset
        offset = int(answer.ext["nextBeginOffset"])
        pull_count += 1

    assert found == [b"0", b"50", b"100", b"150"]
    assert offset == 200
    # A thousand words a message: what is looked at in one pull is bounded by words.
    assert pull_count >= 10


def test_patient_pull_by_a_long_condition_is_let_go_and_not_parked(peer: Peer) -> None:
    for _ in range(100):
        peer.send_message("orders", a="2")

    answer = peer.pull("orders", expression=LONG_CONDITION, kind="SQL92", suspend_ms=30_000)

    assert answer.code == 20
    assert 0 < int(answer.ext["nextBeginOffset"]) < 100


def test_large_batch_is_stored_whole_and_in_order(peer: Peer) -> None:
    messages = [BatchMessage(body=b"%05d" % number * 20) for number in range(3_000)]
    peer.send_message("orders", b"first")
    ext = {"a": "p", "b": "orders", "c": "TBW102", "d": "4", "e": "0", "f": "0", "g": "5", "h": "0"}

    answer = peer.call(RequestCode.SEND_BATCH_MESSAGE, {**ext, "m": "true"}, encode_batch(messages))

    assert answer.code == 0
    found: list[bytes] = []
    while (pulled := peer.pull("orders", 1 + len(found))).code == 0:
        found += bodies_of(pulled)
    assert found == [message.body for message in messages]


def test_batch_of_too_many_messages_is_refused_whole(peer: Peer) -> None:
    ext = {"a": "p", "b": "orders", "c": "TBW102", "d": "4", "e": "0", "f": "0", "g": "5", "h": "0"}
    body = encode_batch([BatchMessage(body=b"x")] * 50_000)

    answer = peer.call(RequestCode.SEND_BATCH_MESSAGE, {**ext, "m": "true"}, body)

    assert answer.code == 13
    assert peer.pull("orders").code != 0


@pytest.mark.parametrize("size", [34_000, 200_000])
def test_properties_that_cannot_be_stored_are_refused_before_they_are_read(
    peer: Peer, size: int
) -> None:
    assert peer.send_message("orders", names={"a": "x"}).code == 0
    ext = {"a": "p", "b": "orders", "c": "TBW102", "d": "4", "e": "0", "f": "0", "g": "5", "h": "0"}

    answer = peer.call(RequestCode.SEND_MESSAGE_V2, {**ext, "i": "a\x01" + "x" * size}, b"x")

    assert answer.code == 13
    assert "properties: expected at most 32767" in (answer.remark or "")


def test_batch_of_too_many_acknowledgements_is_refused(peer: Peer) -> None:
    peer.send_message("orders")
    ext = {
        **{"consumerGroup": "g", "topic": "orders", "queueId": "-1", "maxMsgNums": "32"},
        **{"invisibleTime": "60000", "pollTime": "0", "bornTime": "0", "initMode": "0"},
    }
    (record,) = records_of(peer.call(RequestCode.POP_MESSAGE, ext))
    numbers = {"so": record.queue_offset, "q": 0, "rq": 1_001, "pt": 1, "it": 1}
    entry = {"c": "g", "t": "orders", "r": "0", **numbers, "b": [255] * 128}

    answer = peer.call(
        RequestCode.BATCH_ACK_MESSAGE, {}, json.dumps({"acks": [entry] * 30}).encode()
    )

    assert answer.code == 29
    assert "acknowledgements" in (answer.remark or "")
