"""A broker in this process, without Spark: its pipeline is one function that tests call."""

import base64
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TypeVar

from dueline.config import Config, load
from dueline.flight.control import ControlClient, Outgoing, Pull, Pulled, Send, SendResult, Sent
from dueline.server.process import BrokerProcess
from dueline.store import Store
from dueline.store.restore import deliveries

WAIT_S_MAX = 60.0

_Result = TypeVar("_Result")


def wait_until(condition: Callable[[], _Result | None], what: str) -> _Result:
    """What the condition returns once it is true."""
    end_s = time.monotonic() + WAIT_S_MAX
    while not (found := condition()):
        if time.monotonic() > end_s:
            raise TimeoutError(f"{what}: not within {WAIT_S_MAX:g} s")
        time.sleep(0.005)
    return found


def small_config(folder: Path, **flags: str) -> Config:
    """A free port and small files."""
    small = {
        "data": str(folder),
        "listen.flight": "127.0.0.1:0",
        "listen.name_server": "127.0.0.1:0",
        "listen.remoting": "127.0.0.1:0",
        "listen.grpc": "off",
        "store.commit_segment_size": "1MiB",
        "store.delay_segment_size": "1MiB",
        "store.queue_file_units": "1000",
    }
    return load(flags={**small, **flags}).config


@contextmanager
def running(config: Config) -> Iterator[BrokerProcess]:
    broker = BrokerProcess(config)
    broker.start()
    try:
        yield broker
    finally:
        broker.stop()


def carry(store: Store, *, ahead_ms: int = 60_000) -> int:
    """Do what the pipeline does: carry over what is due within `ahead_ms`."""
    until_ms = store.clock.now_ms() + ahead_ms
    window = store.window(store.next_corner(until_ms=until_ms, row_count_max=100_000))
    return store.deliver([deliveries(store.read_window(window))]).delivered_count


def outgoing(body: str, *, topic: str = "orders", queue_id: int = 0, **properties: str) -> Outgoing:
    encoded = base64.b64encode(body.encode()).decode()
    return Outgoing(topic=topic, body=encoded, queue_id=queue_id, properties=properties)


def send(client: ControlClient, *messages: Outgoing) -> tuple[SendResult, ...]:
    return client.ask(Send(messages=messages), Sent).results


def pull_bodies(client: ControlClient, topic: str = "orders") -> list[str]:
    """What a consumer can read now, from the start."""
    request = Pull(topic=topic, offsets={}, count_max=1000, wait_ms=0)
    messages = client.ask(request, Pulled).messages
    return [base64.b64decode(message.body).decode() for message in messages]
