"""What is asked about users, their policies and the audit trail."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable
from typing import Final

from dueline.broker import Broker
from dueline.broker.access import NewUser, Policy, Resource
from dueline.broker.access.trail import Entry
from dueline.broker.access.users import PolicyText, User, decode_policy, encode_policy
from dueline.broker.access.values import PolicyType
from dueline.errors import InvalidRequest
from dueline.flight import users
from dueline.server.flight.answering import Handler, handler
from dueline.server.flight.callers import caller

__all__ = ["UserActions"]

LINE_COUNT_MAX: Final = 10_000


class UserActions:
    """The requests of `dueline.flight.users`, by their names in `table`."""

    def __init__(self, broker: Broker) -> None:
        self._users = broker.users
        self._trail = broker.trail
        self.table: Final[dict[str, Handler]] = {
            "add_user": handler(users.AddUser, self._add),
            "update_user": handler(users.UpdateUser, self._update),
            "rotate_user": handler(users.RotateUser, self._rotate),
            "delete_user": handler(users.DeleteUser, self._delete),
            "list_users": handler(users.ListUsers, self._list),
            "grant": handler(users.Grant, self._grant),
            "revoke": handler(users.Revoke, self._revoke),
            "read_audit": handler(users.ReadAudit, self._audit),
        }

    # Users

    def _add(self, request: users.AddUser) -> users.UserSecret:
        policies = _policies(request.policies)
        secret = self._users.add(
            caller(),
            NewUser(
                name=request.name,
                secret=request.secret,
                is_super=request.is_super,
                is_enabled=request.is_enabled,
                is_token=request.is_token,
            ),
        )
        if policies:
            self._users.grant(caller(), request.name, policies)
        return users.UserSecret(name=request.name, secret=secret)

    def _update(self, request: users.UpdateUser) -> users.UserEntry:
        self._users.update(
            caller(), request.name, is_super=request.is_super, is_enabled=request.is_enabled
        )
        return _entry(self._users.user(request.name))

    def _rotate(self, request: users.RotateUser) -> users.UserSecret:
        secret = self._users.rotate(caller(), request.name, request.secret, keep_ms=request.keep_ms)
        return users.UserSecret(name=request.name, secret=secret)

    def _delete(self, request: users.DeleteUser) -> users.UserDeleted:
        self._users.delete(caller(), request.name)
        return users.UserDeleted(name=request.name)

    def _list(self, request: users.ListUsers) -> users.UserList:
        return users.UserList(users=tuple(map(_entry, self._users.users(request.part))))

    # Policies

    def _grant(self, request: users.Grant) -> users.UserEntry:
        self._users.grant(caller(), request.name, _policies(request.policies))
        return _entry(self._users.user(request.name))

    def _revoke(self, request: users.Revoke) -> users.Revoked:
        types = {each.value: each for each in PolicyType}
        if request.type not in types:
            raise InvalidRequest(f"type: expected Custom or Default, found {request.type[:100]!r}")
        resource = None if request.resource is None else Resource.parse(request.resource)
        count = self._users.revoke(
            caller(), request.name, resource, policy_type=types[request.type]
        )
        return users.Revoked(count=count)

    # The audit trail

    def _audit(self, request: users.ReadAudit) -> users.AuditPage:
        if not 1 <= request.count_max <= LINE_COUNT_MAX:
            raise InvalidRequest(
                f"count_max: expected 1 to {LINE_COUNT_MAX}, found {request.count_max}"
            )
        recent = self._trail.recent(request.after)
        entries: Iterable[Entry] = self._trail.read() if recent is None else recent
        found: deque[Entry] = deque(maxlen=request.count_max)
        last = request.after
        for entry in entries:
            last = max(last, entry.n)
            if entry.n > request.after and _is_meant(entry, request):
                found.append(entry)
        return users.AuditPage(lines=tuple(map(_line, found)), last=last)


def _is_meant(entry: Entry, wanted: users.ReadAudit) -> bool:
    return (
        (wanted.before is None or entry.n < wanted.before)
        and wanted.user in (None, entry.user)
        and wanted.event in (None, entry.event)
        and (wanted.what is None or wanted.what.lower() in entry.what.lower())
        and (wanted.start_ms is None or entry.time_ms >= wanted.start_ms)
        and (wanted.end_ms is None or entry.time_ms < wanted.end_ms)
    )


def _line(entry: Entry) -> users.AuditLine:
    return users.AuditLine(
        n=entry.n,
        time_ms=entry.time_ms,
        event=entry.event,
        user=entry.user,
        address=entry.address,
        method=entry.method,
        door=entry.door,
        what=entry.what,
        on=entry.on,
        reason=entry.reason,
        count=entry.count,
    )


def _policies(texts: Iterable[users.UserPolicy]) -> list[Policy]:
    return [
        decode_policy(
            PolicyText(
                resource=each.resource,
                actions=list(each.actions),
                decision=each.decision,
                sources=list(each.sources),
                type=each.type,
            )
        )
        for each in texts
    ]


def _entry(user: User) -> users.UserEntry:
    texts = map(encode_policy, user.policies)
    return users.UserEntry(
        name=user.name,
        type=user.type,
        is_enabled=user.is_enabled,
        is_token=user.is_token,
        old_secret_until_ms=user.secrets[1].until_ms if len(user.secrets) > 1 else None,
        policies=tuple(
            users.UserPolicy(
                resource=text.resource,
                actions=tuple(text.actions),
                decision=text.decision,
                sources=tuple(text.sources),
                type=text.type,
            )
            for text in texts
        ),
    )
