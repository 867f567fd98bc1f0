"""Users and their policies, for the tools of 5.x (`mqadmin createUser`, `createAcl` and so on).

The secret of a user is in an answer only if a super user asks, with access control on: the tool
that copies users needs it. Tokens are in no answer, since the broker does not have them.
"""

from __future__ import annotations

from collections.abc import Mapping

from dueline.broker.access import NewUser, Policy, Resource
from dueline.broker.access.users import PolicyText, User, decode_policy, encode_policy
from dueline.broker.access.values import PolicyType
from dueline.errors import InvalidRequest, NotFound
from dueline.server.remoting.answers import OK, Response
from dueline.server.remoting.channel import Request
from dueline.server.remoting.context import Context
from dueline.server.remoting.hub import Handler, Hub, blocking
from dueline.wire import fastjson
from dueline.wire.admin_bodies import AclInfo, PolicyEntryInfo, PolicyInfo, UserInfo
from dueline.wire.admin_headers import (
    AclFilterRequest,
    AclRequest,
    DeleteAclRequest,
    UserFilterRequest,
    UserRequest,
)
from dueline.wire.codes import RequestCode

__all__ = ["UserAdmin"]

_SUBJECT = "User:"


class UserAdmin:
    """Handlers of 3001 to 3010."""

    def __init__(self, context: Context, hub: Hub) -> None:
        self._access = context.broker.access
        self._users = context.broker.users
        self._hub = hub

    def table(self) -> Mapping[int, Handler]:
        work = {
            RequestCode.AUTH_CREATE_USER: self.create,
            RequestCode.AUTH_UPDATE_USER: self.update,
            RequestCode.AUTH_DELETE_USER: self.delete,
            RequestCode.AUTH_GET_USER: self.get,
            RequestCode.AUTH_LIST_USER: self.list,
            RequestCode.AUTH_CREATE_ACL: self.grant,
            RequestCode.AUTH_UPDATE_ACL: self.grant,
            RequestCode.AUTH_DELETE_ACL: self.revoke,
            RequestCode.AUTH_GET_ACL: self.get_acl,
            RequestCode.AUTH_LIST_ACL: self.list_acls,
        }
        return {code: blocking(self._hub, each) for code, each in work.items()}

    # Users

    def create(self, request: Request) -> Response:
        name, info = _user_of(request)
        if not info.password:
            raise InvalidRequest(f"user {name}: expected a password, found none", field="password")
        self._users.add(
            request.caller,
            NewUser(
                name=name,
                secret=info.password,
                is_super=_is_super(info) or False,
                is_enabled=_is_enabled(info) is not False,
            ),
        )
        return OK

    def update(self, request: Request) -> Response:
        name, info = _user_of(request)
        self._users.update(
            request.caller,
            name,
            secret=info.password or None,
            is_super=_is_super(info),
            is_enabled=_is_enabled(info),
        )
        return OK

    def delete(self, request: Request) -> Response:
        """One that is not there is no error, as with RocketMQ."""
        name = UserRequest.decode(request.command.ext).username
        request.changed_names = (_SUBJECT + name,)
        try:
            self._users.delete(request.caller, name)
        except NotFound:
            request.on_answer = None
        return OK

    def get(self, request: Request) -> Response:
        name = UserRequest.decode(request.command.ext).username
        user = self._access.users.get(name)
        if user is None:
            return OK  # without a body: there is none
        return Response(body=self._info(request, user).encode())

    def list(self, request: Request) -> Response:
        part = UserFilterRequest.decode(request.command.ext).filter or ""
        found = [self._info(request, user).to_json() for user in self._users.users(part)]
        return Response(body=fastjson.dumps(found)) if found else OK

    def _info(self, request: Request, user: User) -> UserInfo:
        password = None
        if self._access.is_enabled and self._access.is_super(request.caller):
            key = user.secrets[0].key
            password = None if key is None else key.decode()
        return UserInfo(
            username=user.name,
            password=password,
            user_type=user.type,
            user_status="enable" if user.is_enabled else "disable",
        )

    # Policies

    def grant(self, request: Request) -> Response:
        name = _name_of(AclRequest.decode(request.command.ext).subject)
        info = AclInfo.decode_request(request.command.body)
        policies = [
            _policy(entry, each.policy_type) for each in info.policies for entry in each.entries
        ]
        if not policies:
            raise InvalidRequest("policies: expected one or more, found none", field="policies")
        request.changed_names = (_SUBJECT + name, *(str(each.resource) for each in policies))
        self._users.grant(request.caller, name, policies)
        return OK

    def revoke(self, request: Request) -> Response:
        header = DeleteAclRequest.decode(request.command.ext)
        name = _name_of(header.subject)
        resource = Resource.parse(header.resource) if header.resource else None
        is_default = (header.policy_type or "").lower() == "default"
        policy_type = PolicyType.DEFAULT if is_default else PolicyType.CUSTOM
        request.changed_names = (_SUBJECT + name, *([str(resource)] if resource else []))
        request.changed_count = self._users.revoke(
            request.caller, name, resource, policy_type=policy_type
        )
        return OK

    def get_acl(self, request: Request) -> Response:
        user = self._users.user(_name_of(AclRequest.decode(request.command.ext).subject))
        return Response(body=_acl(user).encode()) if user.policies else OK

    def list_acls(self, request: Request) -> Response:
        header = AclFilterRequest.decode(request.command.ext)
        subject, resource = header.subject_filter or "", header.resource_filter or ""
        found = [
            _acl(user, resource).to_json()
            for user in self._users.users()
            if subject in _SUBJECT + user.name
            and any(resource in str(each.resource) for each in user.policies)
        ]
        return Response(body=fastjson.dumps(found)) if found else OK


