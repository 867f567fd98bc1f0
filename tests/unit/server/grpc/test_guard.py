"""Before a method of the 5.x port: who calls, and may they?"""

from __future__ import annotations

import hmac
from pathlib import Path
from typing import Any

import pytest
from tests.unit.server.grpc.world import make

from dueline.broker.access import (
    Access,
    AccessOptions,
    Action,
    Management,
    NewUser,
    Policy,
    Resource,
    Trail,
)
from dueline.errors import Forbidden, Unauthenticated
from dueline.server.grpc.guard import NEEDS, GrpcGuard
from dueline.server.grpc.schema import METHODS
from dueline.server.grpc.stubs import message_class
from dueline.store.files import Files
from dueline.testing import ManualClock

_SECRET = "a secret of billing"
_NOW_MS = 1_800_000_000_000
_NOW = "20270115T080000Z"


class House:
    """A guard with one user, who may send to `orders` and read it as `readers`."""

    def __init__(self, folder: Path) -> None:
        self.clock = ManualClock(_NOW_MS)
        off = Management(Access(folder, Files(), clock=self.clock), self.clock)
        off.found("admin", "a secret of admin")
        options = AccessOptions(is_enabled=True)
        self.access = Access(folder, Files(), clock=self.clock, options=options)
        users = Management(self.access, self.clock)
        admin = self.access.authenticate_basic("admin", "a secret of admin", address="")
        users.add(admin, NewUser(name="billing", secret=_SECRET))
        users.grant(
            admin,
            "billing",
            [
                Policy(resource=Resource.parse(text), actions=actions, is_allowed=True)
                for text, actions in (
                    ("Topic:orders", Action.PUB | Action.SUB),
                    ("Group:readers", Action.SUB),
                )
            ],
        )
        self.trail = Trail(folder, Files(), clock=self.clock)
        self.guard = GrpcGuard(self.access, self.trail, clock=self.clock, age_ms_max=300_000)

    def lines(self) -> list[tuple[str | None, str, str]]:
        return [(each.user, each.what, each.reason) for each in self.trail.recent(0) or []]


@pytest.fixture
def house(tmp_path: Path) -> House:
    return House(tmp_path)


def _signed(
    name: str = "billing", secret: str = _SECRET, time: str = _NOW, form: str = "{name}"
) -> dict[str, str]:
    digest = hmac.digest(secret.encode(), time.encode(), "sha1").hex()
    credential = form.format(name=name)
    return {
        "x-mq-date-time": time,
        "authorization": f"MQv2-HMAC-SHA1 Credential={credential}, SignedHeaders=x-mq-date-time, "
        f"Signature={digest}",
    }


def _send(*topics: str) -> Any:
    request = message_class("SendMessageRequest")()
    for topic in topics:
        request.messages.add().topic.name = topic
    return request


def test_every_method_asks(house: House) -> None:
    assert NEEDS.keys() == METHODS.keys()


@pytest.mark.parametrize("form", ["{name}", "{name}//Rocketmq"])
def test_a_signature_says_who_calls(house: House, form: str) -> None:
    metadata = _signed(form=form)
    metadata["authorization"] = metadata["authorization"].replace("Signature=", "Signature=")

    caller = house.guard.admit("SendMessage", metadata, "10.0.0.1", _send("orders"))

    assert (caller.user, caller.address, caller.method) == ("billing", "10.0.0.1", "signature")
    assert house.lines() == []


@pytest.mark.parametrize(
    ("metadata", "reason"),
    [
        ({}, "no user"),
        (_signed(secret="another secret"), "wrong secret or altered request"),
        (_signed(name="stranger"), "unknown user"),
        ({**_signed(), "x-mq-date-time": "20270115T080001Z"}, "wrong secret or altered request"),
        (_signed(time="20270115T080501Z"), "old signature"),
        (_signed(time="20270115T075459Z"), "old signature"),
        (_signed(time="now"), "no time"),
        (_signed(time="20271315T080000Z"), "no time"),
        ({"authorization": "Bearer billing:secret"}, "no signature"),
        ({"authorization": "MQv2-HMAC-SHA1 Credential=billing, Signature=xyz"}, "no signature"),
        ({"authorization": ""}, "no signature"),
    ],
)
def test_others_are_strangers(house: House, metadata: dict[str, str], reason: str) -> None:
    for request in (_send("orders"), None):
        with pytest.raises(Unauthenticated):
            house.guard.admit("SendMessage", metadata, "10.0.0.1", request)

    assert [line[2] for line in house.lines()] == [reason, reason]


