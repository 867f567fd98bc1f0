"""Every table that a peer can grow has a bound in bytes and a definite answer at the bound."""

from __future__ import annotations

import inspect
import json
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import cast

import pytest
from tests.remoting.peer import Peer, bodies_of
from tests.remoting.serving import RunningBroker

from dueline.budget import Budget
from dueline.server.remoting.limits import Limits
from dueline.wire import Command, RequestCode

BOUND = 96 << 10
ATTACK_COUNT = 1_500
BUSY = 2


def send_ext(topic: str, group: str = "p") -> dict[str, str]:
    ext = {"a": group, "b": topic, "c": "TBW102", "d": "4", "e": "0", "f": "0", "g": "5", "h": "0"}
    return {**ext, "i": "", "j": "0"}


def pop_ext(group: str) -> dict[str, str]:
    return {
        **{"consumerGroup": group, "topic": "orders", "queueId": "0", "maxMsgNums": "32"},
        **{"invisibleTime": "600000", "pollTime": "0", "bornTime": "0", "initMode": "0"},
    }


def beat(peer: Peer, body: dict[str, object]) -> Command:
    return peer.call(RequestCode.HEART_BEAT, {}, json.dumps(body).encode())


def consumer(group: str, *subscriptions: dict[str, object]) -> dict[str, object]:
    return {"groupName": group, "subscriptionDataSet": list(subscriptions)}


# The attacks: each call asks for one more thing to be remembered.


def value(peer: Peer, number: int) -> Command:
    ext = {"namespace": "n", "key": f"k{number}", "value": "v" * 5_000}
    return peer.call(RequestCode.PUT_KEY_VALUE_CONFIG, ext)


def growing_value(peer: Peer, number: int) -> Command:
    ext = {"namespace": "n", "key": "k", "value": "v" * 500 * number}
    return peer.call(RequestCode.PUT_KEY_VALUE_CONFIG, ext)


def mode(peer: Peer, number: int) -> Command:
    body = {"topic": "orders", "consumerGroup": f"g{number}", "mode": "PULL"}
    return peer.call(RequestCode.SET_MESSAGE_REQUEST_MODE, {}, json.dumps(body).encode())


def lock(peer: Peer, number: int) -> Command:
    queues = [{"brokerName": "b", "queueId": number, "topic": "orders"}]
    body = {"clientId": "c" * 500, "consumerGroup": "g", "mqSet": queues}
    return peer.call(RequestCode.LOCK_BATCH_MESSAGE_QUEUE, {}, json.dumps(body).encode())


def producer(peer: Peer, number: int) -> Command:
    return beat(peer, {"clientID": "c", "producerDataSet": [{"groupName": f"p{number}"}]})


def client(peer: Peer, number: int) -> Command:
    name = f"{number}" + "c" * 900
    return beat(peer, {"clientID": name, "producerDataSet": [{"groupName": "p"}]})


def subscription(peer: Peer, number: int) -> Command:
    own: dict[str, object] = {"topic": "orders", "subString": f"a{number} || " + "a" * 1_000}
    return beat(peer, {"clientID": "c", "consumerDataSet": [consumer(f"g{number}", own)]})


def tags(peer: Peer, number: int) -> Command:
    own: dict[str, object] = {
        **{"topic": "orders", "subString": "*", "codeSet": list(range(number))},
        "tagsSet": [str(each) for each in range(number)],
    }
    return beat(peer, {"clientID": "c", "consumerDataSet": [consumer("g", own)]})


def group(peer: Peer, number: int) -> Command:
    return beat(peer, {"clientID": "c", "consumerDataSet": [consumer(f"{number}" + "g" * 90)]})


def group_config(peer: Peer, number: int) -> Command:
    config = {"groupName": f"g{number}", "attributes": {"a": "x" * 2_000}}
    body = json.dumps(config).encode()
    return peer.call(RequestCode.UPDATE_AND_CREATE_SUBSCRIPTION_GROUP, {}, body)


def topic(peer: Peer, number: int) -> Command:
    return peer.call(RequestCode.SEND_MESSAGE_V2, send_ext(f"{number}" + "t" * 100), b"x")


def topic_config(peer: Peer, number: int) -> Command:
    ext = {
        **{"topic": f"t{number}", "defaultTopic": "TBW102", "readQueueNums": "1"},
        **{"writeQueueNums": "1", "perm": "6", "topicFilterType": "SINGLE_TAG"},
        **{"order": "false", "attributes": "+a=" + "x" * 2_000},
    }
    return peer.call(RequestCode.UPDATE_AND_CREATE_TOPIC, ext)


