"""The same cases for consumers of either protocol; a door that decides differently fails.

Where it applies a 4.x consumer that pulls is asked as well: it has no receipts, but the same
permissions, filters, retries and dead letters.
"""

from __future__ import annotations

import itertools
import json
import threading
from collections.abc import Iterator
from dataclasses import replace

import pytest
from tests.contract.receivers import RECEIVERS, Ask, Got, Receiver, Refusal, grpc_5x, peer_of
from tests.remoting.peer import Peer, bodies_of, properties_of, records_of
from tests.unit.server.local import carry, running, small_config
from tests.waiting import PATIENCE_S

from dueline.server.process import BrokerProcess
from dueline.wire import RequestCode

HOUR_MS = 3_600_000
WAIT_MS = 15_000
ROOM = {"store.commit_segment_size": "16MiB", "store.delay_segment_size": "16MiB"}

_NUMBERS = itertools.count()


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[BrokerProcess]:
    folder = tmp_path_factory.mktemp("receiving")
    ports = {"listen.grpc": "127.0.0.1:0", "grpc.invisible_min": "10ms"}
    with running(small_config(folder, **ports, **ROOM)) as broker:
        yield broker


@pytest.fixture
def peer(broker: BrokerProcess) -> Iterator[Peer]:
    with peer_of(broker) as peer:
        yield peer


@pytest.fixture(params=RECEIVERS)
def receiver(broker: BrokerProcess, request: pytest.FixtureRequest) -> Iterator[Receiver]:
    with RECEIVERS[request.param](broker) as receiver:
        yield receiver


@pytest.fixture
def ask() -> Ask:
    number = next(_NUMBERS)
    return Ask(topic=f"topic-{number}", group=f"group-{number}")


def set_group(peer: Peer, name: str, **fields: object) -> None:
    body = json.dumps({"groupName": name, **fields}).encode()
    assert peer.call(RequestCode.UPDATE_AND_CREATE_SUBSCRIPTION_GROUP, {}, body).code == 0


def bodies(found: list[Got]) -> list[bytes]:
    return [got.body for got in found]


# Receiving and acknowledging


def test_received_is_hidden_and_acknowledged_is_gone(
    peer: Peer, receiver: Receiver, ask: Ask
) -> None:
    peer.send_message(ask.topic, b"a")
    (got,) = receiver.receive(replace(ask, invisible_ms=300))
    assert receiver.receive(ask) == []

    receiver.acknowledge([got])
    receiver.acknowledge([got])  # who asks again wants to be sure

    assert receiver.receive(replace(ask, wait_ms=500)) == []


def test_not_acknowledged_in_time_comes_again_one_attempt_older(
    peer: Peer, receiver: Receiver, ask: Ask
) -> None:
    peer.send_message(ask.topic, b"a")
    (first,) = receiver.receive(replace(ask, invisible_ms=50))

    (again,) = receiver.receive(replace(ask, wait_ms=WAIT_MS))

    assert (first.attempt, again.attempt) == (1, 2)
    with pytest.raises(Refusal):
        receiver.acknowledge([first])
    receiver.acknowledge([again])


def test_groups_receive_independently(peer: Peer, receiver: Receiver, ask: Ask) -> None:
    peer.send_message(ask.topic, b"a")
    (got,) = receiver.receive(ask)
    receiver.acknowledge([got])
    other = replace(ask, group=f"{ask.group}-other")

    assert bodies(receiver.receive(other)) == [b"a"]
    with pytest.raises(Refusal):
        receiver.acknowledge([replace(got, ask=replace(ask, group=f"{ask.group}-third"))])


def test_many_are_acknowledged_together(peer: Peer, receiver: Receiver, ask: Ask) -> None:
    for number in range(5):
        peer.send_message(ask.topic, b"%d" % number, queue_id=number % 2)
    found = receiver.receive(replace(ask, invisible_ms=300))
    assert sorted(bodies(found)) == [b"0", b"1", b"2", b"3", b"4"]

    receiver.acknowledge([got for got in found if got.body != b"3"])

    assert bodies(receiver.receive(replace(ask, wait_ms=WAIT_MS))) == [b"3"]


