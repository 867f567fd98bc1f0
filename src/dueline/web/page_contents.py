"""What each page shows, asked of the broker; the templates only lay it out."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterable, Mapping
from dataclasses import dataclass
from itertools import groupby
from typing import Any, Final, TypeVar
from urllib.parse import urlencode

import msgspec

from dueline.errors import Forbidden, InvalidRequest, NotFound
from dueline.flight import console, waiting
from dueline.flight.attention import notices
from dueline.flight.operators import Report, Reported
from dueline.flight.users import AuditPage
from dueline.outcomes import OUTCOMES
from dueline.web.api.history import AuditQuery, LedgerQuery, list_ledger, read_audit
from dueline.web.api.pending import PageQuery, list_page
from dueline.web.filters import PendingQuery, shown_filter
from dueline.web.gateway import Gateway
from dueline.web.message_view import message_view

__all__ = ["PAGES", "Page"]

Query = Mapping[str, str]
_Found = TypeVar("_Found")
_SPANS: Final = (
    (120_000, "2 min"),
    (3_600_000, "1 h"),
    (86_400_000, "1 day"),
    (7 * 86_400_000, "1 week"),
    (31 * 86_400_000, "1 month"),
    (366 * 86_400_000, "1 year"),
)
_BATCH_COUNT: Final = 8
_ROW_COUNT: Final = 50
_NAME_COUNT_MAX: Final = 500


@dataclass(frozen=True, slots=True, kw_only=True)
class Page:
    """`title` is its name in the navigation; without one it is not there."""

    path: str
    template: str
    load: Callable[[Gateway, Query], Awaitable[dict[str, Any]]]
    title: str = ""


async def _topic_names(gateway: Gateway) -> list[str]:
    request = console.ListTopics(count_max=_NAME_COUNT_MAX)
    found = await gateway.ask(request, console.TopicList)
    return [each.topic for each in found.topics]


async def _overview(gateway: Gateway, query: Query) -> dict[str, Any]:
    report, measured, history, forecast = await asyncio.gather(
        gateway.ask(Report(), Reported),
        gateway.ask(console.Measure(), console.Measured),
        gateway.ask(console.ReadHistory(), console.HistoryRead),
        gateway.ask(waiting.AskForecast(), waiting.Forecast),
    )
    disk_bytes = measured.disk_used_bytes + measured.disk_free_bytes
    recent = [each for each in history.minutes if each.start_ms > history.now_ms - 120_000]
    runway_ms = measured.ahead_ms if measured.runway_ms is None else measured.runway_ms
    return {
        "report": report,
        "measured": measured,
        "attention": notices(report, measured, forecast),
        "topics": [each.topic for each in measured.topics if each.pending_count],
        "spans": _SPANS,
        "runway_ms": max(min(runway_ms, measured.ahead_ms), 0),
        "in_count": recent[-1].sent_count if recent else 0,
        "used_ratio": round(100 * measured.disk_used_bytes / disk_bytes) if disk_bytes else 0,
        "is_delivering": report.is_delivering,
        "batches": history.batches[: -_BATCH_COUNT - 1 : -1],
    }


def _given(query: Query, names: Iterable[str]) -> dict[str, str]:
    """The fields of a form that were filled in."""
    return {name: query[name] for name in names if query.get(name)}


def _filter(query: Query, names: Iterable[str]) -> dict[str, str]:
    """The fields of a form as it is shown again."""
    return {name: query.get(name, "") for name in names}


async def _found(asked: Awaitable[_Found], otherwise: _Found) -> tuple[_Found, str]:
    """What was asked for, and what is wrong with the question: the form says so."""
    try:
        return await asked, ""
    except InvalidRequest as error:
        return otherwise, error.message


async def _pending(gateway: Gateway, query: Query) -> dict[str, Any]:
    names = PendingQuery.__struct_fields__
    given = _given(query, names)
    params = msgspec.convert({**given, "limit": _ROW_COUNT}, PageQuery)
    params = params.changed(cursor=query.get("cursor"))
    page, problem = await _found(list_page(gateway, params), waiting.MatchingPage(rows=()))
    return {
        "filter": _filter(query, names),
        "query": urlencode(given),
        "rows": page.rows,
        "cursor": page.cursor,
        "more": urlencode({**given, "cursor": page.cursor or ""}),
        "problem": problem,
        "topics": await _topic_names(gateway),
    }


async def _message(gateway: Gateway, query: Query) -> dict[str, Any]:
    name, topic = query.get("name", ""), query.get("topic", "")
    found = console.InspectedList(now_ms=0, messages=())
    if name:
        request = console.Inspect(name=name, topic=topic or None)
        found = await gateway.ask(request, console.InspectedList)
    rules = await _rules(gateway) if found.messages else {}
    views = []
    for each in found.messages:
        entries = await _entries(gateway, each)
        rule = rules.get(each.topic)
        views.append(message_view(each, entries, now_ms=found.now_ms, query=query, rule=rule))
    return {"name": name, "topic": topic, "messages": views}


async def _rules(gateway: Gateway) -> dict[str, waiting.TopicRule]:
    """The rules of topics, as far as this user may know them."""
    try:
        found = await gateway.ask(waiting.ListRules(), waiting.RuleList)
    except Forbidden:
        return {}
    return {each.topic: each for each in found.rules}


async def _entries(gateway: Gateway, message: console.Inspected) -> waiting.MessageEntries:
    """What is known of its states; messages that were never delayed have none."""
    if message.number is None or not message.unique_id:
        return waiting.MessageEntries(entries=())
    try:
        request = waiting.DescribeMessage(unique_id=message.unique_id)
        return await gateway.ask(request, waiting.MessageEntries)
    except NotFound:  # done since a moment ago, and forgotten
        return waiting.MessageEntries(entries=())


async def _topics(gateway: Gateway, query: Query) -> dict[str, Any]:
    contains, is_internal = query.get("contains", ""), query.get("is_internal") == "true"
    request = console.ListTopics(
        after=query.get("after", ""), contains=contains, is_internal=is_internal
    )
    found, rules = await asyncio.gather(gateway.ask(request, console.TopicList), _rules(gateway))
    kept = {"contains": contains, **({"is_internal": "true"} if is_internal else {})}
    return {
        "topics": [(each, rules.get(each.topic)) for each in found.topics],
        "contains": contains,
        "is_internal": is_internal,
        "retention_ms": found.retention_ms,
        "next": found.next,
        "more": urlencode({**kept, "after": found.next or ""}),
    }


async def _groups(gateway: Gateway, query: Query) -> dict[str, Any]:
    request = console.ListGroups(after=query.get("after", ""))
    found = await gateway.ask(request, console.GroupList)
    more = urlencode({"after": found.next or ""})
    return {"groups": found.groups, "next": found.next, "more": more}


async def _dead_letters(gateway: Gateway, query: Query) -> dict[str, Any]:
    request = console.ListGroups(count_max=_NAME_COUNT_MAX)
    groups = (await gateway.ask(request, console.GroupList)).groups
    with_letters = [each.group for each in groups if each.dead_letter_count]
    group = query.get("group") or next(iter(with_letters), groups[0].group if groups else "")
    found = console.DeadLetterList(letters=(), next=None)
    if group:
        before = query.get("before", "")
        letters = console.ListDeadLetters(
            group=group, before=int(before) if before.isdigit() else None
        )
        found = await gateway.ask(letters, console.DeadLetterList)
    return {
        "groups": groups,
        "group": group,
        "letters": found.letters,
        "next": found.next,
        "more": urlencode({"group": group, "before": found.next or 0}),
    }


async def _transactions(gateway: Gateway, query: Query) -> dict[str, Any]:
    found = await gateway.ask(console.ListUndecided(), console.UndecidedList)
    return {"messages": found.messages, "count": found.count}


async def _ledger(gateway: Gateway, query: Query) -> dict[str, Any]:
    names = ("topic", "outcome", "late")
    given = _given(query, names)
    params = LedgerQuery(**given, limit=_ROW_COUNT, cursor=query.get("cursor"))
    page, problem = await _found(list_ledger(gateway, params), waiting.LedgerPage(rows=()))
    return {
        "filter": _filter(query, names),
        "outcomes": OUTCOMES,
        "rows": page.rows,
        "cursor": page.cursor,
        "more": urlencode({**given, "cursor": page.cursor or ""}),
        "problem": problem,
        "topics": await _topic_names(gateway),
    }


async def _audit(gateway: Gateway, query: Query) -> dict[str, Any]:
    names = ("user", "event", "what", "since", "until")
    given, before = _given(query, names), query.get("before", "")
    number = int(before) if before.isdecimal() else None
    params = AuditQuery(**given, limit=_ROW_COUNT, before=number)
    page, problem = await _found(read_audit(gateway, params), AuditPage(lines=(), last=0))
    oldest = page.lines[0].n if len(page.lines) == _ROW_COUNT else None
    return {
        "filter": _filter(query, names),
        "events": ("refused", "change", "lost"),
        "lines": page.lines[::-1],
        "next": oldest,
        "more": urlencode({**given, "before": oldest or ""}),
        "problem": problem,
    }


async def _jobs(gateway: Gateway, query: Query) -> dict[str, Any]:
    found = await gateway.ask(waiting.ListJobs(), waiting.JobList)
    jobs = [
        {
            **msgspec.structs.asdict(each),
            "on": shown_filter(each.filter)
            if each.number_count is None
            else f"{each.number_count:,} selected",
        }
        for each in found.jobs
    ]
    return {"jobs": jobs}


async def _settings(gateway: Gateway, query: Query) -> dict[str, Any]:
    found = (await gateway.ask(console.ListSettings(), console.SettingList)).settings
    sections = groupby(found, key=lambda each: each.name.rpartition(".")[0] or "general")
    return {"sections": [(name, list(each)) for name, each in sections]}


async def _send(gateway: Gateway, query: Query) -> dict[str, Any]:
    return {"topics": await _topic_names(gateway)}


PAGES: Final = (
    Page(path="/", template="overview.html", load=_overview, title="Overview"),
    Page(path="/pending", template="pending.html", load=_pending, title="Pending"),
    Page(path="/topics", template="topics.html", load=_topics, title="Topics"),
    Page(path="/groups", template="groups.html", load=_groups, title="Groups"),
    Page(
        path="/dead-letters", template="dead_letters.html", load=_dead_letters, title="Dead letters"
    ),
    Page(
        path="/transactions", template="transactions.html", load=_transactions, title="Transactions"
    ),
    Page(path="/jobs", template="jobs.html", load=_jobs, title="Jobs"),
    Page(path="/ledger", template="ledger.html", load=_ledger, title="Ledger"),
    Page(path="/audit", template="audit.html", load=_audit, title="Audit trail"),
    Page(path="/settings", template="settings.html", load=_settings, title="Settings"),
    Page(path="/message", template="message.html", load=_message, title="Look up"),
    Page(path="/send", template="send.html", load=_send, title="Send"),
)
