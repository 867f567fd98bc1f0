"""One delayed message: what it is, its states with their times, and where it went.

It is found by number while the timeline knows where its record is, and by unique id for as long as
its record is in one of the logs. Any thread may ask.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Final

from dueline.broker.delayed_states import states_of
from dueline.errors import InvalidRequest, NotFound
from dueline.message import decode_properties
from dueline.store import PendingMessage, Record, Store
from dueline.store.states import DELIVERED

__all__ = ["Appended", "Story", "story_of"]

BODY_SIZE_BYTES_MAX: Final = 1 << 20


@dataclass(frozen=True, slots=True, kw_only=True)
class Appended:
    """Where a message was appended, and when consumers could see it; `offset` None: not yet."""

    topic: str
    queue_id: int
    offset: int | None
    visible_ms: int
    late_ms: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Story:
    """`events` are what happened and when, the earliest first; of some the time is not kept."""

    number: int
    unique_id: str
    topic: str
    queue_id: int
    keys: str
    tags: str
    properties: dict[str, str]
    accepted_ms: int
    born_ms: int
    due_ms: int
    state: str
    attempt: int
    body_size_bytes: int
    body: bytes
    appended: Appended | None = None
    events: list[tuple[str, int | None]] = field(default_factory=list)


def story_of(
    store: Store,
    *,
    number: int | None = None,
    unique_id: str | None = None,
    body_bytes_max: int = 0,
) -> list[Story]:
    """What is known of a message, the newest of its entries first: a moved one has several.

    Args:
        body_bytes_max: so much of the body, at most a mebibyte.

    Raises:
        InvalidRequest: neither a number nor an id, or both.
        NotFound: no such message is known.
    """
    if (number is None) == (unique_id is None):
        raise InvalidRequest("message: expected a number or an id, found both or neither")
    found = _found(store, number, unique_id)
    if not found:
        what = f"number {number}" if unique_id is None else f"id {unique_id[:200]}"
        raise NotFound(
            f"message: expected one that was accepted here, found none with {what}; its record "
            "may be deleted already: look for it by id in the ledger",
            what="delayed message",
        )
    states = states_of(found)
    size = min(max(body_bytes_max, 0), BODY_SIZE_BYTES_MAX)
    return [_story(store, each, state, size) for each, state in zip(found, states, strict=True)]


def _found(store: Store, number: int | None, unique_id: str | None) -> list[PendingMessage]:
    if number is None:
        assert unique_id is not None
        return [each for each in store.find_delayed(unique_id) if each.unique_id == unique_id]
    known = store.numbers.message(number)
    if known is None:
        return []
    entries = [each for each in store.find_delayed(known.unique_id) if each.topic == known.topic]
    return entries if any(each.seq == number for each in entries) else [known]


def _story(store: Store, message: PendingMessage, state: str, body_bytes_max: int) -> Story:
    record = message.record
    known = decode_properties(record.properties)
    appended = None
    if message.state == DELIVERED:
        delivered = store.numbers.delivered(message)
        appended = None if delivered is None else _appended(message, delivered)
    events: list[tuple[str, int | None]] = [("accepted", record.store_ms)]
    if appended is not None and not message.is_at_gate:
        events.append(("visible", appended.visible_ms))
    elif state != "pending":
        events.append((state, None))
    return Story(
        number=message.seq,
        unique_id=message.unique_id,
        topic=message.topic,
        queue_id=message.queue_id,
        keys=known.get("KEYS", ""),
        tags=known.get("TAGS", ""),
        properties=known,
        accepted_ms=record.store_ms,
        born_ms=record.born_ms,
        due_ms=message.due_ms,
        state=state,
        attempt=record.reconsume_times + 1,
        body_size_bytes=len(record.body),
        body=bytes(record.body[:body_bytes_max]),
        appended=appended,
        events=events,
    )


def _appended(message: PendingMessage, delivered: Record) -> Appended:
    return Appended(
        topic=delivered.topic.decode("utf-8", "replace"),
        queue_id=delivered.queue_id,
        offset=None if message.is_at_gate else delivered.queue_offset,
        visible_ms=delivered.store_ms,
        late_ms=max(delivered.store_ms - message.due_ms, 0),
    )
