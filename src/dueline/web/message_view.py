"""One message as its page shows it: what happened to it and when, and its body in a form."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final
from urllib.parse import urlencode

from dueline.flight.console import Inspected
from dueline.flight.waiting import MessageEntries, MessageEntry, TopicRule
from dueline.times import show_span
from dueline.web.bodies import SHOWN_BYTES_MAX, forms_of, show_body

__all__ = ["MessageView", "Step", "message_view"]

_CHANGEABLE: Final = frozenset({"pending", "carried over"})
_SHOWN_ELSEWHERE: Final = frozenset({"KEYS", "TAGS", "UNIQ_KEY"})


@dataclass(frozen=True, slots=True, kw_only=True)
class Step:
    """Something that happened, or will; of some the time is not kept."""

    name: str
    time_ms: int | None
    note: str = ""
    is_ahead: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class MessageView:
    """A message, and what the template needs beside it."""

    message: Inspected
    properties: list[tuple[str, str]]
    steps: list[Step]
    late_ms: int | None
    held: str
    is_changeable: bool
    shown_bytes: int
    is_cut: bool
    forms: list[str]
    form: str
    links: dict[str, str]
    body: str


def message_view(
    message: Inspected,
    found: MessageEntries,
    *,
    now_ms: int,
    query: Mapping[str, str],
    rule: TopicRule | None = None,
) -> MessageView:
    """A message as its page shows it; `rule` is that of its topic."""
    entry = next((each for each in found.entries if each.number == message.number), None)
    forms = forms_of(message.body)
    form = query.get("as", "") if query.get("as", "") in forms else forms[0]
    return MessageView(
        message=message,
        properties=sorted(
            (name, value)
            for name, value in message.properties.items()
            if name not in _SHOWN_ELSEWHERE
        ),
        steps=_steps(message, entry, now_ms),
        late_ms=_late_ms(message),
        held=_held(message, rule, now_ms),
        is_changeable=message.state in _CHANGEABLE,
        shown_bytes=min(len(message.body), SHOWN_BYTES_MAX),
        is_cut=message.body_size_bytes > SHOWN_BYTES_MAX,
        forms=forms,
        form=form,
        links={each: f"/message?{urlencode({**query, 'as': each})}" for each in forms},
        body=show_body(message.body, form),
    )


def _held(message: Inspected, rule: TopicRule | None, now_ms: int) -> str:
    """Why it is due and does not go."""
    is_due = message.due_ms is not None and message.due_ms <= now_ms
    if rule is None or not rule.held_back or not is_due or message.state != "pending":
        return ""
    return "its topic is paused" if rule.is_paused else f"its topic lets {rule.rate} a second go"


def _late_ms(message: Inspected) -> int | None:
    if message.place is None or message.due_ms is None:
        return None
    return max(message.place.visible_ms - message.due_ms, 0)


def _steps(message: Inspected, entry: MessageEntry | None, now_ms: int) -> list[Step]:
    if entry is not None and entry.events:
        known = [Step(name=each.name, time_ms=each.time_ms) for each in entry.events]
        is_waiting = message.state in _CHANGEABLE
        if is_waiting and message.due_ms is not None and "due" not in {e.name for e in known}:
            known.append(Step(name="due", time_ms=message.due_ms, is_ahead=True))
        return known
    steps = [
        Step(name="born", time_ms=message.born_ms),
        Step(name="accepted", time_ms=message.accepted_ms),
    ]
    if message.due_ms is not None:
        steps.append(Step(name="due", time_ms=message.due_ms, is_ahead=message.due_ms > now_ms))
    if message.place is not None:
        late_ms = _late_ms(message)
        note = f"{show_span(late_ms)} late" if late_ms else ""
        steps.append(Step(name="visible", time_ms=message.place.visible_ms, note=note))
    elif message.state not in _CHANGEABLE:
        steps.append(Step(name=message.state, time_ms=None))
    return steps
