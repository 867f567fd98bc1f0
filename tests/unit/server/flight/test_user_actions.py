"""Users, policies and the audit trail over Flight."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.unit.server.local import running, small_config

from dueline.errors import InvalidRequest
from dueline.flight import users
from dueline.flight.operators import OperatorClient
from dueline.flight.users import UserPolicy


@pytest.fixture
def client(tmp_path: Path) -> Iterator[OperatorClient]:
    with running(small_config(tmp_path)) as broker, OperatorClient(broker.address) as client:
        yield client


def test_a_user_comes_with_its_policies_and_its_secret_comes_once(client: OperatorClient) -> None:
    policies = (
        UserPolicy(resource="Topic:orders*", actions=("Pub",), sources=("10.0.0.0/8",)),
        UserPolicy(resource="*", actions=("All",), decision="Deny", type="Default"),
    )

    made = client.ask(users.AddUser(name="billing", policies=policies), users.UserSecret)
    (entry,) = client.ask(users.ListUsers(part="bill"), users.UserList).users

    assert len(made.secret) > 40
    assert entry.policies == policies
    assert (entry.type, entry.is_enabled, entry.old_secret_until_ms) == ("Normal", True, None)
    rotated = client.ask(users.RotateUser(name="billing", keep_ms=1_000), users.UserSecret)
    assert rotated.secret != made.secret
    (entry,) = client.ask(users.ListUsers(), users.UserList).users
    assert entry.old_secret_until_ms is not None
    changed = client.ask(users.UpdateUser(name="billing", is_enabled=False), users.UserEntry)
    assert not changed.is_enabled
    revoke = users.Revoke(name="billing", resource="*", type="Default")
    assert client.ask(revoke, users.Revoked).count == 1
    granted = client.ask(users.Grant(name="billing", policies=policies), users.UserEntry)
    assert len(granted.policies) == 2
    client.ask(users.DeleteUser(name="billing"), users.UserDeleted)
    assert client.ask(users.ListUsers(), users.UserList).users == ()

    page = client.ask(users.ReadAudit(), users.AuditPage)
    assert [line.what for line in page.lines] == [
        *("add_user", "rotate_user", "update_user", "revoke", "grant", "delete_user")
    ]
    assert made.secret not in str(page)
    assert client.ask(users.ReadAudit(after=page.last), users.AuditPage).lines == ()


def test_what_is_not_meant_is_refused(client: OperatorClient) -> None:
    for request, answer in (
        (users.Revoke(name="x", type="Other"), users.Revoked),
        (users.ReadAudit(count_max=0), users.AuditPage),
        (
            users.AddUser(name="x", policies=(UserPolicy(resource="?", actions=()),)),
            users.UserSecret,
        ),
    ):
        with pytest.raises(InvalidRequest):
            client.ask(request, answer)
    assert client.ask(users.ListUsers(), users.UserList).users == (), "nothing half done"
