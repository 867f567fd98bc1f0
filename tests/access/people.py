"""A broker with access control on, its users, and clients that show who they are.

admin      a super user
clerk      may send to and read topics `orders…` as groups `readers…`
guest      a user without any rights
pipeline   the broker's own: `@pipeline`
"""

from __future__ import annotations

import base64
import hmac
import ssl
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path

from tests.grpc.calls import Caller
from tests.remoting.peer import Peer
from tests.unit.server.local import running, small_config

import grpc
from dueline.broker.access import Action, NewUser, Policy, Resource
from dueline.broker.access import Caller as Who
from dueline.config import Config
from dueline.credentials import Credentials
from dueline.flight.operators import OperatorClient
from dueline.server.process import BrokerProcess

ADMIN = Credentials(name="admin", secret="a secret of admin")
CLERK = Credentials(name="clerk", secret="a secret of clerk")
GUEST = Credentials(name="guest", secret="a secret of guest")
WRONG = Credentials(name="admin", secret="not the secret of admin")
STRANGER = Credentials(name="stranger", secret="a secret of stranger")


def guarded_config(folder: Path, **flags: str) -> Config:
    """Access control on, every port free."""
    first = folder / "first.token"
    folder.mkdir(parents=True, exist_ok=True)
    first.write_text(ADMIN.token)
    return small_config(
        folder / "data",
        **{
            "access.enabled": "true",
            "access.super_user_file": str(first),
            "listen.grpc": "127.0.0.1:0",
            **flags,
        },
    )


@contextmanager
def guarded(folder: Path, **flags: str) -> Iterator[BrokerProcess]:
    """A running broker with its users."""
    with running(guarded_config(folder, **flags)) as broker:
        people(broker)
        yield broker


def people(broker: BrokerProcess) -> None:
    users, admin = broker.broker.users, Who("admin", "127.0.0.1")
    for each in (CLERK, GUEST):
        users.add(admin, NewUser(name=each.name, secret=each.secret))
    rights = {"Topic:orders*": Action.PUB | Action.SUB, "Group:readers*": Action.SUB}
    users.grant(
        admin,
        "clerk",
        [
            Policy(resource=Resource.parse(text), actions=actions, is_allowed=True)
            for text, actions in rights.items()
        ],
    )


def pipeline(broker: BrokerProcess) -> Credentials:
    path = broker.config.access_folder / "pipeline.token"
    return Credentials.read(path, where="test")


class SigningPeer(Peer):
    """A 4.x client that signs as RocketMQ's hook does; None: it does not."""

    def __init__(
        self, address: str, who: Credentials | None = None, context: ssl.SSLContext | None = None
    ) -> None:
        super().__init__(address)
        self.who = who
        if context is not None:
            self._socket = context.wrap_socket(self._socket, server_hostname="localhost")

    def send(
        self, code: int, ext: Mapping[str, str] | None = None, body: bytes = b"", flag: int = 0
    ) -> int:
        fields = dict(ext or {})
        return super().send(code, signed(fields, body, self.who), body, flag)


def signed(fields: dict[str, str], body: bytes, who: Credentials | None) -> dict[str, str]:
    """The fields with a signature over them and the body."""
    if who is None:
        return fields
    fields = {**fields, "AccessKey": who.name, "SecurityToken": "t"}
    content = "".join(fields[name] for name in sorted(fields)).encode() + body
    digest = hmac.digest(who.secret.encode(), content, "sha1")
    return {**fields, "Signature": base64.b64encode(digest).decode()}


class SigningCaller(Caller):
    """A 5.x client that signs the time; None: it does not."""

    def __init__(
        self,
        endpoint: str,
        who: Credentials | None = None,
        credentials: grpc.ChannelCredentials | None = None,
    ) -> None:
        super().__init__(endpoint, credentials=credentials)
        if who is not None:
            time = datetime.now(UTC).strftime("%Y%m%dT%H%M%SZ")
            digest = hmac.digest(who.secret.encode(), time.encode(), "sha1").hex()
            self._metadata = [
                *self._metadata,
                ("x-mq-date-time", time),
                (
                    "authorization",
                    f"MQv2-HMAC-SHA1 Credential={who.name}, SignedHeaders=x-mq-date-time, "
                    f"Signature={digest}",
                ),
            ]


def addresses(broker: BrokerProcess) -> tuple[str, str, str]:
    """Of the broker, the name server and gRPC."""
    options = broker.remoting_options
    assert options.broker is not None
    assert options.name_server is not None
    return (
        f"127.0.0.1:{options.broker.port}",
        f"127.0.0.1:{options.name_server.port}",
        f"127.0.0.1:{broker.grpc.port}",
    )


def flight(broker: BrokerProcess, who: Credentials | None) -> OperatorClient:
    return OperatorClient(broker.address, who)
