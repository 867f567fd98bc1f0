"""Every request of every door, asked by nobody, with a wrong secret, without rights and with them.

The lists are taken from the running broker, so a new request is in the matrix by itself, and
fails it if it asks nobody. What a user without any rights may do is written down here.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyarrow import flight as arrow
from tests.access.people import (
    ADMIN,
    CLERK,
    GUEST,
    STRANGER,
    WRONG,
    SigningCaller,
    SigningPeer,
    addresses,
    flight,
    guarded,
    pipeline,
)
from tests.waiting import PATIENCE_S

from dueline.broker.pipeline import SCHEDULE_SCHEMA
from dueline.credentials import Credentials
from dueline.errors import BrokerError, Forbidden, Unauthenticated
from dueline.flight import console, operators, protocol
from dueline.server.flight.requirements import ACTIONS
from dueline.server.grpc.schema import METHODS
from dueline.server.grpc.stubs import message_class
from dueline.server.process import BrokerProcess
from dueline.store.schema import routed_schema
from dueline.wire import RequestCode as Code

NO_PERMISSION = 16
UNAUTHORIZED, FORBIDDEN = 40_100, 40_300
NOBODIES = [None, WRONG, STRANGER]

TOPIC, GROUP = "payments", "strangers"
QUEUE = {"brokerName": "b", "queueId": 0, "topic": TOPIC}
FIELDS = {
    **{"topic": TOPIC, "b": TOPIC, "a": "p", "c": "TBW102", "d": "4", "e": "0", "f": "0"},
    **{"g": "0", "h": "0", "consumerGroup": GROUP, "group": GROUP, "groupName": GROUP},
    **{"queueId": "0", "queueOffset": "0", "maxMsgNums": "1", "sysFlag": "4", "commitOffset": "0"},
    **{"suspendTimeoutMillis": "0", "subVersion": "0", "subscription": "*", "clientID": "c"},
    **{"clientId": "c", "offset": "0", "delayLevel": "0", "timestamp": "0", "key": "k"},
    **{"maxNum": "1", "beginTimestamp": "0", "endTimestamp": "1", "recallHandle": "h"},
    **{"producerGroup": "p", "tranStateTableOffset": "0", "commitLogOffset": "0"},
    **{"commitOrRollback": "8", "msgId": "m", "namespace": "n", "value": "v", "cluster": "x"},
    **{"brokerName": "x", "isOrder": "false", "isForce": "true", "index": "0", "count": "1"},
    **{"username": "nobody", "subject": "User:nobody", "invisibleTime": "60000"},
    **{"pollTime": "0", "bornTime": "0", "initMode": "0", "extraInfo": "x", "perm": "6"},
    **{"readQueueNums": "1", "writeQueueNums": "1", "topicFilterType": "SINGLE_TAG"},
    **{"defaultTopic": "TBW102", "password": "12345678"},
}
BODIES: dict[int, Any] = {
    Code.HEART_BEAT: {
        "clientID": "c",
        "consumerDataSet": [
            {"groupName": GROUP, "subscriptionDataSet": [{"topic": TOPIC, "subString": "*"}]}
        ],
    },
    Code.LOCK_BATCH_MESSAGE_QUEUE: {"clientId": "c", "consumerGroup": GROUP, "mqSet": [QUEUE]},
    Code.UNLOCK_BATCH_MESSAGE_QUEUE: {"clientId": "c", "consumerGroup": GROUP, "mqSet": [QUEUE]},
    Code.QUERY_ASSIGNMENT: {"topic": TOPIC, "consumerGroup": GROUP, "clientId": "c"},
    Code.SET_MESSAGE_REQUEST_MODE: {"topic": TOPIC, "consumerGroup": GROUP, "mode": "POP"},
    Code.UPDATE_AND_CREATE_SUBSCRIPTION_GROUP: {"groupName": GROUP},
    Code.BATCH_ACK_MESSAGE: {
        "acks": [
            {"c": GROUP, "t": TOPIC, "r": "0", "so": 0, "q": 0, "rq": 0, "pt": 0, "it": 0, "b": ""}
        ]
    },
    Code.CHECK_CLIENT_CONFIG: {
        "clientId": "c",
        "group": GROUP,
        "subscriptionData": {"topic": TOPIC, "subString": "*"},
    },
    30_001: {"keys": ["k"]},
    30_002: {"moves": [{"key": "k", "dueMs": 1}]},
    30_003: {"key": "k"},
    30_004: {"topic": TOPIC},
}
# What takes no more than being a user; what is found then takes rights of its own.
FREE_4X = {
    *(Code.CHECK_CLIENT_CONFIG, Code.SEND_REPLY_MESSAGE, Code.SEND_REPLY_MESSAGE_V2),
    *(Code.END_TRANSACTION, Code.VIEW_MESSAGE_BY_ID, Code.RECALL_MESSAGE),
    *(Code.GET_BROKER_CLUSTER_INFO, Code.GET_SYSTEM_TOPIC_LIST_FROM_BROKER),
    *(Code.GET_SYSTEM_TOPIC_LIST_FROM_NAME_SERVER, 30_001, 30_002, 30_003),
}
FREE_FLIGHT = {
    *("describe", "discard", "put_rows", "plan_pending", "cancel", "reschedule", "look_up"),
    *("inspect", "describe_message"),
}
SAMPLES = {"str": "x", "int": 1, "bytes": b"", "bool": False}


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[BrokerProcess]:
    folder: Path = tmp_path_factory.mktemp("matrix")
    with guarded(folder) as broker:
        yield broker


# The 4.x protocol


def _codes(broker: BrokerProcess) -> list[tuple[str, int]]:
    places = dict(zip(("broker", "name server"), addresses(broker), strict=False))
    return [(places[hub.name], code) for hub in broker.remoting.hubs for code in hub.table]


def _ask_4x(broker: BrokerProcess, who: Credentials | None) -> dict[int, tuple[int, str]]:
    found = {}
    with ExitStack() as stack:
        peers: dict[str, SigningPeer] = {}
        for address, code in _codes(broker):
            if address not in peers:
                peers[address] = stack.enter_context(SigningPeer(address, who))
            body = json.dumps(BODIES[code]).encode() if code in BODIES else b""
            answer = peers[address].call(code, FIELDS, body)
            found[code] = (answer.code, answer.remark or "")
    return found


@pytest.mark.parametrize("who", NOBODIES, ids=["nobody", "wrong secret", "stranger"])
def test_4x_strangers_are_refused_whatever_they_ask(
    broker: BrokerProcess, who: Credentials | None
) -> None:
    found = _ask_4x(broker, who)

    assert len(found) > 80
    assert {code: answer for code, answer in found.items() if answer[0] != NO_PERMISSION} == {}


@pytest.mark.parametrize("who", NOBODIES, ids=["nobody", "wrong secret", "stranger"])
def test_4x_strangers_are_told_the_way_to_the_broker_and_no_topic(
    broker: BrokerProcess, who: Credentials | None
) -> None:
    """Or a Java producer with a wrong secret says that its topic has no route."""
    address, names, _ = addresses(broker)
    with SigningPeer(names, who) as peer:
        found = peer.call(Code.GET_ROUTE_INFO_BY_TOPIC, {"topic": "TBW102"})
        other = peer.call(Code.GET_ROUTE_INFO_BY_TOPIC, {"topic": TOPIC})

    assert (found.code, address.encode() in found.body) == (0, True)
    assert other.code == NO_PERMISSION


@pytest.mark.parametrize("who", [GUEST, CLERK], ids=["without rights", "with other rights"])
def test_4x_users_are_refused_what_they_have_no_right_to(
    broker: BrokerProcess, who: Credentials
) -> None:
    found = _ask_4x(broker, who)

    served = {code for code, (answer, _) in found.items() if answer != NO_PERMISSION}
    assert served == FREE_4X
    for code, (answer, remark) in found.items():
        if answer == NO_PERMISSION:
            assert f"user {who.name} from 127.0.0.1: expected the right to" in remark, code


def test_4x_super_users_are_refused_nothing(broker: BrokerProcess) -> None:
    found = _ask_4x(broker, ADMIN)

    refused = {code: text for code, (answer, text) in found.items() if answer == NO_PERMISSION}
    assert {code: text for code, text in refused.items() if "right" in text or "user" in text} == {}


# The 5.x protocol


def _request(method: str) -> Any:
    request = message_class(METHODS[method][0].removeprefix("*"))()
    names = request.DESCRIPTOR.fields_by_name
    if "topic" in names:
        request.topic.name = TOPIC
    if "group" in names:
        request.group.name = GROUP
    if "message_queue" in names:
        request.message_queue.topic.name = TOPIC
    if "messages" in names:
        request.messages.add().topic.name = TOPIC
    if "settings" in names:
        request.settings.publishing.topics.add().name = TOPIC
    return request


def _ask_5x(broker: BrokerProcess, who: Credentials | None) -> dict[str, int]:
    found = {}
    with SigningCaller(addresses(broker)[2], who) as caller:
        for method, (kind, answer_kind) in METHODS.items():
            request = _request(method)
            if kind.startswith("*"):
                (answer, *_) = caller.telemetry(iter([request]))
            elif answer_kind.startswith("*"):
                stub = caller._stub("unary_stream", method)
                answer = next(iter(stub(request, metadata=caller._metadata, timeout=PATIENCE_S)))
            else:
                stub = caller._stub("unary_unary", method)
                answer = stub(request, metadata=caller._metadata, timeout=PATIENCE_S)
            found[method] = answer.status.code
    return found


@pytest.mark.parametrize("who", NOBODIES, ids=["nobody", "wrong secret", "stranger"])
def test_5x_strangers_are_refused_whatever_they_ask(
    broker: BrokerProcess, who: Credentials | None
) -> None:
    assert set(_ask_5x(broker, who).values()) == {UNAUTHORIZED}


@pytest.mark.parametrize("who", [GUEST, CLERK], ids=["without rights", "with other rights"])
def test_5x_users_are_refused_what_they_have_no_right_to(
    broker: BrokerProcess, who: Credentials
) -> None:
    assert set(_ask_5x(broker, who).values()) == {FORBIDDEN}


def test_5x_super_users_are_refused_nothing(broker: BrokerProcess) -> None:
    assert not {UNAUTHORIZED, FORBIDDEN} & set(_ask_5x(broker, ADMIN).values())


# Flight


def _actions(broker: BrokerProcess) -> dict[str, bytes]:
    """A request for each action that is served, as well as its type can be guessed."""
    kinds = {**protocol.ACTIONS, **operators.CONTROL_ACTIONS, **console.CONSOLE_ACTIONS}
    own: dict[str, Any] = {
        "plan_window": {
            "end": {"due_ms": 1, "seq": 1, "end": 1},
            **{"slice_count_max": 1, "slice_row_count_min": 1},
        },
        "next_window": {"ahead_ms": 1, "lead_ms": 1, "row_count_max": 1, "wait_ms": 1},
        "count_pending": {"bucket_ms": 60_000, "topic": TOPIC},
        "cancel": {"keys": ["k"]},
        "reschedule": {"moves": []},
        "discard": {"tokens": []},
        "put_rows": {"tokens": []},
        "commit_window": {"run": "r", "batch": 0, "tokens": [], "is_transformed": False},
        "reset_group": {"group": GROUP, "topic": TOPIC, "timestamp_ms": 0},
        "resend_dead_letter": {"group": GROUP, "offset": 0},
        "count_matching": {"filter": {"topic": TOPIC}},
        "list_matching": {"filter": {"topic": TOPIC}},
        "look_ahead": {"start_ms": 0, "end_ms": 60_000, "bucket_ms": 60_000},
        "change_numbers": {"action": "cancel", "numbers": []},
        "grant": {"name": "nobody", "policies": []},
        "start_job": {"action": "cancel", "filter": {"topic": TOPIC}},
    }
    named = {"topic": TOPIC, "group": GROUP}
    requests = {}
    for name in broker.service._actions:
        fields = own.get(name)
        if fields is None:
            hints = kinds[name][0].__annotations__
            fields = {
                field: named.get(field, SAMPLES[str(hint)])
                for field, hint in hints.items()
                if str(hint) in SAMPLES and not hasattr(kinds[name][0], "__none__")
            }
            fields = {key: value for key, value in fields.items() if key != "count_max"}
        plain = {
            key: value.decode() if isinstance(value, bytes) else value
            for key, value in fields.items()
        }
        requests[name] = json.dumps(plain).encode()
    return requests


def _ask_flight(broker: BrokerProcess, who: Credentials | None) -> dict[str, type | None]:
    """By action, ticket and upload: the error that came, None if none did."""
    found: dict[str, type | None] = {}
    tickets = {
        "slice": protocol.Ticket(
            slice=protocol.ReadSlice(plan="p", index=0, run="r", batch=0, units_only=False)
        ),
        "pending": protocol.Ticket(pending=protocol.ReadPending(start_ms=0, end_ms=1)),
        "pending of a topic": protocol.Ticket(
            pending=protocol.ReadPending(start_ms=0, end_ms=1, topics=(TOPIC,))
        ),
        "found": protocol.Ticket(found=protocol.FindPending(key="k")),
        "messages": protocol.Ticket(
            messages=protocol.ReadMessages(topic=TOPIC, queue_id=0, start=0, end=1)
        ),
        "backup": protocol.Ticket(backup=protocol.ReadBackup(hold="h")),
        "ledger": protocol.Ticket(ledger=protocol.ReadLedger()),
    }
    assert {field for each in tickets.values() for field in _set_fields(each)} == set(
        protocol.Ticket.__annotations__
    )
    with flight(broker, who) as client:
        for name, body in _actions(broker).items():
            found[name] = _error(lambda name=name, body=body: _act(client, name, body))
        for name, ticket in tickets.items():
            found[name] = _error(lambda ticket=ticket: list(client.read(ticket)))
        for name, schema in (("deliveries", routed_schema(())), ("schedule", SCHEDULE_SCHEMA)):
            found[name] = _error(
                lambda name=name, schema=schema: client.stage(f"{who}{name}", schema, [])
            )
        found["list_actions"] = _error(lambda: list(client._client.list_actions(client.options(9))))
    return found


def _set_fields(ticket: protocol.Ticket) -> set[str]:
    return {name for name, value in ticket.to_json().items() if value is not None}


def _act(client: operators.OperatorClient, name: str, body: bytes) -> None:
    from dueline.flight.errors import from_flight

    try:
        list(client._client.do_action(arrow.Action(name, body), client.options(20)))
    except (arrow.FlightError, pa.ArrowException) as error:
        raise from_flight(error, "") from error


def _error(ask: Any) -> type | None:
    try:
        ask()
    except (arrow.FlightUnauthenticatedError, Unauthenticated):
        return Unauthenticated
    except BrokerError as error:
        return type(error)
    return None


def test_flight_serves_what_has_a_requirement(broker: BrokerProcess) -> None:
    assert broker.service._actions.keys() == ACTIONS.keys()


@pytest.mark.parametrize("who", NOBODIES, ids=["nobody", "wrong secret", "stranger"])
def test_flight_strangers_are_refused_whatever_they_ask(
    broker: BrokerProcess, who: Credentials | None
) -> None:
    found = _ask_flight(broker, who)

    assert len(found) > 35
    assert {name: error for name, error in found.items() if error is not Unauthenticated} == {}


@pytest.mark.parametrize("who", [GUEST, CLERK], ids=["without rights", "with other rights"])
def test_flight_users_are_refused_what_they_have_no_right_to(
    broker: BrokerProcess, who: Credentials
) -> None:
    found = _ask_flight(broker, who)

    served = {name for name, error in found.items() if error is not Forbidden}
    assert served == FREE_FLIGHT | {"found", "schedule", "list_actions"}


def test_flight_the_pipeline_may_do_its_work_and_nothing_else(broker: BrokerProcess) -> None:
    found = _ask_flight(broker, pipeline(broker))

    served = {name for name, error in found.items() if error is not Forbidden}
    own = {"next_window", "plan_window", "commit_window", "complain", "slice", "deliveries"}
    own |= {"report"}  # whether it is at work: what `/health/ready` says
    assert served == own | FREE_FLIGHT | {"found", "schedule", "list_actions"}


def test_flight_super_users_are_refused_nothing(broker: BrokerProcess) -> None:
    found = _ask_flight(broker, ADMIN)

    assert not {Unauthenticated, Forbidden} & set(found.values())
