"""Peers that ask and do not read, against a broker process: its memory stays bounded."""

from __future__ import annotations

import contextlib
import json
import sys
from collections.abc import Iterator
from contextlib import ExitStack

import pytest
from tests.remoting.raw import Raw, Served, frame, served
from tests.waiting import wait_until

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")

MIB = 1 << 20
SEND, PULL, QUERY, VIEW, HEARTBEAT, REPLY = 310, 11, 12, 33, 34, 325
TOPICS = 21
POP = 200050


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    with served(tmp_path_factory.mktemp("flood")) as running:
        yield running


def send_ext(topic: str, properties: str = "") -> dict[str, str]:
    return {
        **{"a": "p", "b": topic, "c": "TBW102", "d": "4", "e": "0", "f": "0"},
        **{"g": "1", "h": "0", "i": properties, "j": "0"},
    }


def pull_ext(topic: str) -> dict[str, str]:
    return {
        **{"consumerGroup": "g", "topic": topic, "queueId": "0", "queueOffset": "0"},
        **{"maxMsgNums": "1024", "commitOffset": "0", "suspendTimeoutMillis": "0"},
        **{"subVersion": "0", "sysFlag": "4", "subscription": "*", "expressionType": "TAG"},
    }


def pop_ext(topic: str) -> dict[str, str]:
    return {
        **{"consumerGroup": "g", "topic": topic, "queueId": "-1", "maxMsgNums": "32"},
        **{"invisibleTime": "60000", "pollTime": "1000", "bornTime": "0", "initMode": "0"},
    }


