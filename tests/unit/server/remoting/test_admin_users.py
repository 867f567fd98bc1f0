"""Users and policies by the requests of `mqadmin`."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.unit.server.remoting.world import Client, RemotingWorld, body_of, remoting_world

from dueline.server.remoting.admin_users import UserAdmin
from dueline.wire import RequestCode as Code

_ACL = {
    "subject": "User:billing",
    "policies": [
        {
            "entries": [
                {"resource": "Topic:orders*", "actions": ["Pub"], "decision": "Allow"},
                {
                    "resource": "Group:*",
                    "actions": ["Sub"],
                    "sourceIps": ["10.0.0.0/8"],
                    "decision": "Deny",
                },
            ]
        }
    ],
}


@pytest.fixture
def world(tmp_path: Path) -> Iterator[RemotingWorld]:
    with remoting_world(tmp_path) as world:
        world.serve(UserAdmin(world.context, world.hub).table())
        yield world


@pytest.fixture
def client(world: RemotingWorld) -> Client:
    client = world.client()
    body = {"username": "billing", "password": "12345678"}
    assert client.ask(Code.AUTH_CREATE_USER, {"username": "billing"}, body).code == 0
    return client


def test_a_user_is_made_changed_and_deleted(world: RemotingWorld, client: Client) -> None:
    name = {"username": "billing"}
    body = {"password": "87654321", "userType": "Super", "userStatus": "disable"}

    assert body_of(client.ask(Code.AUTH_GET_USER, name)) == {
        "username": "billing",
        "userStatus": "enable",
        "userType": "Normal",
    }
    assert client.ask(Code.AUTH_UPDATE_USER, name, body).code == 0
    found = body_of(client.ask(Code.AUTH_LIST_USER, {"filter": "bill"}))
    assert [(each["userType"], each["userStatus"]) for each in found] == [("Super", "disable")]
    assert client.ask(Code.AUTH_DELETE_USER, name).code == 0
    assert client.ask(Code.AUTH_DELETE_USER, name).code == 0
    for code, ext in ((Code.AUTH_GET_USER, name), (Code.AUTH_LIST_USER, {})):
        answer = client.ask(code, ext)
        assert (answer.code, answer.body) == (0, b"")

    lines = [(line.what, line.on) for line in world.broker.trail.recent(0) or []]
    assert lines == [
        ("AUTH_CREATE_USER", ("User:billing",)),
        ("AUTH_UPDATE_USER", ("User:billing",)),
        ("AUTH_DELETE_USER", ("User:billing",)),
    ]


def test_nobody_gets_secrets_while_nobody_is_asked_who_they_are(client: Client) -> None:
    for code in (Code.AUTH_GET_USER, Code.AUTH_LIST_USER):
        assert b"12345678" not in client.ask(code, {"username": "billing"}).body


@pytest.mark.parametrize(
    "body",
    [
        {"username": "new"},
        {"password": ""},
        {"password": "short"},
        {"password": "12345678", "userType": "root"},
        {"password": "12345678", "userStatus": "maybe"},
    ],
)
def test_what_is_no_user_is_refused(client: Client, body: object) -> None:
    answer = client.ask(Code.AUTH_CREATE_USER, {"username": "new"}, body)

    assert answer.code == 29
    assert "expected" in (answer.remark or "")


def test_policies_are_granted_listed_and_revoked(client: Client) -> None:
    subject = {"subject": "User:billing"}
    expected = json.loads(json.dumps(_ACL))
    expected["policies"][0]["policyType"] = "Custom"

    assert client.ask(Code.AUTH_GET_ACL, subject).body == b""
    assert client.ask(Code.AUTH_CREATE_ACL, subject, _ACL).code == 0
    assert body_of(client.ask(Code.AUTH_GET_ACL, subject)) == expected
    assert client.ask(Code.AUTH_UPDATE_ACL, subject, _ACL).code == 0
    assert body_of(client.ask(Code.AUTH_LIST_ACL, {"subjectFilter": "bill"})) == [expected]
    (found,) = body_of(client.ask(Code.AUTH_LIST_ACL, {"resourceFilter": "orders"}))
    assert [each["resource"] for each in found["policies"][0]["entries"]] == ["Topic:orders*"]
    assert client.ask(Code.AUTH_LIST_ACL, {"resourceFilter": "payments"}).body == b""
    assert client.ask(Code.AUTH_DELETE_ACL, {**subject, "resource": "Group:*"}).code == 0
    (policy,) = body_of(client.ask(Code.AUTH_GET_ACL, subject))["policies"]
    assert [each["resource"] for each in policy["entries"]] == ["Topic:orders*"]
    assert client.ask(Code.AUTH_DELETE_ACL, subject).code == 0
    assert client.ask(Code.AUTH_GET_ACL, subject).body == b""


@pytest.mark.parametrize(
    ("subject", "body"),
    [
        ("billing", _ACL),
        ("Group:billing", _ACL),
        ("User:", _ACL),
        ("User:stranger", _ACL),
        ("User:billing", {"policies": []}),
        (
            "User:billing",
            {"policies": [{"entries": [{"resource": "x", "actions": [], "decision": ""}]}]},
        ),
    ],
)
def test_what_is_no_policy_of_a_user_is_refused(client: Client, subject: str, body: object) -> None:
    answer = client.ask(Code.AUTH_CREATE_ACL, {"subject": subject}, body)

    assert answer.code != 0
    assert "expected" in (answer.remark or "")