def test_batch_is_bounded_by_what_was_asked_and_by_the_broker(
    peer: Peer, receiver: Receiver, ask: Ask
) -> None:
    for number in range(40):
        peer.send_message(ask.topic, b"%d" % number)

    assert len(receiver.receive(replace(ask, count=3))) == 3
    assert len(receiver.receive(replace(ask, count=1_000))) == 32
    assert len(receiver.receive(ask)) == 5


def test_waiting_consumer_is_woken(peer: Peer, receiver: Receiver, ask: Ask) -> None:
    peer.send_message(ask.topic, b"first")
    receiver.receive(ask)
    found: list[Got] = []
    waiting = threading.Thread(
        target=lambda: found.extend(receiver.receive(replace(ask, wait_ms=WAIT_MS)))
    )
    waiting.start()
    peer.send_message(ask.topic, b"news")
    waiting.join(PATIENCE_S)

    assert bodies(found) == [b"news"]


def test_attempts_are_counted_by_the_group_whatever_its_clients_speak(
    broker: BrokerProcess, peer: Peer, ask: Ask
) -> None:
    peer.send_message(ask.topic, b"a")
    attempts = []
    for name in ("4.x POP", "5.x", "4.x POP"):
        with RECEIVERS[name](broker) as receiver:
            (got,) = receiver.receive(replace(ask, invisible_ms=20, wait_ms=WAIT_MS))
            attempts.append(got.attempt)

    assert attempts == [1, 2, 3]


# Filters


def test_only_wanted_tags_come(peer: Peer, receiver: Receiver, ask: Ask) -> None:
    for tag in ("red", "green", "blue"):
        peer.send_message(ask.topic, tag.encode(), TAGS=tag)

    assert bodies(receiver.receive(replace(ask, tags="red || blue"))) == [b"red", b"blue"]
    assert bodies_of(peer.pull(ask.topic, expression="red || blue")) == [b"red", b"blue"]


# Extending


def test_extended_is_hidden_for_longer_and_its_old_receipt_is_void(
    peer: Peer, receiver: Receiver, ask: Ask
) -> None:
    peer.send_message(ask.topic, b"a")
    (got,) = receiver.receive(replace(ask, invisible_ms=1_000))

    extended = receiver.extend(got, HOUR_MS)

    with pytest.raises(Refusal):
        receiver.acknowledge([got])
    with pytest.raises(Refusal):
        receiver.extend(got, 1_000)
    assert receiver.receive(replace(ask, wait_ms=1_500)) == []
    receiver.acknowledge([extended])
    with pytest.raises(Refusal):
        receiver.extend(extended, 1_000)


def test_extended_by_nothing_comes_at_once(peer: Peer, receiver: Receiver, ask: Ask) -> None:
    peer.send_message(ask.topic, b"a")
    (got,) = receiver.receive(ask)

    receiver.extend(got, 0)

    assert [again.attempt for again in receiver.receive(replace(ask, wait_ms=WAIT_MS))] == [2]


@pytest.mark.parametrize("invisible_ms", [-1, 12 * HOUR_MS + 1])
def test_duration_that_cannot_be_is_refused(
    peer: Peer, receiver: Receiver, ask: Ask, invisible_ms: int
) -> None:
    peer.send_message(ask.topic, b"a")
    with pytest.raises(Refusal):
        receiver.receive(replace(ask, invisible_ms=invisible_ms))
    (got,) = receiver.receive(ask)

    with pytest.raises(Refusal):
        receiver.extend(got, invisible_ms)

    receiver.acknowledge([got])


# Order


