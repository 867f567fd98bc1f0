"""Signed sends of a turn: those that may pass are rows, all others meet the guard one by one."""

from __future__ import annotations

import base64
import hmac
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest
from tests.unit.server.remoting.test_turns import LIMITS, Rows, fed
from tests.unit.server.remoting.world import RemotingWorld, remoting_world

from dueline import compiled
from dueline.broker.access import (
    AccessOptions,
    Action,
    Caller,
    Management,
    NewUser,
    Policy,
    Resource,
)
from dueline.message import encode_properties
from dueline.server.process import KERNELS
from dueline.server.remoting import turn_guard
from dueline.server.remoting.admin import Admin
from dueline.server.remoting.send import Sends, row_actions
from dueline.server.remoting.turn_guard import TurnGuard, _is_signed
from dueline.server.remoting.turns import Turns
from dueline.wire import Command, RequestCode
from dueline.wire.headers import SendRequest
from dueline.wire.turn import FRAME_BODY_START, FRAME_END, Turn, TurnReader

pytest.importorskip("numba")

NO_PERMISSION = 16
ADMIN = Caller("admin", "127.0.0.1")
SECRETS = {name: f"a secret of {name}" for name in ("admin", "clerk", "guest", "dismissed")}


@pytest.fixture
def guarded(tmp_path: Path) -> Iterator[tuple[RemotingWorld, Rows]]:
    with remoting_world(tmp_path, access=AccessOptions(is_enabled=True)) as world:
        users = Management(world.broker.access, world.clock)
        assert users.found("admin", SECRETS["admin"])
        right = Policy(resource=Resource.parse("Topic:t*"), actions=Action.PUB, is_allowed=True)
        for name in ("clerk", "guest", "dismissed"):
            users.add(ADMIN, NewUser(name=name, secret=SECRETS[name]))
        for name in ("clerk", "dismissed"):
            users.grant(ADMIN, name, [right])
        users.update(ADMIN, "dismissed", is_enabled=False)
        rows = Rows(world)
        world.broker._submit_rows = rows.put
        sends = Sends(world.context)
        world.serve(sends.table())
        world.serve(Admin(world.context, world.hub).table())
        assert compiled.load(KERNELS)
        world.hub.turns = Turns(
            *(world.hub, world.context, sends, TurnReader(LIMITS, row_actions())),
            guard=TurnGuard(world.broker.access),
            size_bytes_min=0,
        )
        for topic in ("t", "others"):
            world.broker.topics.ensure(topic, queue_count=4)
        world.broker.save()
        yield world, rows


def send(  # noqa: PLR0913 - what is signed, and how it is altered
    opaque: int,
    who: str | None,
    *,
    topic: str = "t",
    secret: str | None = None,
    changes: dict[str, str] | None = None,
    body: bytes = b"body",
    arrived: bytes | None = None,
) -> bytes:
    """A send as RocketMQ's hook signs it; `changes` and `arrived`: altered on the way."""
    names = {"UNIQ_KEY": f"A{opaque}", "KEYS": "ein Ärger", "note": 'a "b" \\ c'}
    ext = SendRequest(
        producer_group="g",
        topic=topic,
        default_topic="TBW102",
        default_topic_queue_nums=4,
        queue_id=0,
        sys_flag=0,
        born_timestamp=1_700_000_000_000,
        flag=0,
        properties=encode_properties(names).decode(),
    ).encode_short()
    if who is not None:
        ext = signed(ext, who, body, secret)
    ext |= changes or {}
    body = body if arrived is None else arrived
    return Command(code=RequestCode.SEND_MESSAGE_V2, opaque=opaque, ext=ext, body=body).encode()


def signed(ext: dict[str, str], who: str, body: bytes, secret: str | None = None) -> dict[str, str]:
    ext = {**ext, "AccessKey": who, "SecurityToken": "a token"}
    content = "".join(ext[name] for name in sorted(ext)).encode() + body
    digest = hmac.digest((secret or SECRETS[who]).encode(), content, "sha1")
    return {**ext, "Signature": base64.b64encode(digest).decode()}


def codes(world: RemotingWorld, *frames: bytes) -> list[int]:
    (answers,) = fed(world, [world.client()], [[b"".join(frames)]])
    return [answers[opaque][0].code for opaque in sorted(answers)]


