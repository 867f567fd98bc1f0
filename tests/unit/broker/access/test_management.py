"""Users are made, changed and deleted by those who may, and never the last who could."""

from collections.abc import Callable
from pathlib import Path

import pytest

from dueline.broker.access import (
    ANONYMOUS,
    Access,
    AccessOptions,
    Action,
    Caller,
    Management,
    NewUser,
    Policy,
    Resource,
)
from dueline.broker.access import management as module
from dueline.broker.access.values import PolicyType
from dueline.errors import Forbidden, InvalidRequest, LimitExceeded, NotFound
from dueline.store.files import Files
from dueline.testing import ManualClock

_ADMIN = Caller("admin", "10.0.0.1")
_CLERK = Caller("clerk", "10.0.0.2")


@pytest.fixture
def access(tmp_path: Path) -> Access:
    clock = ManualClock()
    off = Access(tmp_path, Files(), clock=clock)
    Management(off, clock).add(ANONYMOUS, NewUser(name="admin", is_super=True))
    on = Access(tmp_path, Files(), clock=clock, options=AccessOptions(is_enabled=True))
    Management(on, clock).add(_ADMIN, NewUser(name="clerk"))
    return on


@pytest.fixture
def management(access: Access) -> Management:
    return Management(access, ManualClock())


def _policy(resource: str, *, is_allowed: bool = True) -> Policy:
    return Policy(resource=Resource.parse(resource), actions=Action.PUB, is_allowed=is_allowed)


def test_a_secret_is_made_if_none_is_chosen(access: Access, management: Management) -> None:
    made = management.add(_ADMIN, NewUser(name="one"))
    chosen = management.add(_ADMIN, NewUser(name="two", secret="chosen by me"))

    assert chosen == "chosen by me"
    for name, secret in (("one", made), ("two", chosen)):
        assert access.authenticate_basic(name, secret, address="").user == name


def test_what_cannot_be_a_user_is_refused(management: Management) -> None:
    for new in (
        NewUser(name="clerk"),
        NewUser(name="no name"),
        NewUser(name="short", secret="short"),
        NewUser(name="token", secret="chosen by me", is_token=True),
    ):
        with pytest.raises(InvalidRequest):
            management.add(_ADMIN, new)


def test_users_are_listed_by_name(management: Management) -> None:
    management.add(_ADMIN, NewUser(name="admin2"))

    assert [user.name for user in management.users()] == ["admin", "admin2", "clerk"]
    assert [user.name for user in management.users("dmin")] == ["admin", "admin2"]


def test_only_super_users_touch_super_users(management: Management) -> None:
    attempts: list[Callable[[], object]] = [
        lambda: management.add(_CLERK, NewUser(name="mine", is_super=True)),
        lambda: management.update(_CLERK, "clerk", is_super=True),
        lambda: management.update(_CLERK, "admin", secret="mine from now on"),
        lambda: management.rotate(_CLERK, "admin"),
        lambda: management.delete(_CLERK, "admin"),
        lambda: management.grant(_CLERK, "admin", [_policy("*", is_allowed=False)]),
        lambda: management.revoke(_CLERK, "admin"),
    ]
    for attempt in attempts:
        with pytest.raises(Forbidden, match="expected a super user"):
            attempt()
    management.update(_ADMIN, "clerk", is_super=True)
    management.delete(_CLERK, "admin")
    assert [user.name for user in management.users()] == ["clerk"]


def test_the_last_super_user_stays(management: Management) -> None:
    attempts: list[Callable[[], object]] = [
        lambda: management.delete(_ADMIN, "admin"),
        lambda: management.update(_ADMIN, "admin", is_enabled=False),
        lambda: management.update(_ADMIN, "admin", is_super=False),
    ]
    for attempt in attempts:
        with pytest.raises(InvalidRequest, match="this one is the last"):
            attempt()


def test_a_new_secret_ends_the_old_one_at_once(access: Access, management: Management) -> None:
    management.update(_ADMIN, "clerk", secret="the first one")
    management.rotate(_ADMIN, "clerk", keep_ms=1_000)
    management.update(_ADMIN, "clerk", secret="the last one")

    assert len(management.user("clerk").secrets) == 1
    access.authenticate_basic("clerk", "the last one", address="")


def test_no_more_than_one_old_secret_is_kept(management: Management) -> None:
    for _ in range(3):
        management.rotate(_ADMIN, "clerk", keep_ms=1_000)

    assert [secret.until_ms is None for secret in management.user("clerk").secrets] == [True, False]
    with pytest.raises(InvalidRequest, match="keep: expected 0 to 90 days"):
        management.rotate(_ADMIN, "clerk", keep_ms=module.KEEP_MS_MAX + 1)


def test_a_grant_replaces_one_on_the_same_resource(management: Management) -> None:
    management.grant(_ADMIN, "clerk", [_policy("Topic:a"), _policy("Topic:b")])
    management.grant(_ADMIN, "clerk", [_policy("Topic:a", is_allowed=False)])

    assert {str(each.resource): each.is_allowed for each in management.user("clerk").policies} == {
        "Topic:a": False,
        "Topic:b": True,
    }


def test_one_grant_or_all_are_revoked(management: Management) -> None:
    policies = [_policy(f"Topic:{number}") for number in range(3)]
    management.grant(_ADMIN, "clerk", policies)

    assert management.revoke(_ADMIN, "clerk", Resource.parse("Topic:1")) == 1
    assert management.revoke(_ADMIN, "clerk", Resource.parse("Topic:1")) == 0
    default = Resource.parse("Topic:0")
    assert management.revoke(_ADMIN, "clerk", default, policy_type=PolicyType.DEFAULT) == 0
    assert management.revoke(_ADMIN, "clerk") == 2
    assert management.user("clerk").policies == ()


def test_policies_of_a_user_are_bounded(
    management: Management, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "POLICY_COUNT_OF_USER_MAX", 2)

    with pytest.raises(LimitExceeded, match="expected at most 2, found 3"):
        management.grant(_ADMIN, "clerk", [_policy(f"Topic:{number}") for number in range(3)])
    assert management.user("clerk").policies == ()


def test_who_is_not_there_is_not_found(management: Management) -> None:
    attempts: list[Callable[[], object]] = [
        lambda: management.user("nobody"),
        lambda: management.update(_ADMIN, "nobody", is_enabled=True),
        lambda: management.rotate(_ADMIN, "nobody"),
        lambda: management.delete(_ADMIN, "nobody"),
        lambda: management.grant(_ADMIN, "nobody", [_policy("*")]),
        lambda: management.revoke(_ADMIN, "nobody"),
    ]
    for attempt in attempts:
        with pytest.raises(NotFound, match="found none of this name"):
            attempt()


def test_a_super_user_is_founded_only_where_none_is_enabled(
    access: Access, management: Management, tmp_path: Path
) -> None:
    assert not management.found("other", "a secret of other")

    empty = Access(tmp_path / "empty", Files(), clock=ManualClock())
    first = Management(empty, ManualClock())
    for name, secret in (("no name", "a secret"), ("name", "short")):
        with pytest.raises(InvalidRequest):
            first.found(name, secret)
    first.add(ANONYMOUS, NewUser(name="clerk"))
    assert first.found("clerk", "a secret of clerk")
    assert first.user("clerk").is_super
    assert empty.authenticate_basic("clerk", "a secret of clerk", address="")