def _user_of(request: Request) -> tuple[str, UserInfo]:
    name = UserRequest.decode(request.command.ext).username
    request.changed_names = (_SUBJECT + name,)
    return name, UserInfo.decode_request(request.command.body)


def _is_super(info: UserInfo) -> bool | None:
    return _choice("userType", info.user_type, {"super": True, "normal": False})


def _is_enabled(info: UserInfo) -> bool | None:
    return _choice("userStatus", info.user_status, {"enable": True, "disable": False})


def _choice(field: str, found: str | None, known: Mapping[str, bool]) -> bool | None:
    if not found:
        return None
    if found.lower() not in known:
        raise InvalidRequest(
            f"{field}: expected {' or '.join(known)}, found {found[:200]!r}", field=field
        )
    return known[found.lower()]


def _name_of(subject: str) -> str:
    kind, _, name = subject.partition(":")
    if kind.lower() != "user" or not name:
        raise InvalidRequest(
            f"subject: expected User:name, found {subject[:200]!r}", field="subject"
        )
    return name


def _policy(entry: PolicyEntryInfo, policy_type: str | None) -> Policy:
    return decode_policy(
        PolicyText(
            resource=entry.resource,
            actions=entry.actions,
            decision=entry.decision,
            sources=entry.source_ips or [],
            type=policy_type or "Custom",
        )
    )


def _acl(user: User, part: str = "") -> AclInfo:
    """The policies of a user on resources whose text contains `part`."""
    entries: dict[str, list[PolicyEntryInfo]] = {}
    for policy in user.policies:
        text = encode_policy(policy)
        if part in text.resource:
            entries.setdefault(text.type, []).append(
                PolicyEntryInfo(
                    resource=text.resource,
                    actions=text.actions,
                    source_ips=text.sources or None,
                    decision=text.decision,
                )
            )
    return AclInfo(
        subject=_SUBJECT + user.name,
        policies=[PolicyInfo(policy_type=kind, entries=found) for kind, found in entries.items()],
    )