def fill(port: int, topic: str, *, count: int = 40, size: int = MIB // 4) -> str:
    """Messages to ask for; returns the id of the last."""
    with Raw(port) as peer:
        for _ in range(count):
            header, _ = peer.call(SEND, send_ext(topic, "KEYS\x01k"), bytes(size))
            assert header["code"] == 0
    return str(header["extFields"]["msgId"])


def push(peer: Raw, data: bytes) -> None:
    """Send as much of it as the broker takes; it may stop reading, or close."""
    peer.socket.settimeout(0.3)
    with contextlib.suppress(OSError):
        peer.socket.sendall(data)


def highest(broker: Served, *, turns: int = 40) -> int:
    """The most memory within some requests' time: each turn asks the broker for something."""
    found = 0
    with Raw(broker.remoting) as other:
        for _ in range(turns):
            header, _ = other.call(SEND, send_ext("small"), b"x")
            assert header["code"] == 0
            found = max(found, broker.memory_bytes())
    return found


def requests_of(kind: str, topic: str, message_id: str) -> tuple[int, dict[str, str]]:
    query = {"topic": topic, "key": "k", "maxNum": "64", "beginTimestamp": "0"}
    return {
        "pull": (PULL, pull_ext(topic)),
        "pop": (POP, pop_ext(topic)),
        "query": (QUERY, {**query, "endTimestamp": str(1 << 61)}),
        "view": (VIEW, {"offset": str(int(message_id[16:], 16))}),
    }[kind]


@pytest.mark.parametrize("kind", ["pull", "pop", "query", "view"])
def test_pipelined_requests_of_a_peer_that_does_not_read_cost_little(
    broker: Served, kind: str
) -> None:
    topic = f"large-{kind}"  # of its own: an answer has as many messages as the topic
    code, ext = requests_of(kind, topic, fill(broker.remoting, topic))
    before = highest(broker)
    data = b"".join(frame(code, ext, opaque=number) for number in range(2_000))

    with Raw(broker.remoting, receive_buffer=4096) as peer:
        push(peer, data)
        after = highest(broker)

    assert after - before < 60 * MIB


def test_pipelined_requests_are_all_answered_when_they_are_read(broker: Served) -> None:
    """Bounded is not forgotten: 300 MB of answers by a room of a few."""
    fill(broker.remoting, "large")
    before = highest(broker)

    with Raw(broker.remoting) as peer:
        data = b"".join(frame(PULL, pull_ext("large"), opaque=each) for each in range(300))
        peer.socket.sendall(data)
        answers = [peer.read() for _ in range(300)]

    assert {header["opaque"] for header, _ in answers} == set(range(300))
    assert {header["code"] for header, _ in answers} == {0}
    assert min(len(body) for _, body in answers) > MIB // 4, "each has a message at least"
    assert highest(broker) - before < 60 * MIB


def test_many_peers_that_do_not_read_are_bounded_together(broker: Served) -> None:
    fill(broker.remoting, "large")
    before = highest(broker)
    data = b"".join(frame(PULL, pull_ext("large"), opaque=number) for number in range(200))

    with ExitStack() as stack:
        found = 0
        for _ in range(100):
            peer = stack.enter_context(Raw(broker.remoting, receive_buffer=4096))
            push(peer, data)
            found = max(found, highest(broker, turns=2))
        found = max(found, highest(broker))

    assert found - before < 400 * MIB


def test_replies_to_a_client_that_does_not_read_are_refused(broker: Served) -> None:
    beat = {"clientID": "asker", "producerDataSet": [{"groupName": "p"}]}
    properties = "REPLY_TO_CLIENT\x01asker"
    before = highest(broker)

    with Raw(broker.remoting, receive_buffer=4096) as asker, Raw(broker.remoting) as replier:
        assert asker.call(HEARTBEAT, {}, json.dumps(beat).encode())[0]["code"] == 0
        codes = [
            replier.call(REPLY, send_ext("replies", properties), bytes(3 * MIB))[0]["code"]
            for _ in range(100)
        ]
        found = broker.memory_bytes()

    assert codes[0] == 0
    assert 1 in codes
    assert codes.count(0) < 20
    assert found - before < 80 * MIB


def test_client_that_reads_again_gets_replies_again(broker: Served) -> None:
    beat = {"clientID": "asker", "producerDataSet": [{"groupName": "p"}]}
    properties = "REPLY_TO_CLIENT\x01asker"
    with Raw(broker.remoting, receive_buffer=4096) as asker, Raw(broker.remoting) as replier:
        assert asker.call(HEARTBEAT, {}, json.dumps(beat).encode())[0]["code"] == 0

        def reply() -> int:
            ext = send_ext("replies", properties)
            return int(replier.call(REPLY, ext, bytes(3 * MIB))[0]["code"])

        sent = 0
        while reply() == 0:
            sent += 1
        for _ in range(sent):
            header, body = asker.read()
            assert (header["code"], len(body)) == (326, 3 * MIB)

        wait_until(lambda: reply() == 0, what="a reply to pass again")


PUT_VALUE, SET_MODE, LOCK = 100, 401, 41


def remembered(kind: str, number: int) -> tuple[int, dict[str, str], bytes]:
    """A request that asks the broker to remember as much as one may."""
    name = f"{number:06}"
    beat = {"clientID": name + "c" * 1_000, "producerDataSet": [{"groupName": name}]}
    filters = [{"topic": f"t{each}", "subString": name + "x" * 16_000} for each in range(60)]
    subscribed = {
        "clientID": name,
        "consumerDataSet": [{"groupName": name, "subscriptionDataSet": filters}],
    }
    queues = [{"brokerName": "", "queueId": each, "topic": name} for each in range(4_000)]
    locks = {"clientId": "c" * 1_000, "consumerGroup": "g", "mqSet": queues}
    values = {"namespace": "n", "key": name, "value": "v" * 200_000}
    return {
        "values": (PUT_VALUE, values, b""),
        "clients": (HEARTBEAT, {}, json.dumps(beat).encode()),
        "subscriptions": (HEARTBEAT, {}, json.dumps(subscribed).encode()),
        "locks": (LOCK, {}, json.dumps(locks).encode()),
    }[kind]


def test_many_small_clients_are_all_remembered(broker: Served) -> None:
    before = highest(broker)

    with Raw(broker.remoting) as peer:
        codes = [peer.call(*remembered("clients", each))[0]["code"] for each in range(500)]

    assert codes == [0] * 500
    assert highest(broker) - before < 100 * MIB


@pytest.mark.parametrize(
    ("kind", "count", "taken_max"),
    [
        ("values", 400, 20),  # 200 kB each, of 4 MiB
        ("locks", 100, 16),  # 4,000 queues with 1 kB each, of 16 MiB
        ("subscriptions", 200, 70),  # 960 kB each, of 64 MiB
    ],
)
def test_tables_that_a_peer_grows_refuse_what_is_too_much(
    broker: Served, kind: str, count: int, taken_max: int
) -> None:
    before = highest(broker)

    with Raw(broker.names if kind == "values" else broker.remoting) as peer:
        answers = [peer.call(*remembered(kind, number)) for number in range(count)]
    codes = [header["code"] for header, _ in answers]

    taken = codes.count(0)
    assert 0 < taken <= taken_max
    assert codes == [0] * taken + [2] * (count - taken), "full stays full"
    assert "expected at most" in answers[-1][0]["remark"]
    assert highest(broker) - before < 100 * MIB
