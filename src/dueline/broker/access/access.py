"""Who is it, and may they? The one place that every door asks.

    who:   authenticate_signature, authenticate_basic, authenticate_certificate
                                                 ──▶  a Caller, or Unauthenticated
    may:   check(caller, actions, *resources)    ──▶  nothing, or Forbidden

With access control off (`is_enabled`) everybody may do everything and nobody is asked who they are.

Users and policies are one immutable table, which a change replaces as a whole once it is on disk.
The table carries what was decided by it, so a decision is one look-up, and a change needs to forget
nothing: requests that come after it see the new table. Any thread may call.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from dueline.access_settings import PIPELINE_TOKEN_FILE
from dueline.broker.access.decision import decide
from dueline.broker.access.secrets import (
    Seal,
    is_same,
    new_secret,
    signature_of,
    token_hash,
)
from dueline.broker.access.subject import Certificate, name_in
from dueline.broker.access.users import Secret, User, decode_users, encode_users
from dueline.broker.access.values import (
    CLUSTER,
    NAME_SIZE_MAX,
    Action,
    Caller,
    Pattern,
    Policy,
    Resource,
    ResourceType,
)
from dueline.clock import Clock
from dueline.errors import Forbidden, LimitExceeded, Unauthenticated
from dueline.store.files import Files

__all__ = ["PIPELINE", "Access", "AccessOptions"]

USER_COUNT_MAX: Final = 10_000
POLICY_COUNT_MAX: Final = 100_000
"""Of all users together."""
REMEMBERED_MAX: Final = 100_000
"""Decisions; when there are more, all are forgotten and made again."""

PIPELINE: Final = "@pipeline"
"""The user that the delivery pipeline is, wherever it runs."""

_PIPELINE_POLICIES: Final = (
    Policy(
        resource=Resource(ResourceType.CLUSTER, "", Pattern.ANY),
        actions=Action.PUB | Action.SUB,
        is_allowed=True,
    ),
)
"""Windows and slices are read (SUB) and committed (PUB) for the whole cluster, and no more."""

_NOBODY: Final = Secret(kept="", key=os.urandom(32))
"""What strangers are compared with: that takes as long as a known user does."""


@dataclass(frozen=True, slots=True, kw_only=True)
class AccessOptions:
    """What operators may choose; `key_path`: the key of sealed secrets, if it is elsewhere."""

    is_enabled: bool = False
    has_certificate_users: bool = False
    """Certificates of clients name users."""
    cluster: str = "DefaultCluster"
    key_path: Path | None = None


class _Table:
    """Users, and what was decided by them."""

    __slots__ = ("decided", "users")

    def __init__(self, users: Mapping[str, User]) -> None:
        self.users: Final = users
        self.decided: Final[dict[tuple[Caller, Action, Resource], bool]] = {}


class Access:
    """The users of a broker, and what they may do."""

    def __init__(
        self, folder: Path, files: Files, *, clock: Clock, options: AccessOptions | None = None
    ) -> None:
        """Read the users, if there are any.

        Args:
            folder: where users, their key and the pipeline's token are kept.

        Raises:
            StoreError: the users' file is damaged, or the key is not theirs.
        """
        options = options or AccessOptions()
        self.is_enabled: Final = options.is_enabled
        self._has_certificate_users = options.has_certificate_users
        self._cluster = options.cluster
        self._files = files
        self._clock = clock
        self._path = folder / "users.json"
        self._key_path = options.key_path or folder / "users.key"
        self._token_path = folder / PIPELINE_TOKEN_FILE
        self._seal: Seal | None = None
        self._lock = threading.Lock()
        users: Mapping[str, User] = {}
        if files.exists(self._path):
            users = decode_users(files.read(self._path), self._path, self.seal)
        self._own: Mapping[str, User] = {}
        if self.is_enabled:
            self._own = {PIPELINE: self._pipeline_user()}
        self._table = _Table({**users, **self._own})

    @property
    def seal(self) -> Seal:
        """What seals secrets; its key is made when it is first needed."""
        if self._seal is None:
            self._seal = Seal(self._key_path, self._files)
        return self._seal

    def _pipeline_user(self) -> User:
        """The pipeline's own user; its token is in a file for the processes of this machine."""
        if not self._files.exists(self._token_path):
            self._files.make_folder(self._token_path.parent)
            self._files.replace(self._token_path, [f"{PIPELINE}:{new_secret()}\n".encode()])
        token = self._files.read(self._token_path).decode().strip().removeprefix(f"{PIPELINE}:")
        return User(
            name=PIPELINE,
            is_token=True,
            secrets=(Secret(kept=token_hash(token)),),
            policies=_PIPELINE_POLICIES,
        )

    # May they?

    def check(self, caller: Caller, actions: Action, *resources: Resource) -> None:
        """Refuse what the caller may not do on one of the resources.

        Args:
            actions: one of these is enough.
            resources: none: it is enough to be a user.

        Raises:
            Unauthenticated: nobody that we know asks.
            Forbidden: says what is missing.
        """
        if not self.is_enabled:
            return
        table = self._table
        for resource in resources:
            is_allowed = table.decided.get((caller, actions, resource))
            if is_allowed is None:
                is_allowed = self._decide(table, caller, actions, resource)
            if not is_allowed:
                raise _forbidden(caller, actions, self._named(resource))
        if not resources:
            self._known(table, caller)

    def may(self, caller: Caller, actions: Action, *resources: Resource) -> bool:
        """The same as a question."""
        try:
            self.check(caller, actions, *resources)
        except (Unauthenticated, Forbidden):
            return False
        return True

    def check_super(self, caller: Caller) -> None:
        """Refuse everybody but super users.

        Raises:
            Unauthenticated: nobody that we know asks.
            Forbidden: a normal user asks.
        """
        if self.is_enabled and not self._known(self._table, caller).is_super:
            raise Forbidden(
                f"user {caller.user}: expected a super user, found a normal one",
                user=caller.user,
                reason="not a super user",
            )

    def is_super(self, caller: Caller) -> bool:
        """May the caller do everything?"""
        if not self.is_enabled:
            return True
        user = self._table.users.get(caller.user or "")
        return user is not None and user.is_super and user.is_enabled

    def _decide(self, table: _Table, caller: Caller, actions: Action, resource: Resource) -> bool:
        user = self._known(table, caller)
        if user.is_super:
            is_allowed = True
        else:
            policy = decide(user.policies, actions, self._named(resource), caller.address)
            is_allowed = policy is not None and policy.is_allowed
        if len(resource.name) <= NAME_SIZE_MAX:
            if len(table.decided) >= REMEMBERED_MAX:
                table.decided.clear()
            table.decided[caller, actions, resource] = is_allowed
        return is_allowed

    def _known(self, table: _Table, caller: Caller) -> User:
        if caller.user is None:
            raise Unauthenticated(
                "access control is on: expected the name and the signature or token of a user, "
                "found none; give the client its credentials",
                reason="no user",
            )
        user = table.users.get(caller.user)
        if user is None or not user.is_enabled:
            raise _disabled(caller.user)
        return user

    def _named(self, resource: Resource) -> Resource:
        return resource._replace(name=self._cluster) if resource == CLUSTER else resource

    # Who is it?

    def authenticate_signature(
        self, name: str, content: bytes, digest: bytes, *, address: str, method: str
    ) -> Caller:
        """The user who has signed a content.

        Raises:
            Unauthenticated: no such user, or not this user's signature.
        """

        def is_signed(secret: Secret) -> bool:
            return secret.key is not None and is_same(signature_of(secret.key, content), digest)

        return self._authenticated(name, is_signed, address=address, method=method)

    def keys_of(self, name: str) -> tuple[bytes, ...]:
        """The secrets that a user's signatures may be made with now; none: it has no such."""
        user = self._table.users.get(name)
        if user is None or not user.is_enabled:
            return ()
        now_ms = self._clock.now_ms()
        return tuple(
            secret.key
            for secret in user.secrets
            if secret.key is not None and (secret.until_ms is None or now_ms < secret.until_ms)
        )

    def has_ending_secret(self, name: str) -> bool:
        """Does one of a user's secrets hold until some time only?"""
        user = self._table.users.get(name)
        return user is not None and any(secret.until_ms is not None for secret in user.secrets)

    def authenticate_basic(
        self, name: str, secret: str, *, address: str, method: str = "basic"
    ) -> Caller:
        """The user who shows a secret or token.

        Raises:
            Unauthenticated: no such user, or not this user's secret.
        """
        shown, hashed = secret.encode(), token_hash(secret).encode()

        def is_shown(kept: Secret) -> bool:
            if kept.key is None:
                return is_same(kept.kept.encode(), hashed)
            return is_same(kept.key, shown)

        return self._authenticated(name, is_shown, address=address, method=method)

    def authenticate_certificate(self, certificate: Certificate | None, *, address: str) -> Caller:
        """Who calls without saying who it is: the user of the connection's certificate, or nobody.

        Args:
            certificate: what the client has shown, verified; None: nothing.

        Raises:
            Unauthenticated: the certificate is of no user, or of one that is disabled.
        """
        if not self._has_certificate_users or not certificate:
            return Caller(None, address)
        name = name_in(certificate)
        user = self._table.users.get(name)
        if user is None:
            raise Unauthenticated(
                f"certificate of {name!r}: expected the common name of a user, found no user of "
                f"that name; an administrator can add it: `dueline user add {name}`",
                user=name,
                reason="unknown user",
            )
        if not user.is_enabled:
            raise _disabled(name)
        return Caller(name, address, "certificate")

    def _authenticated(
        self, name: str, has: Callable[[Secret], bool], *, address: str, method: str
    ) -> Caller:
        user = self._table.users.get(name)
        if user is None:
            has(_NOBODY)
            raise _wrong(name, "unknown user")
        for secret in user.secrets:
            if has(secret):
                if secret.until_ms is not None and self._clock.now_ms() >= secret.until_ms:
                    raise _wrong(name, "old secret")
                if not user.is_enabled:
                    raise _disabled(name)
                return Caller(name, address, method)
        raise _wrong(name, "wrong secret or altered request")

    @property
    def state(self) -> object:
        """Another one after each change: what was decided with an older one is to be asked anew."""
        return self._table

    # Changing and reading the table; `dueline.broker.access.management` has the rules

    @property
    def users(self) -> dict[str, User]:
        """Every user by name, but for the broker's own."""
        found = self._table.users
        return {name: user for name, user in found.items() if name not in self._own}

    def change(self, update: Callable[[dict[str, User]], None]) -> None:
        """Change users, durably: when this returns, the change holds for every request.

        Raises:
            LimitExceeded: there would be too many users or policies; nothing was changed.
            Unavailable: the disk is full; nothing was changed.
        """
        with self._lock:
            users = self.users
            update(users)
            _check_counts(users)
            self._files.make_folder(self._path.parent)
            self._files.replace(self._path, [encode_users(users.values())])
            self._table = _Table({**users, **self._own})


