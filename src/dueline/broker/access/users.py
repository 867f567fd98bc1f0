"""Users as they are in memory and in their file.

    {"version": 1, "users": [
      {"name": "billing", "type": "Normal", "is_enabled": true, "is_token": false,
       "secrets": [{"kept": "…", "until_ms": null}],
       "policies": [{"resource": "Topic:orders*", "actions": ["Pub"], "sources": [],
                     "decision": "Allow", "type": "Custom"}]}]}

`kept` is the sealed secret of a user that signs, or the hash of a token; see
`dueline.broker.access.secrets`. While a secret is turned over there are two, and the older one has
an end: `until_ms`. docs/format/access.md describes the file.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import msgspec

from dueline.broker.access.secrets import Seal
from dueline.broker.access.values import (
    Policy,
    PolicyType,
    Resource,
    check_name,
    names_of,
    parse_actions,
    parse_network,
)
from dueline.errors import InvalidRequest, StoreError

__all__ = [
    "PolicyText",
    "Secret",
    "User",
    "decode_policy",
    "decode_users",
    "encode_policy",
    "encode_users",
]

VERSION: Final = 1


@dataclass(frozen=True, slots=True, kw_only=True)
class Secret:
    """One secret of a user; `key` is the secret itself if the user signs."""

    kept: str
    key: bytes | None = None
    until_ms: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class User:
    """Somebody who may ask; the newest secret is the first."""

    name: str
    is_super: bool = False
    is_enabled: bool = True
    is_token: bool = False
    secrets: tuple[Secret, ...] = ()
    policies: tuple[Policy, ...] = ()

    @property
    def type(self) -> str:
        return "Super" if self.is_super else "Normal"


class _Secret(msgspec.Struct, kw_only=True):
    kept: str
    until_ms: int | None = None


class PolicyText(msgspec.Struct, kw_only=True):
    """A policy as text."""

    resource: str
    actions: list[str]
    decision: str
    sources: list[str] = []
    type: str = "Custom"


class _User(msgspec.Struct, kw_only=True):
    name: str
    type: str
    is_enabled: bool
    is_token: bool
    secrets: list[_Secret]
    policies: list[PolicyText]


class _File(msgspec.Struct, kw_only=True):
    version: int
    users: list[_User]


def encode_policy(policy: Policy) -> PolicyText:
    """A policy as text."""
    return PolicyText(
        resource=str(policy.resource),
        actions=names_of(policy.actions),
        decision="Allow" if policy.is_allowed else "Deny",
        sources=[str(network) for network in policy.sources],
        type=policy.type.value,
    )


def decode_policy(text: PolicyText) -> Policy:
    """A policy from text.

    Raises:
        InvalidRequest: says what was expected.
    """
    decision = text.decision.lower()
    if decision not in ("allow", "deny"):
        raise InvalidRequest(
            f"decision: expected Allow or Deny, found {text.decision[:200]!r}", field="decision"
        )
    types = {each.value.lower(): each for each in PolicyType}
    if text.type.lower() not in types:
        raise InvalidRequest(
            f"policy type: expected Custom or Default, found {text.type[:200]!r}", field="type"
        )
    return Policy(
        resource=Resource.parse(text.resource),
        actions=parse_actions(text.actions),
        is_allowed=decision == "allow",
        sources=tuple(parse_network(each) for each in text.sources),
        type=types[text.type.lower()],
    )


def encode_users(users: Iterable[User]) -> bytes:
    """The file of all users."""
    texts = [
        _User(
            name=user.name,
            type=user.type,
            is_enabled=user.is_enabled,
            is_token=user.is_token,
            secrets=[_Secret(kept=each.kept, until_ms=each.until_ms) for each in user.secrets],
            policies=[encode_policy(policy) for policy in user.policies],
        )
        for user in users
    ]
    return msgspec.json.format(msgspec.json.encode(_File(version=VERSION, users=texts)), indent=1)


def decode_users(data: bytes, path: Path, seal: Seal) -> Mapping[str, User]:
    """The users of a file, by name.

    Raises:
        StoreError: a file that is none, or secrets that another key has sealed.
    """
    try:
        found = msgspec.json.decode(data, type=_File)
        _check_version(found.version)
        return {text.name: _user(text, seal) for text in found.users}
    except (msgspec.DecodeError, InvalidRequest) as error:
        raise StoreError(
            f"{path}: expected users as JSON, found: {error}; repair the file, or put it back from "
            "a backup",
            path=str(path),
        ) from error


def _check_version(found: int) -> None:
    if found != VERSION:
        raise InvalidRequest(f"version: expected {VERSION}, found {found}")


def _user(text: _User, seal: Seal) -> User:
    check_name(text.name)
    if text.type not in ("Super", "Normal"):
        raise InvalidRequest(f"type: expected Super or Normal, found {text.type[:200]!r}")
    secrets = [
        Secret(
            kept=each.kept,
            key=None if text.is_token else seal.unseal(each.kept, text.name).encode(),
            until_ms=each.until_ms,
        )
        for each in text.secrets
    ]
    return User(
        name=text.name,
        is_super=text.type == "Super",
        is_enabled=text.is_enabled,
        is_token=text.is_token,
        secrets=tuple(secrets),
        policies=tuple(decode_policy(policy) for policy in text.policies),
    )
