"""Sends whose headers are alike are decoded once: what differs must still be seen each time."""

from __future__ import annotations

import pytest
from tests.remoting.peer import Peer, records_of
from tests.remoting.serving import RunningBroker

from dueline.wire import RequestCode

EXT = {"a": "p", "b": "t", "c": "TBW102", "d": "4", "e": "0", "f": "0", "g": "5", "h": "0"}


def test_time_and_properties_are_each_messages_own(peer: Peer) -> None:
    for number in range(3):
        ext = {**EXT, "g": str(number), "i": f"KEYS\x01k{number}\x02WAIT\x01true"}
        assert peer.call(RequestCode.SEND_MESSAGE_V2, ext, b"x").code == 0

    records = records_of(peer.pull("t"))

    assert [record.born_ms for record in records] == [0, 1, 2]
    assert [record.properties.partition(b"\x02")[0] for record in records] == [
        b"KEYS\x01k0",
        b"KEYS\x01k1",
        b"KEYS\x01k2",
    ]
    assert all(b"WAIT" not in record.properties for record in records)


@pytest.mark.parametrize("born", [None, "", "x", "1_0", "9" * 20])
def test_bad_time_after_good_ones_is_refused(peer: Peer, born: str | None) -> None:
    assert peer.call(RequestCode.SEND_MESSAGE_V2, EXT, b"x").code == 0
    ext = {name: value for name, value in EXT.items() if name != "g"}
    if born is not None:
        ext["g"] = born

    answer = peer.call(RequestCode.SEND_MESSAGE_V2, ext, b"x")

    assert answer.code == 29
    assert (answer.remark or "").startswith("SendRequest: g: expected")


def test_topic_that_was_closed_is_closed_for_known_headers(
    broker: RunningBroker, peer: Peer
) -> None:
    assert peer.call(RequestCode.SEND_MESSAGE_V2, EXT, b"x").code == 0
    topic = {
        "topic": "t",
        "defaultTopic": "TBW102",
        "readQueueNums": "4",
        "writeQueueNums": "4",
        "perm": "4",
        "topicFilterType": "SINGLE_TAG",
        "topicSysFlag": "0",
        "order": "false",
    }
    assert peer.call(RequestCode.UPDATE_AND_CREATE_TOPIC, topic).code == 0

    assert peer.call(RequestCode.SEND_MESSAGE_V2, EXT, b"x").code == 16
    assert broker.store.offset_range("t", 0) == (0, 1)


def test_many_sends_at_once_are_answered_each_with_its_own_place(peer: Peer) -> None:
    assert peer.call(RequestCode.SEND_MESSAGE_V2, EXT, b"x").code == 0  # the topic is there now
    opaques = [
        peer.send(RequestCode.SEND_MESSAGE_V2, {**EXT, "i": f"KEYS\x01{number}"}, b"%d" % number)
        for number in range(100)
    ]
    answers = [peer.wait_answer(opaque) for opaque in opaques]

    assert [answer.code for answer in answers] == [0] * 100
    assert [int(answer.ext["queueOffset"]) for answer in answers] == list(range(1, 101))
