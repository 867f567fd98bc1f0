"""The audit trail on the command line."""

import json
from collections.abc import Callable

import pytest
from tests.unit.commands.conftest import Run

from dueline.broker.access import Caller
from dueline.errors import Forbidden
from dueline.server.process import BrokerProcess


def test_lines_are_filtered_and_shown(broker: BrokerProcess, run: Run) -> None:
    trail = broker.broker.trail
    for number in range(5):
        trail.changed(Caller("admin", "10.0.0.1"), door="flight", what=f"cancel {number}", count=2)
    error = Forbidden("no", reason="no permission", resource="Topic:orders")
    trail.refused(Caller("billing", "::1"), door="remoting", what="SEND", error=error)

    def numbers(*words: str) -> list[int]:
        return [json.loads(line)["n"] for line in run("audit", "--json", *words).lines]

    assert numbers() == [1, 2, 3, 4, 5, 6]
    assert numbers("--user", "billing") == numbers("--event", "refused") == [6]
    assert numbers("--what", "CANCEL", "--limit", "2") == [4, 5]
    assert numbers("--since", "1h") == [1, 2, 3, 4, 5, 6]
    assert numbers("--until", "1h") == numbers("--since", "2100-01-01T00:00") == []
    last = run("audit").lines[-1]
    assert "refused  billing from ::1  remoting SEND on Topic:orders: no permission" in last
    assert run("audit", "--limit", "0").code == 2


def test_lines_are_followed_as_they_come(
    broker: BrokerProcess, run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    trail = broker.broker.trail
    trail.changed(Caller("admin", ""), door="flight", what="one")
    steps: list[Callable[[], None]] = [
        lambda: trail.changed(Caller("admin", ""), door="flight", what="two"),
        lambda: None,
    ]

    def wait(_: float) -> None:
        if not steps:
            raise KeyboardInterrupt
        steps.pop(0)()

    monkeypatch.setattr("dueline.commands.audit.sleep", wait)

    ran = run("audit", "--follow", "--json")

    assert [json.loads(line)["what"] for line in ran.lines] == ["one", "two"]
    assert ran.code == 130
