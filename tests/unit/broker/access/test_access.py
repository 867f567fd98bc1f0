"""Who is it, and may they: the one place that doors ask."""

import stat
from collections.abc import Callable
from pathlib import Path

import pytest

from dueline.broker.access import (
    ANONYMOUS,
    CLUSTER,
    PIPELINE,
    Access,
    AccessOptions,
    Action,
    Caller,
    Management,
    NewUser,
    Policy,
    Resource,
    group,
    topic,
)
from dueline.broker.access import access as module
from dueline.broker.access.secrets import signature_of, token_hash
from dueline.errors import BrokerError, Forbidden, LimitExceeded, StoreError, Unauthenticated
from dueline.store.files import Files
from dueline.testing import ManualClock

_SECRET = "a secret of billing"
_ADMIN = Caller("admin", "10.0.0.1", "basic")
_BILLING = Caller("billing", "10.0.0.2", "signature")


def _open(folder: Path, clock: ManualClock | None = None, *, is_enabled: bool = True) -> Access:
    options = AccessOptions(is_enabled=is_enabled, cluster="shop")
    return Access(folder, Files(), clock=clock or ManualClock(), options=options)


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock()


@pytest.fixture
def access(tmp_path: Path, clock: ManualClock) -> Access:
    """With a super user, and a normal one that may send to orders*."""
    setup = _open(tmp_path, clock, is_enabled=False)
    management = Management(setup, clock)
    management.add(ANONYMOUS, NewUser(name="admin", secret="a secret of admin", is_super=True))
    management.add(ANONYMOUS, NewUser(name="billing", secret=_SECRET))
    management.grant(ANONYMOUS, "billing", [_allow("Topic:orders*", Action.PUB)])
    return _open(tmp_path, clock)


def _allow(resource: str, actions: Action) -> Policy:
    return Policy(resource=Resource.parse(resource), actions=actions, is_allowed=True)


def _sign(access: Access, name: str, secret: str) -> Caller:
    digest = signature_of(secret.encode(), b"content")
    return access.authenticate_signature(
        name, b"content", digest, address="10.0.0.2", method="signature"
    )


# May they?


def test_a_user_may_what_a_policy_allows_and_nothing_else(access: Access) -> None:
    access.check(_BILLING, Action.PUB, topic("orders-eu"))
    access.check(_BILLING, Action.PUB | Action.SUB | Action.GET, topic("orders"))

    for actions, resource in (
        (Action.SUB, topic("orders")),
        (Action.PUB, topic("payments")),
        (Action.PUB, group("orders")),
        (Action.PUB, CLUSTER),
    ):
        with pytest.raises(Forbidden, match=r"user billing from 10\.0\.0\.2: expected the right"):
            access.check(_BILLING, actions, resource)
        assert not access.may(_BILLING, actions, resource)


def test_every_resource_of_a_request_counts(access: Access) -> None:
    with pytest.raises(Forbidden, match="Group:readers"):
        access.check(_BILLING, Action.PUB, topic("orders"), group("readers"))


def test_a_super_user_may_everything_and_nobody_may_nothing(access: Access) -> None:
    access.check(_ADMIN, Action.DELETE, topic("orders"), CLUSTER)
    access.check(_ADMIN, Action.ALL)

    for resources in ((), (topic("orders"),)):
        with pytest.raises(Unauthenticated, match="access control is on"):
            access.check(ANONYMOUS, Action.PUB, *resources)


def test_without_resources_it_is_enough_to_be_a_user(access: Access) -> None:
    access.check(_BILLING, Action.GET)

    with pytest.raises(Unauthenticated, match="disabled or was deleted"):
        access.check(Caller("stranger", "10.0.0.2"), Action.GET)


def test_a_policy_on_the_cluster_names_it(access: Access, clock: ManualClock) -> None:
    management = Management(access, clock)
    management.grant(_ADMIN, "billing", [_allow("Cluster:shop", Action.GET)])

    access.check(_BILLING, Action.GET, CLUSTER)

    management.grant(_ADMIN, "billing", [_allow("Cluster:other", Action.UPDATE)])
    assert not access.may(_BILLING, Action.UPDATE, CLUSTER)