def test_signed_sends_of_users_who_may_are_rows(guarded: tuple[RemotingWorld, Rows]) -> None:
    world, rows = guarded

    assert codes(world, *(send(number, "clerk") for number in range(5))) == [0] * 5
    assert rows.count == 5
    assert codes(world, send(6, "admin", topic="others")) == [0]
    assert rows.count == 6


def test_a_long_one_by_itself_is_looked_at_too(
    guarded: tuple[RemotingWorld, Rows], monkeypatch: pytest.MonkeyPatch
) -> None:
    """By the standard library, as it takes no less by kernels."""
    world, rows = guarded
    checked_sizes = []

    def is_signed(turn: Turn, frame: Sequence[int], keys: Sequence[bytes]) -> bool:
        checked_sizes.append(frame[FRAME_END] - frame[FRAME_BODY_START])
        return _is_signed(turn, frame, keys)

    monkeypatch.setattr(turn_guard, "_is_signed", is_signed)
    body = b"x" * 7_900

    assert codes(world, send(1, "clerk", body=body)) == [0]
    altered = send(2, "clerk", body=body, arrived=body[1:] + b"y")
    assert codes(world, altered) == [NO_PERMISSION]
    assert rows.count == 1
    assert checked_sizes == [7_900, 7_900]


def test_long_and_short_ones_are_rows_beside_each_other(
    guarded: tuple[RemotingWorld, Rows],
) -> None:
    world, rows = guarded
    bodies = [b"x" * size for size in (0, 4_000, 63, 3_000, 500, 2)] * 2
    frames = [send(number, "clerk", body=body) for number, body in enumerate(bodies)]
    frames += [
        send(50 + number, "clerk", body=b, arrived=b + b"x") for number, b in enumerate(bodies)
    ]

    assert codes(world, *frames) == [0] * len(bodies) + [NO_PERMISSION] * len(bodies)
    assert rows.count == len(bodies)


@pytest.mark.parametrize(
    "given",
    [
        {"who": None},
        {"who": "guest"},
        {"who": "dismissed"},
        {"who": "clerk", "topic": "others"},
        {"who": "clerk", "secret": "another secret"},
        {"who": "clerk", "changes": {"Signature": "no base64!"}},
        {"who": "clerk", "changes": {"Signature": ""}},
        {"who": "clerk", "changes": {"AccessKey": "admin"}},
        {"who": "clerk", "changes": {"e": "1"}},
        {"who": "clerk", "changes": {"g": "1700000000001"}},
        {"who": "clerk", "changes": {"i": "UNIQ_KEY\x01B"}},
        {"who": "clerk", "changes": {"SecurityToken": "another"}},
        {"who": "clerk", "arrived": b"bodx"},
        {"who": "guest", "topic": "%RETRY%g"},
    ],
    ids=str,
)
def test_all_others_are_refused_and_those_beside_them_are_not(
    guarded: tuple[RemotingWorld, Rows], given: dict[str, Any]
) -> None:
    world, rows = guarded

    found = codes(world, send(1, "clerk"), send(2, **given), send(3, "clerk"))

    assert found == [0, NO_PERMISSION, 0]
    assert rows.count == 2
    refused = [line for line in world.broker.trail.recent(0) or [] if line.event == "refused"]
    assert len(refused) == 1


def test_a_user_who_is_disabled_in_the_same_turn_sends_no_more(
    guarded: tuple[RemotingWorld, Rows],
) -> None:
    world, rows = guarded
    body = b'{"username":"clerk","userStatus":"disable"}'
    ext = signed({"username": "clerk"}, "admin", body)
    change = Command(code=RequestCode.AUTH_UPDATE_USER, opaque=2, ext=ext, body=body).encode()

    assert codes(world, send(1, "clerk"), change, send(3, "clerk")) == [0, 0, NO_PERMISSION]
    assert rows.count == 1


def test_an_old_secret_counts_until_its_end(guarded: tuple[RemotingWorld, Rows]) -> None:
    world, rows = guarded
    users = Management(world.broker.access, world.clock)
    users.rotate(ADMIN, "clerk", secret="a new secret", keep_ms=1_000)

    both = [send(1, "clerk"), send(2, "clerk", secret="a new secret")]
    assert codes(world, *both) == [0, 0]
    assert rows.count == 2
    world.clock.advance(1_000)
    assert codes(world, *both) == [NO_PERMISSION, 0]
    assert rows.count == 3
