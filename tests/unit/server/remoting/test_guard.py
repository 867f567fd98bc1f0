"""Before a handler: who asks, and may they; and the lines of the audit trail."""

from __future__ import annotations

import base64
import hmac
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.unit.server.remoting.world import RemotingWorld, remoting_world

from dueline.broker.access import (
    AccessOptions,
    Action,
    Management,
    NewUser,
    Policy,
    Resource,
)
from dueline.broker.access.trail import Entry
from dueline.server.remoting import guard as module
from dueline.server.remoting.admin import Admin
from dueline.server.remoting.answers import OK, Response
from dueline.server.remoting.channel import Request
from dueline.server.remoting.hub import Handler
from dueline.wire import Command, RequestCode

_SECRETS = {"admin": b"secret of admin", "billing": b"secret of billing"}
_TOPIC = {"topic": "orders"}
_NEW_TOPIC = {
    "topic": "orders",
    "defaultTopic": "TBW102",
    "readQueueNums": "4",
    "writeQueueNums": "4",
    "perm": "6",
    "topicFilterType": "SINGLE_TAG",
}


@pytest.fixture
def world(tmp_path: Path) -> Iterator[RemotingWorld]:
    options = AccessOptions(is_enabled=True)
    with remoting_world(tmp_path, access=options) as world:
        access = world.broker.access
        assert Management(access, world.clock).found("admin", _SECRETS["admin"].decode())
        admin = access.authenticate_basic("admin", _SECRETS["admin"].decode(), address="")
        users = Management(access, world.clock)
        users.add(admin, NewUser(name="billing", secret=_SECRETS["billing"].decode()))
        users.grant(
            admin,
            "billing",
            [
                Policy(
                    resource=Resource.parse("Topic:orders"),
                    actions=Action.GET,
                    is_allowed=True,
                )
            ],
        )
        world.serve(Admin(world.context, world.hub).table())
        yield world


def _signed(
    ext: dict[str, str], user: str | None, secret: bytes | None = None, body: bytes = b""
) -> dict[str, str]:
    if user is None:
        return ext
    ext = {**ext, "AccessKey": user}
    content = "".join(ext[name] for name in sorted(ext)).encode() + body
    digest = hmac.digest(secret or _SECRETS[user], content, "sha1")
    return {**ext, "Signature": base64.b64encode(digest).decode()}


def _call(world: RemotingWorld, code: int, ext: dict[str, str], body: bytes = b"") -> Command:
    return world.client().ask(code, ext, body)


def _lines(world: RemotingWorld) -> list[Entry]:
    return world.broker.trail.recent(0) or []


def test_a_right_signature_and_a_right_are_served(world: RemotingWorld) -> None:
    world.send(b"body", topic="orders")

    assert _call(world, RequestCode.GET_TOPIC_STATS_INFO, _signed(_TOPIC, "billing")).code == 0
    assert _lines(world) == []


@pytest.mark.parametrize(
    ("user", "secret", "ext", "reason"),
    [
        (None, None, _TOPIC, "no user"),
        ("billing", b"another secret", _TOPIC, "wrong secret or altered request"),
        ("stranger", b"another secret", _TOPIC, "unknown user"),
        ("billing", None, {"topic": "payments"}, "no permission"),
    ],
)
def test_others_are_refused_with_16_and_a_line(
    world: RemotingWorld, user: str | None, secret: bytes | None, ext: dict[str, str], reason: str
) -> None:
    answer = _call(world, RequestCode.GET_TOPIC_STATS_INFO, _signed(ext, user, secret))

    assert answer.code == 16
    assert answer.remark
    (line,) = _lines(world)
    assert (line.event, line.user, line.address, line.door, line.what, line.reason) == (
        "refused",
        user,
        "127.0.0.1",
        "remoting",
        "GET_TOPIC_STATS_INFO",
        reason,
    )


def test_an_altered_request_is_refused(world: RemotingWorld) -> None:
    ext = {"topic": "payments", "AccessKey": "billing"}
    digest = hmac.digest(_SECRETS["billing"], b"billing" + b"orders", "sha1")
    ext["Signature"] = base64.b64encode(digest).decode()

    assert _call(world, RequestCode.GET_TOPIC_STATS_INFO, ext).code == 16


def test_a_change_is_a_line_if_it_succeeded(world: RemotingWorld) -> None:
    code = RequestCode.UPDATE_AND_CREATE_TOPIC

    assert _call(world, code, _signed({**_NEW_TOPIC, "perm": "x"}, "admin")).code != 0
    assert _lines(world) == []
    assert _call(world, code, _signed(_NEW_TOPIC, "admin")).code == 0
    (line,) = _lines(world)
    assert (line.event, line.user, line.method, line.on) == (
        "change",
        "admin",
        "signature",
        ("Topic:orders",),
    )


def test_large_bodies_are_looked_at_in_a_thread(
    world: RemotingWorld, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "HEAVY_SIZE_BYTES", 10)
    code, body = RequestCode.GET_TOPIC_STATS_INFO, b"x" * 100
    world.send(b"body", topic="orders")

    for ext, expected in (
        (_signed(_TOPIC, "billing", body=body), 0),
        (_signed(_TOPIC, "billing", b"no", body=body), 16),
        (_signed(_TOPIC, "billing"), 16),
        (_TOPIC, 16),
    ):
        assert _call(world, code, ext, body).code == expected


def test_with_access_control_off_handlers_are_called_as_they_are(tmp_path: Path) -> None:
    with remoting_world(tmp_path) as world:

        def handler(request: Request) -> Response:
            return OK

        table: dict[int, Handler] = {
            RequestCode.GET_TOPIC_STATS_INFO: handler,
            RequestCode.RECALL_MESSAGE: handler,
        }
        world.serve(table)

        assert world.hub.table[RequestCode.GET_TOPIC_STATS_INFO] is handler
        assert _call(world, RequestCode.RECALL_MESSAGE, {}).code == 0
        (line,) = _lines(world)
        assert (line.user, line.what) == (None, "RECALL_MESSAGE")


def test_a_code_without_a_requirement_is_not_served(tmp_path: Path) -> None:
    with remoting_world(tmp_path) as world, pytest.raises(KeyError):
        world.hub.add({999_999: lambda request: OK})