def test_switched_off_everybody_may_everything(tmp_path: Path) -> None:
    access = _open(tmp_path, is_enabled=False)

    access.check(ANONYMOUS, Action.DELETE, topic("orders"))

    assert access.is_super(ANONYMOUS)
    assert list(tmp_path.iterdir()) == []


def test_a_change_is_in_force_at_once_also_for_what_was_decided_before(
    access: Access, clock: ManualClock
) -> None:
    management = Management(access, clock)
    assert access.may(_BILLING, Action.PUB, topic("orders"))

    management.update(_ADMIN, "billing", is_enabled=False)
    with pytest.raises(Unauthenticated, match="disabled"):
        access.check(_BILLING, Action.PUB, topic("orders"))

    management.update(_ADMIN, "billing", is_enabled=True)
    management.revoke(_ADMIN, "billing")
    assert not access.may(_BILLING, Action.PUB, topic("orders"))


def test_what_is_remembered_is_bounded(access: Access, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "REMEMBERED_MAX", 10)

    for number in range(100):
        access.check(_BILLING, Action.PUB, topic(f"orders-{number}"))
        assert len(access._table.decided) <= 10
    size = len(access._table.decided)
    assert not access.may(_BILLING, Action.SUB, topic("orders" + "x" * 1_000))
    assert len(access._table.decided) == size


# Who is it?


def test_a_signature_a_secret_and_a_token_tell_who_it_is(access: Access) -> None:
    assert _sign(access, "billing", _SECRET) == _BILLING
    assert access.authenticate_basic("billing", _SECRET, address="::1").user == "billing"
    shown = access.authenticate_basic("billing", _SECRET, address="::1", method="bearer")
    assert shown == Caller("billing", "::1", "bearer")


@pytest.mark.parametrize(
    ("name", "secret", "reason"),
    [
        ("billing", "another secret", "wrong secret or altered request"),
        ("stranger", _SECRET, "unknown user"),
        ("", "", "unknown user"),
        ("admin", _SECRET, "wrong secret or altered request"),
    ],
)
def test_strangers_and_wrong_secrets_get_the_same_answer(
    access: Access, name: str, secret: str, reason: str
) -> None:
    attempts: list[Callable[[], object]] = [
        lambda: _sign(access, name, secret),
        lambda: access.authenticate_basic(name, secret, address="::1"),
    ]
    for attempt in attempts:
        with pytest.raises(Unauthenticated, match="one of them does not") as refused:
            attempt()
        assert refused.value.reason == reason


def test_a_disabled_user_learns_it_only_with_the_right_secret(
    access: Access, clock: ManualClock
) -> None:
    Management(access, clock).update(_ADMIN, "billing", is_enabled=False)

    with pytest.raises(Unauthenticated, match="is disabled"):
        _sign(access, "billing", _SECRET)
    with pytest.raises(Unauthenticated, match="one of them does not"):
        _sign(access, "billing", "another secret")


def test_the_old_secret_is_valid_until_its_end(access: Access, clock: ManualClock) -> None:
    new = Management(access, clock).rotate(_ADMIN, "billing", keep_ms=1_000)

    assert _sign(access, "billing", new) == _sign(access, "billing", _SECRET) == _BILLING
    clock.advance(999)
    _sign(access, "billing", _SECRET)
    clock.advance(1)
    with pytest.raises(Unauthenticated) as refused:
        _sign(access, "billing", _SECRET)
    assert refused.value.reason == "old secret"
    _sign(access, "billing", new)


def test_a_token_cannot_sign(access: Access, clock: ManualClock) -> None:
    token = Management(access, clock).add(_ADMIN, NewUser(name="reports", is_token=True))

    access.authenticate_basic("reports", token, address="::1")
    for secret in (token, token_hash(token)):
        with pytest.raises(Unauthenticated):
            _sign(access, "reports", secret)


