"""`dueline serve` with access control on, its Spark, and users that clients of every kind can be.

clerk      may send to and read topics `mine…` and their dead letters, as groups `mine…`
writer     the same without any group
guest      a user without rights
dismissed  like clerk, and disabled
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from tests.interop.apache import LEVELS
from tests.interop.live import FREE, address
from tests.serve.conftest import Served, served

from dueline.credentials import Credentials
from dueline.flight.users import AddUser, UserPolicy, UserSecret

ADMIN = Credentials(name="admin", secret="a secret of admin")
CLERK = Credentials(name="clerk", secret="a secret of clerk")
WRONG = Credentials(name="clerk", secret="another secret")
WRITER = Credentials(name="writer", secret="a secret of writer")
GUEST = Credentials(name="guest", secret="a secret of guest")
DISMISSED = Credentials(name="dismissed", secret="a secret of dismissed")

_TOPICS = (
    UserPolicy(resource="Topic:mine*", actions=("Pub", "Sub")),
    UserPolicy(resource="Topic:%DLQ%mine*", actions=("Sub",)),
)
_GROUPS = (UserPolicy(resource="Group:mine*", actions=("Sub",)),)
PORTS = ("--name-server", FREE, "--remoting", FREE, "--grpc", FREE, "--http", "off")
GUARDED = {"DUELINE_ACCESS_ENABLED": "true", "DUELINE_SUPER_USER": ADMIN.token}


@dataclass(frozen=True, slots=True, kw_only=True)
class Guarded:
    """A running broker with its users, and its addresses."""

    served: Served
    endpoint: str
    name_server: str


@contextmanager
def guarded_broker(folder: Path, *words: str, **environ: str) -> Iterator[Guarded]:
    more = (*PORTS, "--set", "grpc.invisible_min=500ms", "--set", f"store.levels={LEVELS}")
    with served(folder, *more, *words, **GUARDED, **environ) as running:
        running.who = ADMIN
        endpoint = address(running, "5.x clients")
        add_people(running)
        yield Guarded(served=running, endpoint=endpoint, name_server=running.name_server)
        assert running.process.poll() is None, f"it ended: {running.output}"
        running.stop()


def add_people(running: Served) -> None:
    rights = {CLERK: (*_TOPICS, *_GROUPS), WRITER: _TOPICS, GUEST: (), DISMISSED: _TOPICS + _GROUPS}
    with running.client() as client:
        for who, policies in rights.items():
            user = AddUser(
                name=who.name,
                secret=who.secret,
                is_enabled=who is not DISMISSED,
                policies=policies,
            )
            client.ask(user, UserSecret)


def shown(who: Credentials | None) -> dict[str, str]:
    """The variables that the client programs take their credentials from."""
    if who is None:
        return {}
    return {"INTEROP_ACCESS_KEY": who.name, "INTEROP_SECRET_KEY": who.secret}
