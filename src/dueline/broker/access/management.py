"""Users and their rights, changed: each verb is durable and in force when it returns.

Only super users may make, change or delete super users: rights on the cluster must not be a way to
become one. The last super user that is enabled cannot be deleted, disabled or made normal: nobody
could repair that.

    secret over time     ── rotate ──▶  the new one, and the old one for `keep_ms` longer
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Final

from dueline.broker.access.access import Access
from dueline.broker.access.secrets import check_secret, new_secret, token_hash
from dueline.broker.access.users import Secret, User
from dueline.broker.access.values import Caller, Policy, PolicyType, Resource, check_name
from dueline.clock import Clock
from dueline.errors import Forbidden, InvalidRequest, LimitExceeded, NotFound

__all__ = ["KEEP_MS_MAX", "Management", "NewUser"]

KEEP_MS_MAX: Final = 90 * 86_400_000
POLICY_COUNT_OF_USER_MAX: Final = 1_000


@dataclass(frozen=True, slots=True, kw_only=True)
class NewUser:
    """A user to be made; without a secret, one is made as well."""

    name: str
    secret: str | None = None
    is_super: bool = False
    is_enabled: bool = True
    is_token: bool = False


class Management:
    """The verbs of those who look after users."""

    def __init__(self, access: Access, clock: Clock) -> None:
        self._access = access
        self._clock = clock

    def found(self, name: str, secret: str) -> bool:
        """Make the first super user, or one that can repair things: only if none is enabled.

        Returns whether it was made; a user of this name that is there gets the secret.

        Raises:
            InvalidRequest: no name, or a bad secret.
        """
        check_name(name)
        check_secret(secret)
        if any(user.is_super and user.is_enabled for user in self._access.users.values()):
            return False
        kept = self._kept(name, secret, is_token=False)

        def found(users: dict[str, User]) -> None:
            users[name] = User(name=name, is_super=True, secrets=(kept,))

        self._access.change(found)
        return True

    # Users

    def add(self, caller: Caller, new: NewUser) -> str:
        """A new user; returns the secret, which is made here if none is given.

        Raises:
            InvalidRequest: no name, a bad secret, a token that was chosen, or a user that exists.
            Forbidden: only super users make super users.
            LimitExceeded: there are as many users as there may be.
        """
        name = new.name
        check_name(name)
        chosen = _chosen(new.secret, is_token=new.is_token)
        if new.is_super:
            self._only_super(caller, name)
        kept = self._kept(name, chosen, is_token=new.is_token)

        def add(users: dict[str, User]) -> None:
            if name in users:
                raise InvalidRequest(
                    f"user {name}: expected a new name, found a user that has it", field="user"
                )
            users[name] = User(
                name=name,
                is_super=new.is_super,
                is_enabled=new.is_enabled,
                is_token=new.is_token,
                secrets=(kept,),
            )

        self._access.change(add)
        return chosen

    def update(
        self,
        caller: Caller,
        name: str,
        *,
        secret: str | None = None,
        is_super: bool | None = None,
        is_enabled: bool | None = None,
    ) -> None:
        """Change a user; None leaves things as they are. A new secret ends the old ones at once.

        Raises:
            NotFound: no such user.
            InvalidRequest: a bad secret, or the last super user would be gone.
            Forbidden: only super users change super users.
        """
        kept = None
        if secret is not None:
            user = self.user(name)
            kept = self._kept(name, _chosen(secret, is_token=user.is_token), is_token=user.is_token)

        def update(users: dict[str, User]) -> None:
            user = self._changeable(caller, users, name, is_super=bool(is_super))
            users[name] = replace(
                user,
                is_super=user.is_super if is_super is None else is_super,
                is_enabled=user.is_enabled if is_enabled is None else is_enabled,
                secrets=user.secrets if kept is None else (kept,),
            )
            self._keep_a_super(users, user)

        self._access.change(update)

    def rotate(
        self, caller: Caller, name: str, secret: str | None = None, *, keep_ms: int = 0
    ) -> str:
        """A new secret; the newest of the old ones is valid for `keep_ms` longer.

        Raises:
            NotFound: no such user.
            InvalidRequest: a bad secret or time.
            Forbidden: only super users change super users.
        """
        if not 0 <= keep_ms <= KEEP_MS_MAX:
            raise InvalidRequest(
                f"keep: expected 0 to {KEEP_MS_MAX // 86_400_000} days, found {keep_ms} ms",
                field="keep",
            )
        user = self.user(name)
        chosen = _chosen(secret, is_token=user.is_token)
        kept = self._kept(name, chosen, is_token=user.is_token)
        until_ms = self._clock.now_ms() + keep_ms

        def rotate(users: dict[str, User]) -> None:
            user = self._changeable(caller, users, name)
            old = [replace(each, until_ms=until_ms) for each in user.secrets[:1] if keep_ms]
            users[name] = replace(user, secrets=(kept, *old))

        self._access.change(rotate)
        return chosen

    def delete(self, caller: Caller, name: str) -> None:
        """Forget a user and its policies.

        Raises:
            NotFound: no such user.
            InvalidRequest: it is the last super user.
            Forbidden: only super users delete super users.
        """

        def delete(users: dict[str, User]) -> None:
            user = self._changeable(caller, users, name)
            del users[name]
            self._keep_a_super(users, user)

        self._access.change(delete)

    def user(self, name: str) -> User:
        """A user.

        Raises:
            NotFound: there is none of this name.
        """
        user = self._access.users.get(name)
        if user is None:
            raise _unknown(name)
        return user

    def users(self, part: str = "") -> list[User]:
        """Users whose name contains `part`, by name."""
        found = self._access.users
        return [found[name] for name in sorted(found) if part in name]

    # Policies

    def grant(self, caller: Caller, name: str, policies: Sequence[Policy]) -> None:
        """Give a user policies; one on the same resource is replaced.

        Raises:
            NotFound: no such user.
            LimitExceeded: the user has as many policies as one may have.
            Forbidden: only super users change super users.
        """

        def grant(users: dict[str, User]) -> None:
            user = self._changeable(caller, users, name)
            found = {(each.type, each.resource): each for each in user.policies}
            found.update({(each.type, each.resource): each for each in policies})
            if len(found) > POLICY_COUNT_OF_USER_MAX:
                raise LimitExceeded(
                    f"policies of user {name}: expected at most {POLICY_COUNT_OF_USER_MAX}, found "
                    f"{len(found)}",
                    limit=POLICY_COUNT_OF_USER_MAX,
                    found=len(found),
                )
            users[name] = replace(user, policies=tuple(found.values()))

        self._access.change(grant)

    def revoke(
        self,
        caller: Caller,
        name: str,
        resource: Resource | None = None,
        *,
        policy_type: PolicyType = PolicyType.CUSTOM,
    ) -> int:
        """Take a user's policy on a resource away, or all of them; returns how many there were.

        Raises:
            NotFound: no such user.
            Forbidden: only super users change super users.
        """
        revoked = 0

        def revoke(users: dict[str, User]) -> None:
            nonlocal revoked
            user = self._changeable(caller, users, name)
            left = tuple(
                each
                for each in user.policies
                if resource is not None and (each.type, each.resource) != (policy_type, resource)
            )
            revoked = len(user.policies) - len(left)
            users[name] = replace(user, policies=left)

        self._access.change(revoke)
        return revoked

    # Rules

    def _changeable(
        self, caller: Caller, users: dict[str, User], name: str, *, is_super: bool = False
    ) -> User:
        user = users.get(name)
        if user is None:
            raise _unknown(name)
        if user.is_super or is_super:
            self._only_super(caller, name)
        return user

    def _only_super(self, caller: Caller, name: str) -> None:
        if not self._access.is_super(caller):
            raise Forbidden(
                f"user {name}: expected a super user to make or change a super user, found "
                f"{caller.user}",
                user=caller.user,
                reason="not a super user",
            )

    def _keep_a_super(self, users: dict[str, User], changed: User) -> None:
        was_one = changed.is_super and changed.is_enabled
        if was_one and not any(each.is_super and each.is_enabled for each in users.values()):
            raise InvalidRequest(
                f"user {changed.name}: expected another super user that is enabled, found that "
                "this one is the last; make another one first",
                field="user",
            )

    def _kept(self, name: str, secret: str, *, is_token: bool) -> Secret:
        if is_token:
            return Secret(kept=token_hash(secret))
        return Secret(kept=self._access.seal.seal(secret, name), key=secret.encode())


def _chosen(secret: str | None, *, is_token: bool) -> str:
    if secret is None:
        return new_secret()
    if is_token:
        raise InvalidRequest(
            "secret: expected none for a user with a token, found one; tokens are made by the "
            "broker, since only a hash of them is kept",
            field="secret",
        )
    check_secret(secret)
    return secret


def _unknown(name: str) -> NotFound:
    return NotFound(f"user {name[:64]!r}: expected a user, found none of this name", what="user")