# The pipeline


def test_the_pipeline_has_a_token_of_its_own_and_just_its_rights(
    access: Access, tmp_path: Path
) -> None:
    path = tmp_path / "pipeline.token"
    assert stat.S_IMODE(path.stat().st_mode) == 0o600

    name, _, token = path.read_text().strip().partition(":")
    caller = access.authenticate_basic(name, token, address="127.0.0.1")

    assert caller.user == PIPELINE
    access.check(caller, Action.PUB, CLUSTER)
    access.check(caller, Action.SUB, CLUSTER)
    for actions, resource in (
        (Action.GET | Action.UPDATE | Action.DELETE, CLUSTER),
        (Action.ALL, topic("orders")),
        (Action.ALL, group("readers")),
    ):
        assert not access.may(caller, actions, resource)
    assert PIPELINE not in access.users
    assert _open(tmp_path).authenticate_basic(name, token, address="").user


# Certificates


def _with_certificates(folder: Path) -> Access:
    options = AccessOptions(is_enabled=True, has_certificate_users=True)
    return Access(folder, Files(), clock=ManualClock(), options=options)


def test_a_certificate_names_a_user_where_the_operator_says_so(
    access: Access, tmp_path: Path
) -> None:
    certificate = {"subject": ((("commonName", "billing"),),)}
    on = _with_certificates(tmp_path)

    caller = on.authenticate_certificate(certificate, address="10.0.0.2")

    assert caller == Caller("billing", "10.0.0.2", "certificate")
    assert on.may(caller, Action.PUB, topic("orders"))
    assert on.authenticate_certificate(None, address="10.0.0.2") == Caller(None, "10.0.0.2")
    assert on.authenticate_certificate({}, address="10.0.0.2") == Caller(None, "10.0.0.2")
    off = access.authenticate_certificate(certificate, address="10.0.0.2")
    assert off == Caller(None, "10.0.0.2")


@pytest.mark.parametrize("name", ["stranger", "Billing", PIPELINE])
def test_a_certificate_of_no_user_is_refused(access: Access, tmp_path: Path, name: str) -> None:
    with pytest.raises(Unauthenticated):
        _with_certificates(tmp_path).authenticate_certificate(
            {"subject": ((("commonName", name),),)}, address=""
        )


# The file


def test_users_are_there_again_after_a_restart(access: Access, tmp_path: Path) -> None:
    again = _open(tmp_path)

    assert again.users == access.users
    assert _sign(again, "billing", _SECRET) == _BILLING
    assert stat.S_IMODE((tmp_path / "users.json").stat().st_mode) == 0o600


def test_the_key_may_be_elsewhere_and_without_it_nothing_starts(
    access: Access, tmp_path: Path
) -> None:
    elsewhere = tmp_path / "mounted" / "key"
    elsewhere.parent.mkdir()
    (tmp_path / "users.key").rename(elsewhere)
    options = AccessOptions(is_enabled=True, key_path=elsewhere)

    assert Access(tmp_path, Files(), clock=ManualClock(), options=options).users == access.users
    with pytest.raises(StoreError, match="sealed with the key in"):
        _open(tmp_path)


def test_a_change_that_fails_changes_nothing(
    access: Access, tmp_path: Path, clock: ManualClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "USER_COUNT_MAX", 2)
    before = access.users, (tmp_path / "users.json").read_bytes()

    with pytest.raises(LimitExceeded, match="users: expected at most 2, found 3"):
        Management(access, clock).add(_ADMIN, NewUser(name="third"))

    assert (access.users, (tmp_path / "users.json").read_bytes()) == before


def test_errors_of_access_cross_processes() -> None:
    for kind in (Unauthenticated, Forbidden):
        error = kind("no", reason="x")
        assert isinstance(error, BrokerError)
        assert error.reason == "x"