def test_message_group_comes_one_at_a_time(peer: Peer, receiver: Receiver, ask: Ask) -> None:
    for body in (b"a1", b"a2"):
        peer.send_message(ask.topic, body, __SHARDINGKEY="a")
    peer.send_message(ask.topic, b"b1", __SHARDINGKEY="b")

    found = receiver.receive(replace(ask, invisible_ms=300))
    assert bodies(found) == [b"a1", b"b1"]
    receiver.acknowledge(found[1:])

    (again,) = receiver.receive(replace(ask, wait_ms=WAIT_MS))
    assert (again.body, again.attempt) == (b"a1", 2)
    receiver.acknowledge([again])
    assert bodies(receiver.receive(replace(ask, wait_ms=WAIT_MS))) == [b"a2"]


# Who may


@pytest.mark.parametrize("count", [0, -1])
def test_batch_of_nothing_is_refused(peer: Peer, receiver: Receiver, ask: Ask, count: int) -> None:
    peer.send_message(ask.topic, b"a")

    with pytest.raises(Refusal):
        receiver.receive(replace(ask, count=count))


def test_closed_group_receives_nothing(peer: Peer, receiver: Receiver, ask: Ask) -> None:
    peer.send_message(ask.topic, b"a")
    set_group(peer, ask.group, consumeEnable=False)

    with pytest.raises(Refusal):
        receiver.receive(ask)
    assert peer.pull(ask.topic, group=ask.group).code == 16


def test_closed_topic_is_not_read(peer: Peer, receiver: Receiver, ask: Ask) -> None:
    topic = {"topic": ask.topic, "defaultTopic": "TBW102", "readQueueNums": "4"}
    rest = {"writeQueueNums": "4", "perm": "2", "topicFilterType": "SINGLE_TAG", "order": "false"}
    assert peer.call(RequestCode.UPDATE_AND_CREATE_TOPIC, {**topic, **rest}).code == 0
    peer.send_message(ask.topic, b"a")

    with pytest.raises(Refusal):
        receiver.receive(ask)
    assert peer.pull(ask.topic, group=ask.group).code == 16


@pytest.mark.parametrize(
    "topic", ["RMQ_SYS_TRANS_HALF_TOPIC", "RMQ_SYS_TRANS_OP_HALF_TOPIC", "SCHEDULE_TOPIC_XXXX"]
)
def test_topics_of_the_broker_are_received_by_nobody(
    receiver: Receiver, ask: Ask, topic: str
) -> None:
    with pytest.raises(Refusal):
        receiver.receive(replace(ask, topic=topic))


@pytest.mark.parametrize("name", ["", "a b", "x" * 256])
def test_names_that_cannot_be_are_refused(
    peer: Peer, receiver: Receiver, ask: Ask, name: str
) -> None:
    peer.send_message(ask.topic, b"a")

    with pytest.raises(Refusal):
        receiver.receive(replace(ask, group=name))
    with pytest.raises(Refusal):
        receiver.receive(replace(ask, topic=name))


def test_foreign_receipts_are_refused(peer: Peer, receiver: Receiver, ask: Ask) -> None:
    peer.send_message(ask.topic, b"a")
    (got,) = receiver.receive(ask)

    for receipt in ("", "x", "1 2 3", got.receipt[:-1] + "\x00", "AAAA" * 9):
        foreign = replace(got, receipt=receipt)
        with pytest.raises(Refusal):
            receiver.acknowledge([foreign])
        with pytest.raises(Refusal):
            receiver.extend(foreign, 1_000)

    receiver.acknowledge([got])


# Retries and dead letters


def dead_letters(peer: Peer, group: str) -> list[tuple[bytes, str | None]]:
    """Body and first topic of a group's dead letters, read as anybody can."""
    answer = peer.pull(f"%DLQ%{group}", group=f"{group}-reader", suspend_ms=WAIT_MS)
    return [
        (record.body, properties_of(record).get("DLQ_ORIGIN_TOPIC"))
        for record in records_of(answer)
    ]


