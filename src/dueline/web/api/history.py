"""What has happened: the ledger of delayed messages, and the audit trail."""

from __future__ import annotations

from typing import Final

from dueline.clock import Clock
from dueline.flight import waiting
from dueline.flight.users import AuditPage, ReadAudit
from dueline.flight.values import Value
from dueline.times import duration_ms
from dueline.web.endpoint import Endpoint
from dueline.web.gateway import Gateway
from dueline.web.moments import moment_ms

__all__ = ["ENDPOINTS", "AuditQuery", "LedgerQuery", "list_ledger", "read_audit"]


class LedgerQuery(Value, frozen=True, kw_only=True):
    """`outcome` is pending, carried over, delivered, cancelled, moved, expired or dropped. `late`:
    only those that were at least so late, such as `500ms`. `cursor`: the next page, as the last
    answer named it."""

    topic: str | None = None
    outcome: str | None = None
    late: str | None = None
    limit: int = 100
    cursor: str | None = None


class AuditQuery(Value, frozen=True, kw_only=True):
    """`event` is refused, change or lost; `what` is a part of a request's name; `since` and `until`
    are times, such as `-2h`. `before`: only lines with a smaller number, for the next page."""

    user: str | None = None
    event: str | None = None
    what: str | None = None
    since: str | None = None
    until: str | None = None
    before: int | None = None
    limit: int = 100


async def list_ledger(
    gateway: Gateway, params: LedgerQuery, body: None = None
) -> waiting.LedgerPage:
    request = waiting.ListLedger(
        topic=params.topic or None,
        outcome=params.outcome or None,
        late_ms=duration_ms(params.late, name="late") if params.late else None,
        limit=params.limit,
        cursor=params.cursor or None,
    )
    return await gateway.ask(request, waiting.LedgerPage)


async def read_audit(gateway: Gateway, params: AuditQuery, body: None = None) -> AuditPage:
    now_ms = Clock().now_ms()
    request = ReadAudit(
        user=params.user or None,
        event=params.event or None,
        what=params.what or None,
        start_ms=moment_ms(params.since, now_ms, name="since") if params.since else None,
        end_ms=moment_ms(params.until, now_ms, name="until") if params.until else None,
        before=params.before,
        count_max=params.limit,
    )
    return await gateway.ask(request, AuditPage)


ENDPOINTS: Final = (
    Endpoint(
        method="GET",
        path="/api/v1/ledger",
        name="listLedger",
        summary="Every delayed message within retention, with its outcome",
        tag="history",
        handle=list_ledger,
        answer=waiting.LedgerPage,
        params=LedgerQuery,
    ),
    Endpoint(
        method="GET",
        path="/api/v1/audit",
        name="readAudit",
        summary="Who was refused what, and who has changed what; the newest lines, oldest first",
        tag="history",
        handle=read_audit,
        answer=AuditPage,
        params=AuditQuery,
    ),
)
