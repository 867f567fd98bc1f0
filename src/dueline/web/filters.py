"""What of the waiting messages is meant, as it stands in an address or in a request.

Every field is text, as a person would write it; `pending_filter` makes of it what the broker asks
its timeline.
"""

from __future__ import annotations

from dueline.errors import InvalidRequest
from dueline.flight.values import Value
from dueline.flight.waiting import PendingFilter
from dueline.web.moments import moment_ms

__all__ = ["PendingQuery", "pending_filter", "shown_filter"]


class PendingQuery(Value, frozen=True, kw_only=True):
    """All of what is given must hold. `key` may end in `*`: then it is the beginning of one.
    `property` is `name=value`; `due_from` and `due_before` are times, such as `now`, `+2h`,
    `tomorrow 9:00` or `2027-01-01T10:00Z`; `text` is somewhere in the body; `where` is a condition,
    such as `size > 1000 and key like 'a%'`."""

    topic: str | None = None
    key: str | None = None
    tag: str | None = None
    property: str | None = None
    due_from: str | None = None
    due_before: str | None = None
    text: str | None = None
    where: str | None = None


def pending_filter(query: PendingQuery, now_ms: int) -> PendingFilter:
    """What the broker is asked; fields that are empty mean nothing.

    Raises:
        InvalidRequest: a time or a property that is none.
    """
    key: str | None = query.key or None
    prefix: str | None = None
    if key is not None and key.endswith("*"):
        prefix, key = key[:-1] or None, None
    name, equals, value = (query.property or "").partition("=")
    if query.property and not (equals and name):
        raise InvalidRequest(
            f"property: expected name=value, found {query.property[:80]!r}", field="property"
        )
    return PendingFilter(
        topic=query.topic or None,
        key=key,
        key_prefix=prefix,
        tag=query.tag or None,
        property_name=name.strip() or None,
        property_value=value if equals else None,
        due_start_ms=_moment_ms(query.due_from, now_ms, "due_from"),
        due_end_ms=_moment_ms(query.due_before, now_ms, "due_before"),
        text=query.text or None,
        where=query.where or None,
    )


def _moment_ms(text: str | None, now_ms: int, name: str) -> int | None:
    return moment_ms(text, now_ms, name=name) if text else None


def shown_filter(found: PendingFilter | None) -> str:
    """In a few words, for a list.

    >>> shown_filter(PendingFilter(topic="orders", key_prefix="a"))
    'topic orders, key a*'
    """
    if found is None:
        return ""
    words = {
        "topic": found.topic,
        "key": found.key if found.key_prefix is None else f"{found.key_prefix}*",
        "tag": found.tag,
        found.property_name or "": found.property_value,
        "due from": found.due_start_ms,
        "due before": found.due_end_ms,
        "text": found.text,
        "where": found.where,
    }
    said = [f"{name} {value}" for name, value in words.items() if value is not None]
    return ", ".join(said) or "everything"
