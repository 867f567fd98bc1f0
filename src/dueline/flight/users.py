"""Requests and answers about users, their policies and the audit trail.

Actions of the Flight port as those of `dueline.flight.operators`, which knows their names too; see
`docs/protocol/operators.md`. A secret is in the answer that makes it, and in no other.
"""

from __future__ import annotations

from typing import Final

from dueline.flight.values import Value

__all__ = [
    "USER_ACTIONS",
    "AddUser",
    "AuditLine",
    "AuditPage",
    "DeleteUser",
    "Grant",
    "ListUsers",
    "ReadAudit",
    "Revoke",
    "Revoked",
    "RotateUser",
    "UpdateUser",
    "UserDeleted",
    "UserEntry",
    "UserList",
    "UserPolicy",
    "UserSecret",
]


class UserPolicy(Value, frozen=True, kw_only=True):
    """`decision`: Allow or Deny. `type`: Custom, or Default for when no other one counts."""

    resource: str
    actions: tuple[str, ...]
    decision: str = "Allow"
    sources: tuple[str, ...] = ()
    type: str = "Custom"


class UserEntry(Value, frozen=True, kw_only=True):
    """`old_secret_until_ms`: until when the secret before this one is valid; null: it is not."""

    name: str
    type: str
    is_enabled: bool
    is_token: bool
    old_secret_until_ms: int | None
    policies: tuple[UserPolicy, ...]


class AddUser(Value, frozen=True, kw_only=True):
    """Make a user; without a secret one is made too."""

    name: str
    secret: str | None = None
    is_super: bool = False
    is_enabled: bool = True
    is_token: bool = False
    policies: tuple[UserPolicy, ...] = ()


class UserSecret(Value, frozen=True, kw_only=True):
    """The only time that a secret is told."""

    name: str
    secret: str


class UpdateUser(Value, frozen=True, kw_only=True):
    """Change a user; what is null stays as it is."""

    name: str
    is_super: bool | None = None
    is_enabled: bool | None = None


class RotateUser(Value, frozen=True, kw_only=True):
    """A new secret; the old one is valid for `keep_ms` longer."""

    name: str
    secret: str | None = None
    keep_ms: int = 0


class DeleteUser(Value, frozen=True, kw_only=True):
    """Forget a user and its policies."""

    name: str


class UserDeleted(Value, frozen=True, kw_only=True):
    name: str


class ListUsers(Value, frozen=True, kw_only=True):
    """Which users are there, whose name contains this?"""

    part: str = ""


class UserList(Value, frozen=True, kw_only=True):
    """By name."""

    users: tuple[UserEntry, ...]


class Grant(Value, frozen=True, kw_only=True):
    """Give a user policies; one on the same resource is replaced."""

    name: str
    policies: tuple[UserPolicy, ...]


class Revoke(Value, frozen=True, kw_only=True):
    """Take the policy on a resource away, or all of them."""

    name: str
    resource: str | None = None
    type: str = "Custom"


class Revoked(Value, frozen=True, kw_only=True):
    count: int


class ReadAudit(Value, frozen=True, kw_only=True):
    """The lines of the audit trail after a number, and before another if that is given; of those
    that match, the newest."""

    after: int = 0
    before: int | None = None
    user: str | None = None
    what: str | None = None
    event: str | None = None
    start_ms: int | None = None
    end_ms: int | None = None
    count_max: int = 100


class AuditLine(Value, frozen=True, kw_only=True):
    """`event`: refused, change or lost. `count`: how many of it."""

    n: int
    time_ms: int
    event: str
    user: str | None
    address: str
    method: str
    door: str
    what: str
    on: tuple[str, ...]
    reason: str
    count: int | None


class AuditPage(Value, frozen=True, kw_only=True):
    """The oldest first; `last` is the number to go on after."""

    lines: tuple[AuditLine, ...]
    last: int


USER_ACTIONS: Final[dict[str, tuple[type[Value], type[Value]]]] = {
    "add_user": (AddUser, UserSecret),
    "update_user": (UpdateUser, UserEntry),
    "rotate_user": (RotateUser, UserSecret),
    "delete_user": (DeleteUser, UserDeleted),
    "list_users": (ListUsers, UserList),
    "grant": (Grant, UserEntry),
    "revoke": (Revoke, Revoked),
    "read_audit": (ReadAudit, AuditPage),
}
"""Every action's name with the types of its request and its answer."""
