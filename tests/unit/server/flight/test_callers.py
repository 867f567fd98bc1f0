"""Who calls the Flight port: bearer tokens, basic, addresses; and the lines of what was changed."""

from __future__ import annotations

import base64
from collections.abc import Mapping
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from dueline.broker.access import (
    Access,
    AccessOptions,
    Action,
    Caller,
    Management,
    NewUser,
    Trail,
)
from dueline.errors import Forbidden, Unauthenticated
from dueline.flight import protocol
from dueline.server.flight.callers import Callers, HeaderFactory, caller, check_topics, may
from dueline.server.flight.requirements import READ_ALL, SUPER, USER, Needs
from dueline.store.files import Files
from dueline.testing import ManualClock

_SECRET = "a secret of admin"


class Context:
    """What Arrow gives to a call."""

    def __init__(self, peer: str = "ipv4:10.0.0.1:5000", **headers: str) -> None:
        self._peer = peer
        self._headers: Mapping[str, list[str]] = {key: [text] for key, text in headers.items()}

    def peer(self) -> str:
        return self._peer

    def get_middleware(self, name: str) -> Any:
        return HeaderFactory().start_call(None, self._headers)


class House:
    def __init__(self, folder: Path, *, is_enabled: bool = True) -> None:
        clock = ManualClock()
        Management(Access(folder, Files(), clock=clock), clock).found("admin", _SECRET)
        options = AccessOptions(is_enabled=is_enabled)
        self.access = Access(folder, Files(), clock=clock, options=options)
        self.token = Management(self.access, clock).add(
            Caller("admin", ""), NewUser(name="guest", is_token=True)
        )
        self.trail = Trail(folder, Files(), clock=clock)
        self.callers = Callers(self.access, self.trail)

    def lines(self) -> list[tuple[str | None, str, str]]:
        return [(each.user, each.what, each.reason) for each in self.trail.recent(0) or []]


@pytest.fixture
def house(tmp_path: Path) -> House:
    return House(tmp_path)


def _basic(text: str) -> str:
    return f"Basic {base64.b64encode(text.encode()).decode()}"


@pytest.mark.parametrize(
    ("header", "method"),
    [
        (f"Bearer admin:{_SECRET}", "bearer"),
        (f"bearer  admin:{_SECRET}", "bearer"),
        (_basic(f"admin:{_SECRET}"), "basic"),
    ],
)
def test_a_header_says_who_calls(house: House, header: str, method: str) -> None:
    with house.callers.admitted(Context(authorization=header), "x", lambda: SUPER):
        assert caller() == Caller("admin", "10.0.0.1", method)
        check_topics(Action.PUB, ["orders"])
        assert may(Action.PUB, Action.UPDATE)("orders")

    assert caller().user is None


@pytest.mark.parametrize(
    ("header", "reason"),
    [
        (None, "no user"),
        ("Bearer admin", "wrong secret or altered request"),
        ("Bearer admin:wrong secret", "wrong secret or altered request"),
        ("Bearer ", "unknown user"),
        (_basic("stranger:secret"), "unknown user"),
        ("Basic !", "unknown user"),
        ("MQv2-HMAC-SHA1 x", "no user"),
    ],
)
def test_others_are_strangers(house: House, header: str | None, reason: str) -> None:
    context = Context() if header is None else Context(authorization=header)
    with (
        pytest.raises(Unauthenticated),
        house.callers.admitted(context, "report", lambda: pytest.fail("asked too early")),
    ):
        pass

    assert [line[1:] for line in house.lines()] == [("report", reason)]


def test_a_user_without_rights_is_refused_before_and_within(house: House) -> None:
    context = Context(authorization=f"Bearer guest:{house.token}")

    for needs, reason in ((SUPER, "not a super user"), (READ_ALL, "no permission")):
        with pytest.raises(Forbidden), house.callers.admitted(context, "x", partial(_same, needs)):
            pass
        assert house.lines()[-1] == ("guest", "x", reason)
    with house.callers.admitted(context, "look_up", lambda: USER):
        assert not may(Action.PUB, Action.UPDATE)("orders")
    with pytest.raises(Forbidden), house.callers.admitted(context, "put_rows", lambda: USER):
        check_topics(Action.PUB, ["orders"])
    assert house.lines()[-1] == ("guest", "put_rows", "no permission")


def _same(needs: Needs) -> Needs:
    return needs


@pytest.mark.parametrize(
    ("peer", "address"),
    [
        ("ipv4:10.0.0.1:5000", "10.0.0.1"),
        ("ipv6:[::1]:5000", "::1"),
        ("ipv6:%5B::1%5D:5000", "::1"),
        ("ipv6:[::ffff:10.0.0.1]:5000", "10.0.0.1"),
        ("unix:", "unix:"),
    ],
)
def test_peers_have_addresses(tmp_path: Path, peer: str, address: str) -> None:
    house = House(tmp_path, is_enabled=False)
    with house.callers.admitted(Context(peer), "x", lambda: SUPER):
        assert caller() == Caller(None, address)
        assert may(Action.PUB, Action.UPDATE)("orders")


@pytest.mark.parametrize(
    ("name", "request_", "answer", "line"),
    [
        (
            "cancel",
            protocol.Cancel(keys=("a", "b")),
            protocol.Answers(answers=("cancelled", "unknown"), counts=(2, 0)),
            (("a", "b"), 2),
        ),
        (
            "reschedule",
            protocol.Reschedule(moves=(protocol.Move(key="a", due_ms=1),)),
            protocol.Answers(answers=("rescheduled",), counts=(1,)),
            (("a",), 1),
        ),
        (
            "cancel",
            protocol.Cancel(keys=("a",)),
            protocol.Answers(answers=("unknown",), counts=(0,)),
            None,
        ),
        (
            "commit_window",
            None,
            protocol.Committed(delivered=5, skipped=0, dropped=3, repeated=0),
            ((), 3),
        ),
        (
            "commit_window",
            None,
            protocol.Committed(delivered=5, skipped=0, dropped=0, repeated=0),
            None,
        ),
    ],
)
def test_what_was_changed_is_a_line(
    house: House, name: str, request_: Any, answer: Any, line: tuple[tuple[str, ...], int] | None
) -> None:
    house.callers.note(name, request_, answer)

    found = [(each.on, each.count) for each in house.trail.recent(0) or []]
    assert found == ([] if line is None else [line])
