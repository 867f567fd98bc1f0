"""Messages to look at, with their bodies: what waits, and what consumers can read.

They come over a broker's Flight port as records, the way Spark reads them; only so many are asked
for as are shown.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import Final

from dueline.client.values import Received, read_messages
from dueline.commands.bodies import body_fields, body_text
from dueline.commands.table import show_table
from dueline.commands.terminal import say_json
from dueline.flight.client import FlightClient
from dueline.flight.protocol import (
    FindPending,
    ListQueues,
    QueueList,
    QueueRange,
    ReadMessages,
    ReadPending,
    Ticket,
)
from dueline.times import show_time

__all__ = ["Span", "Waiting", "delivered", "show_delivered", "show_waiting", "waiting"]

_EVER_MS: Final = 1 << 60


@dataclass(frozen=True, slots=True, kw_only=True)
class Waiting:
    """A delayed message with the topic, queue and time that it waits for."""

    topic: str
    queue_id: int
    due_ms: int
    state: str
    message: Received


def waiting(
    client: FlightClient, *, topic: str | None, key: str | None, limit: int
) -> list[Waiting]:
    """What waits, the next due first, at most `limit`."""
    if key is not None:
        ticket = Ticket(found=FindPending(key=key))
        rows = [each for each in _rows(client, ticket) if topic in (None, each.topic)]
        return sorted(rows, key=lambda each: each.due_ms)[:limit]
    topics = None if topic is None else (topic,)
    wanted = ReadPending(start_ms=0, end_ms=_EVER_MS, topics=topics, row_count_max=limit)
    return list(islice(_rows(client, Ticket(pending=wanted)), limit))


def _rows(client: FlightClient, ticket: Ticket) -> Iterator[Waiting]:
    for batch in client.read(ticket):
        for row in batch.to_pylist():
            (message,) = read_messages(row["record"])
            yield Waiting(
                topic=row["topic"],
                queue_id=row["queue_id"],
                due_ms=row["due_ms"],
                state=row["state"],
                message=message,
            )


def show_waiting(found: Sequence[Waiting], *, as_json: bool) -> None:
    """As a table, or one JSON object per line."""
    if as_json:
        for each in found:
            message = each.message
            plain = {
                "topic": each.topic,
                "queue_id": each.queue_id,
                "due_ms": each.due_ms,
                "state": each.state,
                **_fields(message),
            }
            say_json(plain)
        return
    rows = [
        (
            show_time(each.due_ms),
            f"{each.topic}/{each.queue_id}",
            each.message.id,
            " ".join(each.message.keys),
            each.state,
            body_text(each.message.body),
        )
        for each in found
    ]
    show_table(("DUE", "QUEUE", "ID", "KEYS", "STATE", "BODY"), rows)


@dataclass(frozen=True, slots=True, kw_only=True)
class Span:
    """Which part of a topic; without a start, its end."""

    queue_id: int | None = None
    offset: int | None = None
    start_ms: int | None = None
    end_ms: int | None = None

    @property
    def has_start(self) -> bool:
        return self.offset is not None or self.start_ms is not None


def delivered(client: FlightClient, topic: str, span: Span, *, limit: int) -> list[Received]:
    """What consumers can read, in the order in which it became visible.

    The first `limit` messages of a span that has a start, else the last ones.
    """
    asked = ListQueues(topic=topic, start_ms=span.start_ms, end_ms=span.end_ms)
    found: list[Received] = []
    for queue in client.call(asked, QueueList).queues:
        if span.queue_id in (None, queue.queue_id):
            found += _messages(client, _part(topic, queue, span, limit))
    found.sort(key=lambda each: each.store_ms)
    return found[:limit] if span.has_start else found[-limit:]


def _part(topic: str, queue: QueueRange, span: Span, limit: int) -> ReadMessages:
    start, end = queue.start, queue.end
    if span.has_start:
        start = max(start, span.offset or 0)
        end = min(end, start + limit)
    else:
        start = max(start, end - limit)
    return ReadMessages(topic=topic, queue_id=queue.queue_id, start=start, end=end)


def _messages(client: FlightClient, part: ReadMessages) -> Iterator[Received]:
    if part.start < part.end:
        for batch in client.read(Ticket(messages=part)):
            for data in batch.column("record").to_pylist():
                yield from read_messages(data)


def show_delivered(found: Sequence[Received], *, as_json: bool) -> None:
    """As a table, or one JSON object per line."""
    if as_json:
        for each in found:
            plain = {
                "topic": each.topic,
                "queue_id": each.queue_id,
                "offset": each.queue_offset,
                "visible_ms": each.store_ms,
                "due_ms": each.due_ms,
                **_fields(each),
            }
            say_json(plain)
        return
    rows = [
        (
            show_time(each.store_ms),
            f"{each.queue_id}@{each.queue_offset}",
            each.id,
            each.tag,
            " ".join(each.keys),
            body_text(each.body),
        )
        for each in found
    ]
    show_table(("VISIBLE", "OFFSET", "ID", "TAG", "KEYS", "BODY"), rows)


def _fields(message: Received) -> dict[str, object]:
    return {
        "id": message.id,
        "keys": list(message.keys),
        "tag": message.tag,
        "born_ms": message.born_ms,
        "properties": dict(message.properties),
        **body_fields(message.body),
    }
