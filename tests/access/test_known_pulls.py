"""Known pulls where access control is on: a signature and a right for each of them."""

from __future__ import annotations

import base64
import hmac
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from tests.unit.server.remoting.test_known_pulls import Counted, fields, put
from tests.unit.server.remoting.world import Client, RemotingWorld, remoting_world

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
from dueline.server.process import KERNELS
from dueline.server.remoting.pull import Pulls
from dueline.wire import Command, RequestCode

pytest.importorskip("numba")

NO_PERMISSION = 16
ADMIN = Caller("admin", "127.0.0.1")
SECRETS = {name: f"a secret of {name}" for name in ("admin", "clerk", "guest")}


def management(world: RemotingWorld) -> Management:
    return Management(world.broker.access, world.clock)


@pytest.fixture
def guarded(tmp_path: Path) -> Iterator[tuple[RemotingWorld, Counted]]:
    assert compiled.load(KERNELS)
    with remoting_world(tmp_path, access=AccessOptions(is_enabled=True)) as world:
        users = management(world)
        assert users.found("admin", SECRETS["admin"])
        for name in ("clerk", "guest"):
            users.add(ADMIN, NewUser(name=name, secret=SECRETS[name]))
        rights = [
            Policy(resource=Resource.parse(name), actions=Action.SUB, is_allowed=True)
            for name in ("Topic:orders", "Group:readers")
        ]
        users.grant(ADMIN, "clerk", rights)
        known = Counted(world.context, world.hub, world.hub._guard)
        world.serve(Pulls(world.context, world.hub, known).table())
        world.broker.topics.ensure("orders", queue_count=2)
        put(world, 6)
        yield world, known


def pull(
    opaque: int,
    offset: int,
    who: str | None = "clerk",
    *,
    secret: str | None = None,
    altered: dict[str, str] | None = None,
    **changes: Any,
) -> bytes:
    ext = fields(queueOffset=offset, **changes)
    if who is not None:
        ext["AccessKey"] = who
        content = "".join(ext[name] for name in sorted(ext)).encode()
        digest = hmac.digest((secret or SECRETS[who]).encode(), content, "sha1")
        ext["Signature"] = base64.b64encode(digest).decode()
    ext |= altered or {}
    return Command(code=RequestCode.PULL_MESSAGE, opaque=opaque, ext=ext).encode()


def ask(client: Client, data: bytes) -> Command:
    client.channel.data_received(data)
    (answer,) = client.read()
    return answer


def learn(client: Client, known: Counted) -> None:
    for number in range(3):
        assert ask(client, pull(number, number)).code == 0
    assert known.count == 1, "the first two show what it says"


def test_signed_pulls_like_one_before_are_answered_as_they_come(
    guarded: tuple[RemotingWorld, Counted],
) -> None:
    world, known = guarded
    client = world.client()

    learn(client, known)
    answer = ask(client, pull(7, 3))

    assert known.count == 2
    assert (answer.code, answer.ext["nextBeginOffset"]) == (0, "5")
    assert answer.body.count(b"UNIQ_KEY") == 2


@pytest.mark.parametrize(
    "refused",
    [
        pull(9, 1, secret="another secret"),
        pull(9, 1, altered={"queueOffset": "2"}),
        pull(9, 1, altered={"Signature": "AAAAAAAAAAAAAAAAAAAAAAAAAAA="}),
        pull(9, 1, altered={"Signature": "x"}),
        pull(9, 1, "guest"),
        pull(9, 1, None),
        pull(9, 1, altered={"AccessKey": "admin"}),
    ],
    ids=["wrong secret", "altered offset", "no signature of it", "none at all", "no right",
         "nobody", "another name"],
)  # fmt: skip
def test_who_has_not_signed_or_may_not_is_refused_after_others_were_answered(
    guarded: tuple[RemotingWorld, Counted], refused: bytes
) -> None:
    world, known = guarded
    client = world.client()
    learn(client, known)

    assert ask(client, refused).code == NO_PERMISSION
    assert known.count == 1
    assert ask(client, pull(10, 1)).code == 0
    assert known.count == 2


def test_a_right_that_is_taken_away_is_missing_at_once(
    guarded: tuple[RemotingWorld, Counted],
) -> None:
    world, known = guarded
    client = world.client()
    learn(client, known)

    management(world).update(ADMIN, "clerk", is_enabled=False)
    assert ask(client, pull(10, 1)).code == NO_PERMISSION
    management(world).update(ADMIN, "clerk", is_enabled=True)
    assert ask(client, pull(11, 1)).code == 0
    management(world).revoke(ADMIN, "clerk", Resource.parse("Topic:orders"))
    assert ask(client, pull(12, 1)).code == NO_PERMISSION


def test_pulls_that_nobody_has_signed_are_not_learned(
    guarded: tuple[RemotingWorld, Counted],
) -> None:
    world, known = guarded
    client = world.client()

    assert {ask(client, pull(number, number, None)).code for number in range(5)} == {NO_PERMISSION}
    assert known.count == 0
