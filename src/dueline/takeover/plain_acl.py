"""The users of a RocketMQ 4.x broker: `plain_acl.yml`, as users and policies of ACL 2.0.

    accounts:
    - accessKey: billing            a user; `admin: true` makes it a super user
      secretKey: 12345678
      defaultTopicPerm: DENY        Default policies on Topic:* and Group:*, which count where no
      defaultGroupPerm: SUB         other one does
      topicPerms:
      - orders=PUB|SUB              Allow Pub, Sub on Topic:orders
      - payments=DENY               Deny All on Topic:payments
      groupPerms:
      - readers=SUB

What has no counterpart is said in `notes`: addresses that need no signature (`whiteRemoteAddress`),
since here nobody comes in without one.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import yaml

from dueline.errors import InvalidRequest

__all__ = ["PlainAccount", "PlainAcl", "PlainPolicy", "parse_plain_acl", "read_plain_acl"]

_PERMISSIONS: Final = {
    "DENY": ("Deny", ("All",)),
    "PUB": ("Allow", ("Pub",)),
    "SUB": ("Allow", ("Sub",)),
    "PUB|SUB": ("Allow", ("Pub", "Sub")),
    "SUB|PUB": ("Allow", ("Pub", "Sub")),
    "ANY": ("Allow", ("Pub", "Sub")),
}
_NUMBER_MAX: Final = 10**256


@dataclass(frozen=True, slots=True, kw_only=True)
class PlainPolicy:
    """A policy as text."""

    resource: str
    actions: tuple[str, ...]
    decision: str
    type: str = "Custom"


@dataclass(frozen=True, slots=True, kw_only=True)
class PlainAccount:
    """A user as text."""

    name: str
    secret: str
    is_super: bool
    policies: tuple[PlainPolicy, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class PlainAcl:
    """What a file says, and what of it is left behind."""

    accounts: tuple[PlainAccount, ...]
    notes: tuple[str, ...]


def read_plain_acl(path: Path) -> PlainAcl:
    """Read a file.

    Raises:
        InvalidRequest: it cannot be read, or is none; says where.
    """
    try:
        text = path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise _unreadable(str(path), error) from error
    return parse_plain_acl(text, str(path))


def parse_plain_acl(text: str, path: str) -> PlainAcl:
    """The same of a text.

    Raises:
        InvalidRequest: it is none; says where, with the name of the file.
    """
    try:
        found = yaml.safe_load(text)
    except (yaml.YAMLError, RecursionError, ValueError) as error:
        raise _unreadable(path, error) from error
    if not isinstance(found, dict) or not isinstance(found.get("accounts"), list):
        raise InvalidRequest(f"{path}: expected a list `accounts`, found none")
    notes = []
    if found.get("globalWhiteRemoteAddresses"):
        notes.append("globalWhiteRemoteAddresses is left behind: nobody comes in without a secret")
    accounts = []
    for number, plain in enumerate(found["accounts"], start=1):
        where = f"{path}: account {number}"
        account = _account(plain, where)
        if plain.get("whiteRemoteAddress"):
            notes.append(f"whiteRemoteAddress of {account.name} is left behind, likewise")
        accounts.append(account)
    return PlainAcl(accounts=tuple(accounts), notes=tuple(notes))


def _unreadable(path: str, error: Exception) -> InvalidRequest:
    return InvalidRequest(
        f"{path}: expected a plain_acl.yml that can be read, found: {str(error)[:300]}"
    )


def _account(plain: Any, where: str) -> PlainAccount:
    if not isinstance(plain, dict):
        raise InvalidRequest(f"{where}: expected accessKey and secretKey, found neither")
    return PlainAccount(
        name=_text(plain, "accessKey", where),
        secret=_text(plain, "secretKey", where),
        is_super=plain.get("admin") is True,
        policies=tuple(_policies(plain, where)),
    )


def _text(plain: dict[Any, Any], field: str, where: str) -> str:
    value = plain.get(field)
    # YAML reads 12345678 as a number.
    if type(value) is int and abs(value) < _NUMBER_MAX:
        return str(value)
    if not isinstance(value, str) or not value:
        raise InvalidRequest(f"{where}: expected {field} to be text, found something else")
    return value


def _policies(plain: dict[Any, Any], where: str) -> Iterator[PlainPolicy]:
    for kind in ("topic", "group"):
        title = kind.capitalize()
        if (default := plain.get(f"default{title}Perm")) is not None:
            decision, actions = _permission(default, where)
            yield PlainPolicy(
                resource=f"{title}:*", actions=actions, decision=decision, type="Default"
            )
        listed = plain.get(f"{kind}Perms") or []
        if not isinstance(listed, list):
            raise InvalidRequest(f"{where}: expected {kind}Perms to be a list")
        for text in listed:
            name, equals, permission = text.partition("=") if isinstance(text, str) else ("",) * 3
            if not name.strip() or not equals:
                raise InvalidRequest(f"{where}: expected name=PUB|SUB, found {_shown(text)}")
            decision, actions = _permission(permission, where)
            yield PlainPolicy(
                resource=f"{title}:{name.strip()}", actions=actions, decision=decision
            )


def _permission(found: Any, where: str) -> tuple[str, tuple[str, ...]]:
    name = found.replace(" ", "").upper() if isinstance(found, str) else ""
    if name not in _PERMISSIONS:
        raise InvalidRequest(f"{where}: expected DENY, PUB, SUB or PUB|SUB, found {_shown(found)}")
    return _PERMISSIONS[name]


def _shown(found: Any) -> str:
    """Text, or of what else it is: a few lines of YAML can be a value that fills the memory."""
    return repr(found[:100]) if isinstance(found, str) else f"a {type(found).__name__}"
