"""Every route of the HTTP port, asked by nobody, with a wrong secret, without rights and with them.

The routes are those of the application itself, so a new one is in the matrix by itself, and fails
it if it asks nobody: what anybody may see is written down here.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from starlette.routing import Mount, Route
from tests.access.people import ADMIN, CLERK, GUEST, STRANGER, WRONG, guarded
from tests.unit.web.local import Answer, Site, site_of

from dueline.credentials import Credentials
from dueline.server.process import BrokerProcess
from dueline.web.app import make_app
from dueline.web.gateway import Gateway

TOPIC, GROUP = "payments", "strangers"
OPEN = {"GET /health/live", "GET /health/ready", "GET /api/v1/openapi.json", "GET /static"}
"""What tells nothing of messages, topics or users."""
FREE = {"GET /api/v1/messages/{name:path}", "GET /message"}
"""What takes no more than being a user; what is found then takes rights of its own."""
VALUES = {"number": "1", "offset": "0", "topic": TOPIC, "group": GROUP, "name": "order-7"}
ENDINGS = {"GET /message": "?name=order-7", "GET /static": "/svg.js"}
BODIES: dict[str, Any] = {
    "POST /api/v1/jobs": {"action": "cancel", "filter": {"topic": TOPIC}},
    "POST /api/v1/messages": {"topic": TOPIC, "body": "x"},
    "POST /api/v1/topics": {"topic": TOPIC},
    "POST /api/v1/topics/{topic}/rules": {"is_paused": False},
    "POST /api/v1/groups/{group}/reset": {"topic": TOPIC, "to": "end"},
    "POST /api/v1/groups/{group}/dead-letters/{offset}/resend": {},
}
NOBODIES = [None, WRONG, STRANGER]


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[BrokerProcess]:
    folder: Path = tmp_path_factory.mktemp("http matrix")
    with guarded(folder) as broker:
        yield broker


@pytest.fixture(scope="module")
def site(broker: BrokerProcess) -> Iterator[Site]:
    with site_of(broker.address, hosts=None) as site:
        yield site


def _routes() -> list[str]:
    """Method and path of all that is served."""
    gateway = Gateway("127.0.0.1:1")
    try:
        found = []
        for route in make_app(gateway).routes:
            if isinstance(route, Mount):
                found.append(f"GET {route.path}")
                continue
            assert isinstance(route, Route), f"{route}: expected one that is asked here"
            found += [
                f"{method} {route.path}" for method in route.methods or () if method != "HEAD"
            ]
        return found
    finally:
        gateway.close()


def _ask(site: Site, who: Credentials | None) -> dict[str, Answer]:
    found = {}
    headers = {} if who is None else {"Authorization": f"Bearer {who.token}"}
    for route in _routes():
        method, _, path = route.partition(" ")
        named = re.sub(r"\{(\w+)(?::path)?\}", lambda match: VALUES[match[1]], path)
        named += ENDINGS.get(route, "")
        found[route] = site.ask(method, named, BODIES.get(route), headers=headers)
    return found


def _statuses(answers: dict[str, Answer]) -> dict[str, int]:
    return {route: answer.status for route, answer in answers.items()}


@pytest.mark.parametrize("who", NOBODIES, ids=["nobody", "wrong secret", "stranger"])
def test_strangers_are_refused_whatever_they_ask(site: Site, who: Credentials | None) -> None:
    answers = _ask(site, who)

    assert len(answers) > 30
    served = {route for route, status in _statuses(answers).items() if status != 401}
    assert served == OPEN
    for route in answers.keys() - OPEN:
        assert answers[route].headers["www-authenticate"].startswith("Basic "), route


def test_what_is_open_says_nothing_that_only_users_may_know(site: Site) -> None:
    site.ask(
        "POST",
        "/api/v1/topics",
        {"topic": "known-to-users"},
        headers={"Authorization": f"Bearer {ADMIN.token}"},
    )

    answers = _ask(site, None)

    for route in OPEN:
        assert "known-to-users" not in answers[route].text, route


@pytest.mark.parametrize("who", [GUEST, CLERK], ids=["without rights", "with other rights"])
def test_users_are_refused_what_they_have_no_right_to(site: Site, who: Credentials) -> None:
    statuses = _statuses(_ask(site, who))

    served = {route for route, status in statuses.items() if status != 403}
    assert served == OPEN | FREE


def test_super_users_are_refused_nothing(site: Site) -> None:
    statuses = _statuses(_ask(site, ADMIN))

    refused = {route: status for route, status in statuses.items() if status in (401, 403)}
    assert refused == {}
