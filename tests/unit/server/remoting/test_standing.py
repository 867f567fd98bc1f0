"""Remembered rights and secrets hold until somebody changes them, and no longer."""

from __future__ import annotations

import base64
import hmac
from pathlib import Path

import pytest

from dueline.broker.access import (
    Access,
    AccessOptions,
    Action,
    Caller,
    Management,
    NewUser,
    Policy,
    Resource,
    topic,
)
from dueline.server.remoting.standing import Standing
from dueline.store import Files
from dueline.testing import ManualClock

ADMIN = Caller("admin", "127.0.0.1")
CLERK = Caller("clerk", "10.0.0.1")
ORDERS = Action.PUB, (topic("orders"),)
SECRET = "a secret of clerk"


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock(1_700_000_000_000)


@pytest.fixture
def access(tmp_path: Path, clock: ManualClock) -> Access:
    access = Access(tmp_path, Files(), clock=clock, options=AccessOptions(is_enabled=True))
    users = Management(access, clock)
    assert users.found("admin", "a secret of admin")
    users.add(ADMIN, NewUser(name="clerk", secret=SECRET))
    right = Policy(resource=Resource.parse("Topic:orders"), actions=Action.PUB, is_allowed=True)
    users.grant(ADMIN, "clerk", [right])
    return access


def signature(secret: str = SECRET, content: bytes = b"content") -> bytes:
    return base64.b64encode(hmac.digest(secret.encode(), content, "sha1"))


def test_who_has_signed_and_may_is_admitted_each_time(access: Access) -> None:
    standing = Standing(access, CLERK, ORDERS)

    assert [standing.admits(b"content", signature()) for _ in range(3)] == [True] * 3
    assert not standing.admits(b"other content", signature())
    assert not standing.admits(b"content", signature("another secret"))
    assert not standing.admits(b"content", b"")


def test_who_may_not_is_not_admitted_with_the_right_signature(access: Access) -> None:
    needs = Action.PUB, (topic("bills"),)

    assert not Standing(access, CLERK, needs).admits(b"content", signature())
    assert not Standing(access, Caller("nobody", "10.0.0.1"), ORDERS).admits(
        b"content", signature()
    )
    assert not Standing(access, Caller(None, "10.0.0.1"), ORDERS).admits(b"content", signature())


def test_what_is_changed_holds_at_once(access: Access, clock: ManualClock) -> None:
    users = Management(access, clock)
    standing = Standing(access, CLERK, ORDERS)
    assert standing.admits(b"content", signature())

    users.update(ADMIN, "clerk", is_enabled=False)
    assert not standing.admits(b"content", signature())
    users.update(ADMIN, "clerk", is_enabled=True)
    assert standing.admits(b"content", signature())
    users.revoke(ADMIN, "clerk", Resource.parse("Topic:orders"))
    assert not standing.admits(b"content", signature())
    users.delete(ADMIN, "clerk")
    assert not standing.admits(b"content", signature())


def test_an_old_secret_ends_when_it_was_to_end(access: Access, clock: ManualClock) -> None:
    standing = Standing(access, CLERK, ORDERS)
    assert standing.admits(b"content", signature())

    Management(access, clock).rotate(ADMIN, "clerk", "a newer secret", keep_ms=5_000)

    for secret in (SECRET, "a newer secret"):
        assert standing.admits(b"content", signature(secret))
    clock.advance(5_000)
    assert not standing.admits(b"content", signature())
    assert standing.admits(b"content", signature("a newer secret"))