def test_any_time_will_do_where_the_operator_says_so(house: House) -> None:
    guard = GrpcGuard(house.access, house.trail, clock=house.clock, age_ms_max=0)

    assert guard.admit("SendMessage", _signed(time="20010101T000000Z"), "", _send("orders")).user


@pytest.mark.parametrize(
    ("method", "request_"),
    [
        ("SendMessage", _send("orders", "payments")),
        ("RecallMessage", make("RecallMessageRequest", topic="payments")),
        ("EndTransaction", make("EndTransactionRequest", topic="payments")),
        ("AckMessage", make("AckMessageRequest", topic="orders", group="others")),
        ("AckMessage", make("AckMessageRequest", topic="payments", group="readers")),
        ("QueryRoute", make("QueryRouteRequest", topic="payments")),
        ("QueryAssignment", make("QueryAssignmentRequest", topic="orders", group="others")),
        ("Heartbeat", make("HeartbeatRequest", group="others", client_type=2)),
        ("NotifyClientTermination", make("NotifyClientTerminationRequest", group="others")),
    ],
)
def test_what_a_user_may_not_is_forbidden(house: House, method: str, request_: Any) -> None:
    with pytest.raises(Forbidden):
        house.guard.admit(method, _signed(), "10.0.0.1", request_)

    assert house.lines() == [("billing", method, "no permission")]


@pytest.mark.parametrize(
    ("method", "request_"),
    [
        ("AckMessage", make("AckMessageRequest", topic="orders", group="readers")),
        ("QueryRoute", make("QueryRouteRequest", topic="orders")),
        ("Heartbeat", make("HeartbeatRequest", client_type=1)),
        ("Heartbeat", make("HeartbeatRequest", group="readers", client_type=3)),
        ("NotifyClientTermination", make("NotifyClientTerminationRequest")),
    ],
)
def test_what_a_user_may_is_served(house: House, method: str, request_: Any) -> None:
    assert house.guard.admit(method, _signed(), "10.0.0.1", request_).user == "billing"


def test_queues_and_settings_name_topics_and_groups(house: House) -> None:
    for name in ("ReceiveMessage", "PullMessage", "UpdateOffset", "GetOffset"):
        request = make(f"{name}Request", group="readers")
        request.message_queue.topic.name = "orders"
        assert house.guard.admit(name, _signed(), "", request).user
        request.message_queue.topic.name = "payments"
        with pytest.raises(Forbidden):
            house.guard.admit(name, _signed(), "", request)
    settings = message_class("TelemetryCommand")()
    settings.settings.subscription.group.name = "readers"
    settings.settings.subscription.subscriptions.add().topic.name = "orders"
    assert house.guard.admit("Telemetry", _signed(), "", settings).user
    settings.settings.subscription.subscriptions.add().topic.name = "payments"
    with pytest.raises(Forbidden):
        house.guard.admit("Telemetry", _signed(), "", settings)
    publishing = message_class("TelemetryCommand")()
    publishing.settings.publishing.topics.add().name = "payments"
    with pytest.raises(Forbidden):
        house.guard.admit("Telemetry", _signed(), "", publishing)


def test_a_namespace_is_part_of_the_name(house: House) -> None:
    request = make("QueryRouteRequest", topic="orders")
    request.topic.resource_namespace = "shop"

    with pytest.raises(Forbidden, match="Topic:shop%orders"):
        house.guard.admit("QueryRoute", _signed(), "", request)


def test_a_recall_is_a_line(house: House) -> None:
    request = make("RecallMessageRequest", topic="orders", recall_handle="handle")
    caller = house.guard.admit("RecallMessage", _signed(), "", request)
    house.guard.note(caller, "RecallMessage", request)
    house.guard.note(caller, "SendMessage", _send("orders"))

    (line,) = house.trail.recent(0) or []
    assert (line.event, line.user, line.on) == ("change", "billing", ("Topic:orders", "handle"))


def test_with_access_control_off_nobody_is_asked(tmp_path: Path) -> None:
    clock = ManualClock()
    guard = GrpcGuard(
        Access(tmp_path, Files(), clock=clock),
        Trail(tmp_path, Files(), clock=clock),
        clock=clock,
        age_ms_max=1,
    )

    assert guard.admit("SendMessage", {"authorization": "x"}, "::1", _send("a")).user is None
