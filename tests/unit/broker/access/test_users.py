"""The users' file: everything comes back, nothing secret is in it, damage is said."""

import json
from pathlib import Path

import pytest

from dueline.broker.access.secrets import Seal, token_hash
from dueline.broker.access.users import (
    PolicyText,
    Secret,
    User,
    decode_policy,
    decode_users,
    encode_policy,
    encode_users,
)
from dueline.broker.access.values import Policy, PolicyType, Resource, parse_actions, parse_network
from dueline.errors import InvalidRequest, StoreError
from dueline.store.files import Files


@pytest.fixture
def seal(tmp_path: Path) -> Seal:
    return Seal(tmp_path / "users.key", Files())


def _users(seal: Seal) -> list[User]:
    policies = (
        Policy(
            resource=Resource.parse("Topic:orders*"),
            actions=parse_actions(["Pub", "Get"]),
            is_allowed=True,
            sources=(parse_network("10.0.0.0/8"), parse_network("::1")),
        ),
        Policy(
            resource=Resource.parse("*"),
            actions=parse_actions(["All"]),
            is_allowed=False,
            type=PolicyType.DEFAULT,
        ),
    )
    sealed = Secret(kept=seal.seal("top secret", "admin"), key=b"top secret", until_ms=7)
    return [
        User(name="admin", is_super=True, secrets=(sealed,)),
        User(
            name="reports",
            is_enabled=False,
            is_token=True,
            secrets=(Secret(kept=token_hash("a token")),),
            policies=policies,
        ),
    ]


def test_users_are_read_again_as_they_were(seal: Seal) -> None:
    users = _users(seal)

    data = encode_users(users)

    assert decode_users(data, Path("users.json"), seal) == {user.name: user for user in users}
    assert b"top secret" not in data
    assert b"a token" not in data


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"{}",
        b"[]",
        b'{"version": 2, "users": []}',
        b'{"version": 1, "users": [{"name": "a"}]}',
        b'{"version": 1, "users": [{"name": "a:b", "type": "Normal", "is_enabled": true,'
        b' "is_token": true, "secrets": [], "policies": []}]}',
        b'{"version": 1, "users": [{"name": "a", "type": "root", "is_enabled": true,'
        b' "is_token": true, "secrets": [], "policies": []}]}',
    ],
)
def test_a_damaged_file_is_no_empty_one(seal: Seal, data: bytes) -> None:
    with pytest.raises(StoreError, match=r"users.json: expected users as JSON"):
        decode_users(data, Path("users.json"), seal)


def test_a_secret_under_another_name_is_refused(seal: Seal) -> None:
    plain = json.loads(encode_users(_users(seal)))
    plain["users"][0]["name"] = "mallory"

    with pytest.raises(StoreError, match="the secret of user mallory"):
        decode_users(json.dumps(plain).encode(), Path("users.json"), seal)


def test_a_policy_is_text_and_back() -> None:
    text = PolicyText(resource="topic:A*", actions=["pub"], decision="ALLOW", type="default")

    policy = decode_policy(text)

    assert encode_policy(policy) == PolicyText(
        resource="Topic:A*", actions=["Pub"], decision="Allow", sources=[], type="Default"
    )
    for wrong in (
        PolicyText(resource="*", actions=["Pub"], decision="maybe"),
        PolicyText(resource="*", actions=["Pub"], decision="Deny", type="other"),
    ):
        with pytest.raises(InvalidRequest):
            decode_policy(wrong)
