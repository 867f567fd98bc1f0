"""Every way into a broker, behind one face: what to send, and whether it was taken.

A door says what it can of an attempt. What it has no words for (a 5.x client names no queue) it
answers with `Unsayable`, and the case says nothing about it.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import Any

import pyarrow as pa
from tests.grpc.calls import Caller
from tests.unit.server.local import connect

from dueline.client import Producer, Sent
from dueline.errors import BrokerError
from dueline.flight import FlightClient, protocol
from dueline.server.process import BrokerProcess
from dueline.spark.schedule_rows import checked
from dueline.store.schema import SCHEDULE_SCHEMA
from dueline.wire import Command, RequestCode

OK_4X, OK_5X = 0, 20_000
HOUR_MS = 3_600_000

_NUMBERS = itertools.count()


@dataclass(frozen=True, slots=True, kw_only=True)
class Attempt:
    """A message that is due in an hour, unless it says otherwise: by a time or a delay level."""

    topic: str
    body: bytes = b"body"
    queue_id: int | None = None
    properties: dict[str, str] = field(default_factory=dict)
    delay_ms: int | None = HOUR_MS
    deliver_at_ms: int | None = None
    delay_level: int | None = None
    keys: str | None = None


class Unsayable(Exception):
    """The door has no words for this."""


Door = Callable[[BrokerProcess, Attempt], str | None]
"""Sends one message; returns why it was refused, or None if it was taken."""


def remoting(broker: BrokerProcess, attempt: Attempt) -> str | None:
    answer = _send_4x(broker, attempt)
    return None if answer.code == OK_4X else f"{answer.code}: {answer.remark}"


def _send_4x(broker: BrokerProcess, attempt: Attempt) -> Command:
    when = {
        "TIMER_DELAY_MS": attempt.delay_ms,
        "TIMER_DELIVER_MS": attempt.deliver_at_ms,
        "DELAY": attempt.delay_level,
        "KEYS": attempt.keys,
    }
    said = {name: str(value) for name, value in when.items() if value is not None}
    names = {**attempt.properties, **said}
    with connect(broker) as peer:
        ext = {
            **{"a": "producer", "b": attempt.topic, "c": "TBW102", "d": "4"},
            **{"e": str(attempt.queue_id or 0), "f": "0", "g": "1700000000000", "h": "0"},
            **{"i": "\x02".join(f"{name}\x01{value}" for name, value in names.items()), "j": "0"},
        }
        return peer.call(RequestCode.SEND_MESSAGE_V2, ext, attempt.body)


def grpc(broker: BrokerProcess, attempt: Attempt) -> str | None:
    status = _send_5x(broker, attempt).status
    return None if status.code == OK_5X else f"{status.code}: {status.message}"


def _send_5x(broker: BrokerProcess, attempt: Attempt) -> Any:
    if attempt.queue_id is not None or attempt.delay_level is not None:
        raise Unsayable
    due_ms = attempt.deliver_at_ms
    if due_ms is None:
        due_ms = broker.clock.now_ms() + (attempt.delay_ms or 0)
    seconds, rest_ms = divmod(due_ms, 1_000)
    system = {
        "message_id": f"id-{next(_NUMBERS)}",
        "message_type": 3,
        "delivery_timestamp": {"seconds": seconds, "nanos": rest_ms * 1_000_000},
        "keys": [attempt.keys] if attempt.keys else [],
    }
    message = {
        "body": attempt.body,
        "system": system,
        "user_properties": attempt.properties,
    }
    with Caller(f"127.0.0.1:{broker.grpc.port}") as caller:
        return caller.send(attempt.topic, message)


def flight_rows(broker: BrokerProcess, attempt: Attempt) -> str | None:
    row = {
        **dict.fromkeys(SCHEDULE_SCHEMA.names),
        "topic": attempt.topic,
        "body": attempt.body,
        "queue_id": attempt.queue_id,
        "delay_ms": attempt.delay_ms,
        "deliver_at_ms": attempt.deliver_at_ms,
        "delay_level": attempt.delay_level,
        "keys": attempt.keys,
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
            "delay": pa.array([_duration(attempt)], pa.duration("us")),
            "deliver_at": pa.array([_time(attempt)], pa.timestamp("us", "UTC")),
            "delay_level": pa.array([attempt.delay_level], pa.int32()),
            "keys": pa.array([attempt.keys], pa.string()),
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
    try:
        _send_by_client(broker, attempt)
    except BrokerError as error:
        return error.message
    return None


def _send_by_client(broker: BrokerProcess, attempt: Attempt) -> Sent:
    with _producer(broker) as producer:
        return producer.send(
            attempt.topic,
            attempt.body,
            delay=_duration(attempt),
            deliver_at=_time(attempt),
            delay_level=attempt.delay_level,
            keys=attempt.keys or (),
            properties=attempt.properties,
            queue_id=attempt.queue_id,
        )


def _producer(broker: BrokerProcess) -> Producer:
    listener = broker.remoting_options.name_server
    assert listener is not None
    return Producer(f"127.0.0.1:{listener.port}")


def _duration(attempt: Attempt) -> timedelta | None:
    return None if attempt.delay_ms is None else timedelta(milliseconds=attempt.delay_ms)


def _time(attempt: Attempt) -> datetime | None:
    if attempt.deliver_at_ms is None:
        return None
    return datetime(1970, 1, 1, tzinfo=UTC) + timedelta(milliseconds=attempt.deliver_at_ms)


DOORS: dict[str, Door] = {
    "4.x": remoting,
    "5.x": grpc,
    "flight rows": flight_rows,
    "DataFrame": data_frame,
    "python client": python_client,
}


# Doors that answer with a handle, and those that take one

HANDLES: dict[str, Callable[[BrokerProcess, Attempt], str]] = {
    "4.x": lambda broker, attempt: _send_4x(broker, attempt).ext["recallHandle"],
    "5.x": lambda broker, attempt: str(_send_5x(broker, attempt).entries[0].recall_handle),
    "python client": lambda broker, attempt: _send_by_client(broker, attempt).handle or "",
}


def _recall_4x(broker: BrokerProcess, topic: str, handle: str) -> str | None:
    with connect(broker) as peer:
        ext = {"producerGroup": "p", "topic": topic, "recallHandle": handle}
        answer = peer.call(RequestCode.RECALL_MESSAGE, ext)
    return None if answer.code == OK_4X else f"{answer.code}: {answer.remark}"


def _recall_5x(broker: BrokerProcess, topic: str, handle: str) -> str | None:
    with Caller(f"127.0.0.1:{broker.grpc.port}") as caller:
        request = {"topic": {"name": topic}, "recall_handle": handle}
        status = caller.call("RecallMessage", **request).status
    return None if status.code == OK_5X else f"{status.code}: {status.message}"


RECALLERS: dict[str, Callable[[BrokerProcess, str, str], str | None]] = {
    "4.x": _recall_4x,
    "5.x": _recall_5x,
}
"""Take a message back; returns why not, or None."""
