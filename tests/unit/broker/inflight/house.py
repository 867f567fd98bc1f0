"""A broker without ports or threads: what is sent is written at once, and time is set by hand."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from tests.unit.broker.inflight.world import SMALL, START_MS

from dueline.broker import Broker, BrokerOptions
from dueline.broker.consumer_offsets import ConsumerOffsets
from dueline.broker.inflight import Held, Receive, ReceiveRequest, Receiving
from dueline.broker.retries import RetryOptions
from dueline.broker.writing import Done
from dueline.errors import BrokerError
from dueline.message import Message, decode_properties
from dueline.store import Files, Record, Store
from dueline.store.record import decode
from dueline.testing import ManualClock

ATTEMPTS = 2


class House:
    """A broker with the topic `t` of two queues."""

    def __init__(self, folder: Path) -> None:
        self.clock = ManualClock(START_MS)
        self.store = Store.open(folder / "store", SMALL, clock=self.clock)
        self.send_error: BrokerError | None = None
        self.result_error: BrokerError | None = None
        self.broker = Broker(
            self.store,
            ConsumerOffsets(folder / "offsets.json", Files()),
            submit=self._submit,
            options=BrokerOptions(retries=RetryOptions(attempt_count_max=ATTEMPTS)),
        )
        self.broker.topics.ensure("t", queue_count=2)
        self.now_s = 1_000.0
        self.receiving = Receiving(
            self.broker.reading,
            self.broker.inflight,
            put=self.broker.put,
            topics=self.broker.topics,
            groups=self.broker.group_table,
            retries=self.broker.options.retries,
            monotonic_s=lambda: self.now_s,
        )

    def close(self) -> None:
        self.broker.close()
        self.store.close()

    def _submit(self, messages: Sequence[Message], done: Done) -> None:
        if self.send_error is not None:
            raise self.send_error
        if self.result_error is not None:
            done([self.result_error] * len(messages))
            return
        done(self.store.put_all(messages))

    def send(self, *bodies: str, topic: str = "t", **properties: str) -> None:
        for body in bodies:
            self.store.put(
                Message(topic=topic, body=body.encode(), queue_id=0, properties=properties)
            )

    def receive(self, **fields: Any) -> Receive:
        asked = {"group": "g", "topic": "t", "invisible_ms": 10_000, **fields}
        return self.receiving.receive(ReceiveRequest(**asked))

    def look(self, receive: Receive) -> list[Held]:
        """One look, with what it has to write written."""
        answers: list[list[Held] | BaseException] = []
        receive.look(answers.append)
        self.broker.inflight.flush()
        (found,) = answers
        if isinstance(found, BaseException):
            raise found
        return found

    def take(self, **fields: Any) -> list[Held]:
        return self.look(self.receive(**fields))

    def stored(self, topic: str) -> list[tuple[Record, dict[str, str]]]:
        records = [decode(view) for view in self.store.read(topic, 0, 0).records]
        return [(record, decode_properties(record.properties)) for record in records]


def bodies(messages: list[Held]) -> list[str]:
    return [held.record.body.decode() for held in messages]
