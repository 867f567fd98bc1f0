"""What needs a person's attention, the worst first; a broker without any is said to be well."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final
from urllib.parse import urlencode

from dueline.flight.console import Measured
from dueline.flight.operators import Reported
from dueline.flight.waiting import Forecast
from dueline.times import show_span

__all__ = ["Notice", "notices"]

DISK_USED_RATIO: Final = 0.85
LAG_MS: Final = 10 * 60_000
CROWD_COUNT_MAX: Final = 3
_LIMITS: Final = {
    "rate": "its release rate",
    "pipeline": "the pipeline",
    "consumers": "the consumers' pace",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Notice:
    """`tone` is bad, warn or good; `path` leads to where something can be done."""

    tone: str
    text: str
    path: str = ""
    link: str = ""


def notices(report: Reported, measured: Measured, forecast: Forecast) -> list[Notice]:
    """What to say about a broker."""
    found = [*_bad(report), *_warnings(report, measured), *_crowds(report, forecast)]
    return found or [Notice(tone="good", text="Everything is on its way.")]


def _crowds(report: Reported, forecast: Forecast) -> list[Notice]:
    """What will be late, before it is."""
    found = []
    for each in forecast.crowds[:CROWD_COUNT_MAX]:
        away = show_span(max(each.start_ms - report.now_ms, 0))
        whose = f"for {each.topic}" if each.topic else "in all"
        text = (
            f"A crowd is ahead in {away}: up to {each.peak_count:,} a minute {whose}, where "
            f"{_LIMITS.get(each.limit, each.limit)} carries {each.per_minute:,}; the last of it "
            f"will wait for {show_span(each.wait_ms)}."
        )
        window = {"due_from": str(each.start_ms), "due_before": str(each.end_ms)}
        query = {**({"topic": each.topic} if each.topic else {}), **window}
        path = f"/pending?{urlencode(query)}"
        found.append(Notice(tone="warn", text=text, path=path, link="See them"))
    return found


def _bad(report: Reported) -> list[Notice]:
    found = []
    if report.overdue and report.oldest_overdue is not None:
        for_ms = report.now_ms - report.oldest_overdue.due_ms
        found.append(
            Notice(
                tone="bad",
                text=f"{report.overdue:,} messages are overdue, the oldest for "
                f"{show_span(for_ms)}.",
                path=f"/pending?{urlencode({'due_before': 'now'})}",
                link="See them",
            )
        )
    if not report.is_delivering:
        why = report.driver.reason or report.driver.error
        is_bad = report.driver.status != "starting" and not report.driver.is_stood_in
        state = f"{report.driver.status}{f' ({why})' if why else ''}"
        text = f"No pipeline delivers: it is {state}."
        if report.driver.is_stood_in:
            text = f"The pipeline is {state}. The broker delivers in its place."
        tone = "bad" if is_bad else "warn"
        found.append(Notice(tone=tone, text=text))
    if report.clock_ahead_ms:
        stands = f"time stands still for {show_span(report.clock_ahead_ms)}"
        text = f"The wall clock was set back: {stands}."
        found.append(Notice(tone="bad", text=text))
    return found


def _warnings(report: Reported, measured: Measured) -> list[Notice]:
    found = []
    disk_bytes = measured.disk_used_bytes + measured.disk_free_bytes
    if disk_bytes and measured.disk_used_bytes / disk_bytes > DISK_USED_RATIO:
        percent = round(100 * measured.disk_used_bytes / disk_bytes)
        found.append(Notice(tone="warn", text=f"The disk is {percent} % full."))
    if report.is_delivering and report.driver.error:
        found.append(Notice(tone="warn", text=f"The pipeline complained: {report.driver.error}"))
    slow = [each for each in measured.places if each.lag_ms > LAG_MS]
    if slow:
        worst = max(slow, key=lambda each: each.lag_ms)
        found.append(
            Notice(
                tone="warn",
                text=f"Group {worst.group} is {show_span(worst.lag_ms)} behind in {worst.topic}"
                f"{f', and {len(slow) - 1} more are behind' if len(slow) > 1 else ''}.",
                path="/groups",
                link="See the groups",
            )
        )
    if measured.undecided_count:
        found.append(
            Notice(
                tone="warn",
                text=f"{measured.undecided_count:,} transactions are undecided.",
                path="/transactions",
                link="See them",
            )
        )
    return found
