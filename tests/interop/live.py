"""`dueline serve` with every port and its Spark, for clients of both protocols: one for all tests.

Nothing stands in for anything here: the broker is a process of its own, as a user starts it, and
delayed messages go through the pipeline.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from tests.interop.apache import LEVELS
from tests.interop.remoting import Connection
from tests.interop.servers import Server
from tests.serve.conftest import Served, served
from tests.waiting import wait_until

from dueline.wire import RequestCode, ResponseCode
from dueline.wire.admin_bodies import GroupConfigBody

FREE = "127.0.0.1:0"
PORTS = ("--name-server", FREE, "--remoting", FREE, "--grpc", FREE, "--http", "off")


@dataclass(frozen=True, slots=True, kw_only=True)
class Live:
    """A running broker and its addresses."""

    served: Served
    endpoint: str
    server: Server

    def set_attempts(self, group: str, attempts: int) -> None:
        """How often a message is handed to a group; as `mqadmin updateSubGroup` sets it."""
        config = GroupConfigBody(group_name=group, retry_max_times=attempts - 1)
        with Connection(self.server.broker) as connection:
            answer = connection.call(
                RequestCode.UPDATE_AND_CREATE_SUBSCRIPTION_GROUP, body=config.encode()
            )
        assert answer.code == ResponseCode.SUCCESS, answer


@contextmanager
def live_broker(folder: Path) -> Iterator[Live]:
    words = (*PORTS, "--set", "grpc.invisible_min=500ms", "--set", f"store.levels={LEVELS}")
    with served(folder, *words) as running:
        endpoint = address(running, "5.x clients")
        server = Server(
            name="serve",
            name_server=address(running, "name server"),
            levels=LEVELS,
            is_5x=True,
        )
        running.wait_until_ready()
        yield Live(served=running, endpoint=endpoint, server=server)
        assert running.process.poll() is None, f"it ended: {running.output}"
        running.stop()


def address(running: Served, name: str) -> str:
    def found() -> str | None:
        match = re.search(rf"RocketMQ {re.escape(name)} on (\S+)", running.output)
        assert match or running.process.poll() is None, f"it ended: {running.output}"
        return match.group(1) if match else None

    return wait_until(found, name)
