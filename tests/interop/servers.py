"""What the client programs are pointed at: Dueline, or Apache's own server as the reference.

`DUELINE_INTEROP` says which, for example `DUELINE_INTEROP=apache49,apache5 pytest tests/interop`.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from tests.interop.apache import LEVELS, Apache
from tests.interop.remoting import Connection
from tests.remoting.serving import RunningBroker
from tests.waiting import wait_until

from dueline.broker import BrokerOptions
from dueline.broker.transactions import TransactionOptions
from dueline.wire import RequestCode, ResponseCode
from dueline.wire.admin_headers import CreateTopicRequest
from dueline.wire.bodies import RouteData
from dueline.wire.headers import RouteRequest

DEFAULT_TOPIC: Final = "TBW102"
SELECTED: Final = os.environ.get("DUELINE_INTEROP", "dueline").split(",")

_UNIT_MS: Final = {"s": 1_000, "m": 60_000, "h": 3_600_000, "d": 86_400_000}


@dataclass(frozen=True, slots=True, kw_only=True)
class Server:
    """A running server, whoever made it."""

    name: str
    name_server: str
    # The delay of each level, beginning with level 1.
    levels: str
    # What came with 5.x: arbitrary delivery times, recall, lite pulls, tables by topic and group.
    is_5x: bool

    def level_ms(self, level: int) -> int:
        """How long a message of this level waits."""
        text = self.levels.split()[level - 1]
        return int(text[:-1]) * _UNIT_MS[text[-1]]

    def find_route(self, topic: str) -> RouteData | None:
        """Where a topic is, or nothing."""
        with Connection(self.name_server) as connection:
            ext = RouteRequest(topic=topic, accept_standard_json_only=True).encode()
            answer = connection.call(RequestCode.GET_ROUTE_INFO_BY_TOPIC, ext)
        if answer.code == ResponseCode.TOPIC_NOT_EXIST:
            return None
        assert answer.code == ResponseCode.SUCCESS, answer
        return RouteData.decode(answer.body)

    def route(self, topic: str) -> RouteData:
        """Where a topic is; waits until it is known."""
        return wait_until(lambda: self.find_route(topic), what=f"a route to {topic}")

    @property
    def broker(self) -> str:
        """The broker's address, as clients learn it."""
        return self.route(DEFAULT_TOPIC).broker_datas[0].broker_addrs[0]

    def create_topic(self, topic: str, *, queue_count: int = 4) -> None:
        """Create a topic and wait until clients can find it."""
        request = CreateTopicRequest(
            topic=topic,
            default_topic=DEFAULT_TOPIC,
            read_queue_nums=queue_count,
            write_queue_nums=queue_count,
            perm=6,
            topic_filter_type="SINGLE_TAG",
            topic_sys_flag=0,
        )
        with Connection(self.broker) as connection:
            answer = connection.call(RequestCode.UPDATE_AND_CREATE_TOPIC, request.encode())
        assert answer.code == ResponseCode.SUCCESS, answer
        self.route(topic)


@contextmanager
def _apache(release: str, folder: Path) -> Iterator[Server]:
    with Apache.start(release, folder) as apache:
        yield Server(
            name=release,
            name_server=apache.name_server,
            levels=LEVELS,
            is_5x=release == "apache5",
        )


@contextmanager
def _dueline(folder: Path) -> Iterator[Server]:
    options = BrokerOptions(
        transactions=TransactionOptions(first_ask_ms=1_000, ask_interval_ms=2_000)
    )
    with RunningBroker(folder, rules=options) as broker:
        yield Server(name="dueline", name_server=broker.name_server, levels=LEVELS, is_5x=True)


STARTERS: Final[dict[str, Callable[[Path], AbstractContextManager[Server]]]] = {
    "dueline": _dueline,
    "apache49": lambda folder: _apache("apache49", folder),
    "apache5": lambda folder: _apache("apache5", folder),
}
