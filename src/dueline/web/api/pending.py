"""What waits: count it, list it, look along the road, change it by jobs."""

from __future__ import annotations

from typing import Any, Final

from dueline.clock import Clock
from dueline.errors import InvalidRequest
from dueline.flight import waiting
from dueline.flight.values import Value
from dueline.web.endpoint import Endpoint
from dueline.web.filters import PendingQuery, pending_filter
from dueline.web.gateway import Gateway
from dueline.web.moments import moment_ms, shift_ms

__all__ = ["ENDPOINTS", "list_page"]


class CountQuery(PendingQuery, frozen=True, kw_only=True):
    """`cursor`: go on counting where an answer ended."""

    cursor: str | None = None


class PageQuery(PendingQuery, frozen=True, kw_only=True):
    """`cursor`: the next page, as the last answer named it."""

    limit: int = 100
    cursor: str | None = None


class RoadQuery(Value, frozen=True, kw_only=True):
    """From `start` to `end`, in buckets of at least a second."""

    start: str = "now"
    end: str = "+1h"
    bucket_ms: int = 60_000
    topic: str | None = None


class JobToStart(Value, frozen=True, kw_only=True):
    """`action` is cancel, deliver, reschedule (with `deliver_at`) or shift (with `shift`); on what
    `filter` means, or on `numbers`. An order with a `token` that is known is not begun again."""

    action: str
    filter: PendingQuery | None = None
    numbers: tuple[int, ...] | None = None
    deliver_at: str | None = None
    shift: str | None = None
    token: str = ""


class JobNumber(Value, frozen=True, kw_only=True):
    number: int


async def list_page(gateway: Gateway, params: PageQuery, body: None = None) -> waiting.MatchingPage:
    request = waiting.ListMatching(
        filter=pending_filter(params, Clock().now_ms()), limit=params.limit, cursor=params.cursor
    )
    return await gateway.ask(request, waiting.MatchingPage)


async def _count(gateway: Gateway, params: CountQuery, body: None) -> waiting.MatchingCount:
    request = waiting.CountMatching(
        filter=pending_filter(params, Clock().now_ms()), cursor=params.cursor
    )
    return await gateway.ask(request, waiting.MatchingCount)


async def _road(gateway: Gateway, params: RoadQuery, body: None) -> waiting.Road:
    now_ms = Clock().now_ms()
    request = waiting.LookAhead(
        start_ms=moment_ms(params.start, now_ms, name="start"),
        end_ms=moment_ms(params.end, now_ms, name="end"),
        bucket_ms=params.bucket_ms,
        topic=params.topic or None,
    )
    return await gateway.ask(request, waiting.Road)


async def _start(gateway: Gateway, params: Any, body: JobToStart) -> waiting.Job:
    if (body.filter is None) == (body.numbers is None):
        raise InvalidRequest(
            "expected one of filter and numbers, found "
            f"{'both' if body.filter is not None else 'neither'}; an empty filter means everything",
            field="filter",
        )
    now_ms = Clock().now_ms()
    request = waiting.StartJob(
        action=body.action,
        filter=None if body.filter is None else pending_filter(body.filter, now_ms),
        numbers=body.numbers,
        due_ms=_due_ms(body, now_ms),
        shift_ms=None if body.shift is None else shift_ms(body.shift, name="shift"),
        token=body.token,
    )
    return await gateway.ask(request, waiting.Job)


def _due_ms(body: JobToStart, now_ms: int) -> int | None:
    if body.deliver_at is None:
        return None
    return moment_ms(body.deliver_at, now_ms, name="deliver_at")


async def _jobs(gateway: Gateway, params: Any, body: None) -> waiting.JobList:
    return await gateway.ask(waiting.ListJobs(), waiting.JobList)


async def _job(gateway: Gateway, params: JobNumber, body: None) -> waiting.Job:
    return await gateway.ask(waiting.FindJob(number=params.number), waiting.Job)


async def _stop(gateway: Gateway, params: JobNumber, body: Any) -> waiting.Job:
    return await gateway.ask(waiting.StopJob(number=params.number), waiting.Job)


ENDPOINTS: Final = (
    Endpoint(
        method="GET",
        path="/api/v1/pending",
        name="listPending",
        summary="What waits and matches, in due order, a page at a time",
        tag="pending",
        handle=list_page,
        answer=waiting.MatchingPage,
        params=PageQuery,
    ),
    Endpoint(
        method="GET",
        path="/api/v1/pending/count",
        name="countPending",
        summary="How much waits and matches; with a cursor in the answer, there is more to count",
        tag="pending",
        handle=_count,
        answer=waiting.MatchingCount,
        params=CountQuery,
    ),
    Endpoint(
        method="GET",
        path="/api/v1/road",
        name="lookAhead",
        summary="How many messages fall due when, by topic",
        tag="pending",
        handle=_road,
        answer=waiting.Road,
        params=RoadQuery,
    ),
    Endpoint(
        method="GET",
        path="/api/v1/jobs",
        name="listJobs",
        summary="Actions on many messages, the newest first",
        tag="jobs",
        handle=_jobs,
        answer=waiting.JobList,
    ),
    Endpoint(
        method="POST",
        path="/api/v1/jobs",
        name="startJob",
        summary="Cancel, deliver now, move or shift what matches",
        tag="jobs",
        handle=_start,
        answer=waiting.Job,
        body=JobToStart,
    ),
    Endpoint(
        method="GET",
        path="/api/v1/jobs/{number}",
        name="findJob",
        summary="How far a job is",
        tag="jobs",
        handle=_job,
        answer=waiting.Job,
        params=JobNumber,
    ),
    Endpoint(
        method="POST",
        path="/api/v1/jobs/{number}/stop",
        name="stopJob",
        summary="Let a job end; what it has done stays so",
        tag="jobs",
        handle=_stop,
        answer=waiting.Job,
        params=JobNumber,
    ),
)