def test_message_is_a_dead_letter_after_its_last_attempt(
    peer: Peer, receiver: Receiver, ask: Ask
) -> None:
    set_group(peer, ask.group, retryMaxTimes=1)
    peer.send_message(ask.topic, b"bad")
    brief = replace(ask, invisible_ms=20, wait_ms=WAIT_MS)
    attempts = [receiver.receive(brief)[0].attempt for _ in range(2)]
    peer.send_message(ask.topic, b"good")

    # The dead one is put away by whoever looks when its time is over.
    (good,) = receiver.receive(ask)
    receiver.acknowledge([good])
    assert receiver.receive(replace(ask, wait_ms=500)) == []

    assert attempts == [1, 2]
    assert good.body == b"good"
    assert dead_letters(peer, ask.group) == [(b"bad", ask.topic)]


def test_pulled_message_that_is_sent_back_too_often_is_the_same_dead_letter(
    peer: Peer, ask: Ask
) -> None:
    set_group(peer, ask.group, retryMaxTimes=0)
    peer.send_message(ask.topic, b"bad")
    (record,) = records_of(peer.pull(ask.topic, group=ask.group))

    ext = {"offset": str(record.position), "group": ask.group, "delayLevel": "0"}
    assert peer.call(RequestCode.CONSUMER_SEND_MESSAGE_BACK, ext).code == 0

    assert dead_letters(peer, ask.group) == [(b"bad", ask.topic)]


def test_forwarded_message_is_the_same_dead_letter(
    broker: BrokerProcess, peer: Peer, ask: Ask
) -> None:
    peer.send_message(ask.topic, b"bad")
    with grpc_5x(broker) as receiver:
        (got,) = receiver.receive(ask)
        receiver._caller.call(  # type: ignore[attr-defined]
            "ForwardMessageToDeadLetterQueue",
            group={"name": ask.group},
            topic={"name": ask.topic},
            receipt_handle=got.receipt,
        )
        receiver.acknowledge([got])

    assert dead_letters(peer, ask.group) == [(b"bad", ask.topic)]


def test_dead_letters_are_received_like_any_message(
    peer: Peer, receiver: Receiver, ask: Ask
) -> None:
    set_group(peer, ask.group, retryMaxTimes=0)
    peer.send_message(ask.topic, b"bad")
    (record,) = records_of(peer.pull(ask.topic, group=ask.group))
    ext = {"offset": str(record.position), "group": ask.group, "delayLevel": "-1"}
    assert peer.call(RequestCode.CONSUMER_SEND_MESSAGE_BACK, ext).code == 0

    letters = Ask(topic=f"%DLQ%{ask.group}", group=f"{ask.group}-reader", wait_ms=WAIT_MS)
    (letter,) = receiver.receive(letters)
    receiver.acknowledge([letter])

    assert letter.body == b"bad"


def test_message_that_a_4x_consumer_sent_back_comes_to_both_kinds_of_consumers(
    broker: BrokerProcess, peer: Peer, ask: Ask
) -> None:
    """POP consumers of 4.x ask for the retry topic themselves, as those that pull do."""
    peer.heartbeat("c", group=ask.group, subscriptions={ask.topic: "*"})
    peer.send_message(ask.topic, b"again")
    (record,) = records_of(peer.pull(ask.topic, group=ask.group))
    ext = {"offset": str(record.position), "group": ask.group, "delayLevel": "1"}
    assert peer.call(RequestCode.CONSUMER_SEND_MESSAGE_BACK, ext).code == 0
    peer.call(RequestCode.UPDATE_CONSUMER_OFFSET, commit_ext(ask, record.queue_id))
    carry(broker.store)

    retries = f"%RETRY%{ask.group}"
    assert bodies_of(peer.pull(retries, group=ask.group, suspend_ms=WAIT_MS)) == [b"again"]
    with grpc_5x(broker) as receiver:
        (got,) = receiver.receive(replace(ask, wait_ms=WAIT_MS))
        assert (got.body, got.attempt) == (b"again", 2)
        receiver.acknowledge([got])
    with RECEIVERS["4.x POP"](broker) as receiver:
        assert receiver.receive(replace(ask, topic=retries)) == []  # the group is done with it


def commit_ext(ask: Ask, queue_id: int) -> dict[str, str]:
    return {
        "consumerGroup": ask.group,
        "topic": ask.topic,
        "queueId": str(queue_id),
        "commitOffset": "1",
    }