def offset(peer: Peer, number: int) -> Command:
    ext = {"consumerGroup": f"g{number}", "topic": "orders", "queueId": "0", "commitOffset": "0"}
    return peer.call(RequestCode.UPDATE_CONSUMER_OFFSET, ext)


def lane(peer: Peer, number: int) -> Command:
    answer = peer.call(RequestCode.POP_MESSAGE, pop_ext(f"g{number}"))
    return answer if answer.code == BUSY else Command(code=0, opaque=0)


def held(peer: Peer, number: int) -> Command:
    for _ in range(8):
        peer.send(RequestCode.SEND_MESSAGE_V2, send_ext("orders"), b"x", flag=2)
    answer = peer.call(RequestCode.POP_MESSAGE, pop_ext("g"))
    return answer if answer.code == BUSY else Command(code=0, opaque=0)


@dataclass(frozen=True, kw_only=True)
class Table:
    attack: Callable[[Peer, int], Command]
    bound: str
    """The constant that says how large it may be."""
    budget: Callable[[RunningBroker], Budget]
    is_name_server: bool = False


def of_handler(hub: int, code: RequestCode) -> Callable[[RunningBroker], Budget]:
    def budget(broker: RunningBroker) -> Budget:
        handler = broker.service.hubs[hub].table[code]
        return cast(Budget, inspect.unwrap(handler).__self__.budget)

    return budget


VALUES = "dueline.server.remoting.namesrv.VALUES_SIZE_BYTES_MAX"
GROUPS = "dueline.broker.groups.GROUPS_SIZE_BYTES_MAX"
CONFIGS = "dueline.broker.group_configs.GROUPS_SIZE_BYTES_MAX"
TOPICS = "dueline.broker.topics.TOPICS_SIZE_BYTES_MAX"
LANES = "dueline.broker.inflight.lanes.LANES_SIZE_BYTES_MAX"

TABLES = {
    "key and value pairs": Table(
        attack=value,
        bound=VALUES,
        budget=of_handler(1, RequestCode.PUT_KEY_VALUE_CONFIG),
        is_name_server=True,
    ),
    "one value, larger each time": Table(
        attack=growing_value,
        bound=VALUES,
        budget=of_handler(1, RequestCode.PUT_KEY_VALUE_CONFIG),
        is_name_server=True,
    ),
    "request modes": Table(
        attack=mode,
        bound="dueline.broker.assignments.MODES_SIZE_BYTES_MAX",
        budget=lambda broker: broker.broker.assignments.budget,
    ),
    "locks": Table(
        attack=lock,
        bound="dueline.broker.locks.LOCKS_SIZE_BYTES_MAX",
        budget=lambda broker: broker.broker.locks.budget,
    ),
    "producer groups": Table(
        attack=producer, bound=GROUPS, budget=lambda broker: broker.broker.groups.budget
    ),
    "client ids": Table(
        attack=client, bound=GROUPS, budget=lambda broker: broker.broker.groups.budget
    ),
    "subscriptions": Table(
        attack=subscription, bound=GROUPS, budget=lambda broker: broker.broker.groups.budget
    ),
    "tags of a subscription": Table(
        attack=tags, bound=GROUPS, budget=lambda broker: broker.broker.groups.budget
    ),
    "consumer groups": Table(
        attack=group, bound=CONFIGS, budget=lambda broker: broker.broker.group_table.budget
    ),
    "configurations of groups": Table(
        attack=group_config,
        bound=CONFIGS,
        budget=lambda broker: broker.broker.group_table.budget,
    ),
    "topics": Table(attack=topic, bound=TOPICS, budget=lambda broker: broker.broker.topics.budget),
    "configurations of topics": Table(
        attack=topic_config, bound=TOPICS, budget=lambda broker: broker.broker.topics.budget
    ),
    "consumer offsets": Table(
        attack=offset,
        bound="dueline.broker.consumer_offsets.OFFSETS_SIZE_BYTES_MAX",
        budget=lambda broker: broker.offsets.budget,
    ),
    "groups that receive": Table(
        attack=lane, bound=LANES, budget=lambda broker: broker.inflight._lanes.budget
    ),
    "messages that are held": Table(
        attack=held, bound=LANES, budget=lambda broker: broker.inflight._lanes.budget
    ),
}


