"""Every way into a broker, behind one face: what to send, and whether it was taken.

A door says what it can of an attempt. What it has no words for (a 5.x client names no queue) it
answers with `Unsayable`, and the case says nothing about it.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import timedelta

import pyarrow as pa
from tests.grpc.calls import Caller
from tests.remoting.peer import Peer

from dueline.client import Producer
from dueline.errors import BrokerError
from dueline.flight import FlightClient, protocol
from dueline.server.process import BrokerProcess
from dueline.spark.schedule_rows import checked
from dueline.store.schema import SCHEDULE_SCHEMA
from dueline.wire import RequestCode

OK_4X, OK_5X = 0, 20_000
HOUR_MS = 3_600_000

_NUMBERS = itertools.count()


@dataclass(frozen=True, slots=True, kw_only=True)
class Attempt:
    """A message that is due in an hour, unless it says otherwise."""

    topic: str
    body: bytes = b"body"
    queue_id: int | None = None
    properties: dict[str, str] = field(default_factory=dict)
    delay_ms: int = HOUR_MS


class Unsayable(Exception):
    """The door has no words for this."""


Door = Callable[[BrokerProcess, Attempt], str | None]
"""Sends one message; returns why it was refused, or None if it was taken."""


def remoting(broker: BrokerProcess, attempt: Attempt) -> str | None:
    listener = broker.remoting_options.broker
    assert listener is not None
    names = {**attempt.properties, "TIMER_DELAY_MS": str(attempt.delay_ms)}
    with Peer(f"127.0.0.1:{listener.port}") as peer:
        ext = {
            **{"a": "producer", "b": attempt.topic, "c": "TBW102", "d": "4"},
            **{"e": str(attempt.queue_id or 0), "f": "0", "g": "1700000000000", "h": "0"},
            **{"i": "\x02".join(f"{name}\x01{value}" for name, value in names.items()), "j": "0"},
        }
        answer = peer.call(RequestCode.SEND_MESSAGE_V2, ext, attempt.body)
    return None if answer.code == OK_4X else f"{answer.code}: {answer.remark}"


def grpc(broker: BrokerProcess, attempt: Attempt) -> str | None:
    if attempt.queue_id is not None:
        raise Unsayable
    due_ms = broker.clock.now_ms() + attempt.delay_ms
    seconds, rest_ms = divmod(due_ms, 1_000)
    system = {
        "message_id": f"id-{next(_NUMBERS)}",
        "message_type": 3,
        "delivery_timestamp": {"seconds": seconds, "nanos": rest_ms * 1_000_000},
    }
    message = {
        "body": attempt.body,
        "system": system,
        "user_properties": attempt.properties,
    }
    with Caller(f"127.0.0.1:{broker.grpc.port}") as caller:
        status = caller.send(attempt.topic, message).status
    return None if status.code == OK_5X else f"{status.code}: {status.message}"


def flight_rows(broker: BrokerProcess, attempt: Attempt) -> str | None:
    row = {
        **dict.fromkeys(SCHEDULE_SCHEMA.names),
        "topic": attempt.topic,
        "body": attempt.body,
        "queue_id": attempt.queue_id,
        "delay_ms": attempt.delay_ms,
        "properties": list(attempt.properties.items()),
    }
    with FlightClient(broker.address) as client:
        return _put(client, pa.RecordBatch.from_pylist([row], schema=SCHEDULE_SCHEMA))


def _put(client: FlightClient, batch: pa.RecordBatch) -> str | None:
    token = f"token-{next(_NUMBERS)}"
    try:
        client.stage(token, SCHEDULE_SCHEMA, [batch])
        client.call(protocol.PutRows(tokens=(token,)), protocol.RowsPut)
    except BrokerError as error:
        return str(error.message)
    return None


def data_frame(broker: BrokerProcess, attempt: Attempt) -> str | None:
    """What a task of a bulk job does with its rows; `tests/spark` has the jobs."""
    batch = pa.RecordBatch.from_pydict(
        {
            "topic": pa.array([attempt.topic]),
            "body": pa.array([attempt.body]),
            "queue_id": pa.array([attempt.queue_id], pa.int32()),
            "delay": pa.array([timedelta(milliseconds=attempt.delay_ms)], pa.duration("us")),
            "properties": pa.array(
                [list(attempt.properties.items())], pa.map_(pa.string(), pa.string())
            ),
        }
    )
    with FlightClient(broker.address) as client:
        result = checked(batch, client.describe())
        (fault,) = result.faults.to_pylist()
        return fault or _put(client, result.rows)


def python_client(broker: BrokerProcess, attempt: Attempt) -> str | None:
    listener = broker.remoting_options.name_server
    assert listener is not None
    with Producer(f"127.0.0.1:{listener.port}") as producer:
        try:
            producer.send(
                attempt.topic,
                attempt.body,
                delay=timedelta(milliseconds=attempt.delay_ms),
                properties=attempt.properties,
                queue_id=attempt.queue_id,
            )
        except BrokerError as error:
            return error.message
    return None


DOORS: dict[str, Door] = {
    "4.x": remoting,
    "5.x": grpc,
    "flight rows": flight_rows,
    "DataFrame": data_frame,
    "python client": python_client,
}