def _check_counts(users: Mapping[str, User]) -> None:
    policy_count = sum(len(user.policies) for user in users.values())
    for what, limit, found in (
        ("users", USER_COUNT_MAX, len(users)),
        ("policies", POLICY_COUNT_MAX, policy_count),
    ):
        if found > limit:
            raise LimitExceeded(
                f"{what}: expected at most {limit}, found {found}", limit=limit, found=found
            )


def _wrong(name: str, reason: str) -> Unauthenticated:
    """One text for a wrong name and for a wrong secret: strangers need not learn names."""
    return Unauthenticated(
        f"user {name[:64]!r}: expected a known user and a secret that fits, found that one of them "
        "does not; is the secret right, and did nothing change the request on its way?",
        user=name[:64],
        reason=reason,
    )


def _disabled(name: str) -> Unauthenticated:
    return Unauthenticated(
        f"user {name[:64]!r}: expected one that is enabled, found that it is disabled or was "
        "deleted",
        user=name[:64],
        reason="disabled user",
    )


def _forbidden(caller: Caller, actions: Action, resource: Resource) -> Forbidden:
    names = " or ".join(action.name for action in Action if action & actions and action.name)
    return Forbidden(
        f"user {caller.user} from {caller.address}: expected the right to {names} on "
        f"{str(resource)[:300]}, found none; an administrator can grant it",
        user=caller.user,
        resource=str(resource)[:300],
        reason="no permission",
    )