@contextmanager
def attacked(folder: Path, table: Table) -> Iterator[tuple[RunningBroker, Peer]]:
    with RunningBroker(folder) as broker, Peer(broker.address) as peer:
        assert peer.send_message("orders", b"first").code == 0
        assert bodies_of(peer.pull("orders")) == [b"first"]  # and so its group is known
        address = broker.name_server if table.is_name_server else broker.address
        with Peer(address) as attacker:
            yield broker, attacker
        assert peer.send_message("orders", b"last").code == 0
        assert bodies_of(peer.pull("orders"))[:1] == [b"first"]


@pytest.mark.parametrize("name", TABLES)
def test_table_that_a_peer_grows_stays_below_its_bound(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    table = TABLES[name]
    monkeypatch.setattr(table.bound, BOUND)
    with attacked(tmp_path, table) as (broker, attacker):
        budget = table.budget(broker)
        found = [table.attack(attacker, number) for number in range(5)]
        assert {answer.code for answer in found} == {0}
        assert budget.size_bytes > 0

        number = 5
        while (answer := table.attack(attacker, number)).code == 0 and number < ATTACK_COUNT:
            assert budget.size_bytes <= BOUND
            number += 1

        assert answer.code == BUSY
        assert f"expected at most {BOUND} bytes" in (answer.remark or "")
        assert budget.size_bytes <= BOUND


@pytest.mark.parametrize("name", ["producer groups", "client ids", "subscriptions", "locks"])
def test_what_a_peer_leaves_behind_is_given_back(tmp_path: Path, name: str) -> None:
    table = TABLES[name]
    with attacked(tmp_path, table) as (broker, attacker):
        for number in range(50):
            assert table.attack(attacker, number).code == 0
        if name == "locks":
            queues = [{"brokerName": "b", "queueId": each, "topic": "orders"} for each in range(50)]
            body = {"clientId": "c" * 500, "consumerGroup": "g", "mqSet": queues}
            attacker.call(RequestCode.UNLOCK_BATCH_MESSAGE_QUEUE, {}, json.dumps(body).encode())
        else:
            broker.broker.groups.drop_channel(
                next(
                    each.channel
                    for each in (
                        *broker.broker.groups.producers("p"),
                        *broker.broker.groups.producers("p0"),
                        *broker.broker.groups.members("g0"),
                    )
                )
            )

        assert table.budget(broker).size_bytes == 0


def test_headers_of_producers_that_are_remembered_are_short(
    broker: RunningBroker, peer: Peer
) -> None:
    handler = broker.service.hubs[0].table[RequestCode.SEND_MESSAGE_V2]
    heads = inspect.unwrap(handler).__self__._heads
    for number in range(20):
        ext = send_ext("orders", f"{number}" + "p" * 50_000)
        assert peer.call(RequestCode.SEND_MESSAGE_V2, ext, b"x").code == 0
        ext = {**send_ext("orders", f"p{number}"), "i": "a\x01" + "x" * 30_000}
        assert peer.call(RequestCode.SEND_MESSAGE_V2, ext, b"x").code == 0

    assert len(heads) == 20
    assert all(len(str(key)) < 2_000 for key in heads)
    assert all(len(str(head)) < 2_000 for head in heads.values())


def test_requests_that_wait_are_bounded_in_bytes(tmp_path: Path) -> None:
    """A pull may bring a body that it does not need, and waits with it."""
    limits = Limits(request_size_bytes_max=4 << 20)
    with RunningBroker(tmp_path, limits=limits) as broker, Peer(broker.address) as peer:
        peer.send_message("orders")
        ext = peer.pull_ext("orders", 1, suspend_ms=20_000)
        opaques = [peer.send(RequestCode.PULL_MESSAGE, ext, bytes(1 << 20)) for _ in range(10)]

        busy = [peer.wait_answer(opaque) for opaque in opaques[3:]]

        assert {answer.code for answer in busy} == {BUSY}
        with Peer(broker.address) as other:
            assert other.send_message("orders", b"more").code == 0
        assert [bodies_of(peer.wait_answer(each)) for each in opaques[:3]] == [[b"more"]] * 3


@pytest.mark.parametrize(
    "body",
    [
        {"clientID": "c" * 2_000, "producerDataSet": [{"groupName": "p"}]},
        {"clientID": "c", "producerDataSet": [{"groupName": "p" * 200}]},
        {"clientID": "c", "consumerDataSet": [{"groupName": "g", "consumeType": "x" * 200}]},
        {"clientID": "c", "consumerDataSet": [{"groupName": "g" * 200}]},
    ],
    ids=["client id", "producer group", "consume type", "consumer group"],
)
def test_names_longer_than_any_real_one_are_refused(peer: Peer, body: dict[str, object]) -> None:
    answer = beat(peer, body)

    assert answer.code == 29
    assert "expected" in (answer.remark or "")
