"""`dueline stats`: how the broker is doing."""

from __future__ import annotations

import argparse
from collections.abc import Mapping
from typing import Final

from dueline.clock import STANDSTILL_MS
from dueline.commands.connection import add_broker_argument, connect
from dueline.commands.examples import show_examples
from dueline.commands.terminal import say, to_json
from dueline.flight.operators import DriverReport, LatenessReport, Report, Reported
from dueline.times import show_distance, show_span, show_time

__all__ = ["configure", "run"]

_LIMITED_SHOWN_MAX: Final = 5


def configure(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments."""
    parser.add_argument("--json", action="store_true", help="for programs; times in ms since 1970")
    add_broker_argument(parser)
    show_examples(parser, "dueline stats\ndueline stats --json | jq .lateness")


def run(args: argparse.Namespace) -> int:
    """Print the figures."""
    with connect(args) as client:
        report = client.ask(Report(), Reported)
    if args.json:
        say(*to_json(report.to_json(), indent=1))
        return 0
    for name, value in _rows(report):
        say(f"{name:<12}{value}")
    return 0


def _rows(report: Reported) -> list[tuple[str, str]]:
    up_ms = report.now_ms - report.started_ms
    next_due = "nothing waits"
    if report.next_due_ms is not None:
        distance = show_distance(report.next_due_ms, report.now_ms)
        next_due = f"{show_time(report.next_due_ms)} ({distance})"
    return [
        *_clock(report.clock_ahead_ms),
        ("broker", f"{report.shard}, version {report.version}, process {report.pid}"),
        ("folder", report.folder),
        ("up", f"{show_span(up_ms)}, since {show_time(report.started_ms)}"),
        (
            "pending",
            f"{report.pending:,}, and {report.at_gate:,} carried over that wait for their time",
        ),
        ("next due", next_due),
        *_overdue(report),
        ("lateness", _lateness(report.lateness)),
        ("pipeline", _driver(report.driver, report.now_ms)),
        *_trouble(report.driver, report.now_ms),
        ("sent", f"{report.sent:,} ({report.sent_delayed:,} delayed), {report.refused:,} refused"),
        *_limited(report.limited),
        ("delivered", f"{report.delivered:,}, {report.dropped:,} dropped by the transform"),
        (
            "changed",
            f"{report.cancelled:,} cancelled, {report.rescheduled:,} rescheduled, "
            f"{report.expired:,} expired",
        ),
        ("readers", f"{report.waiting_readers:,} waiting"),
        ("commit log", _size(report.commit_log_bytes)),
        ("delay log", _size(report.delay_log_bytes)),
    ]


def _clock(ahead_ms: int) -> list[tuple[str, str]]:
    if ahead_ms < STANDSTILL_MS:
        return []
    text = f"stands still for {show_span(ahead_ms)}: the wall clock was set back; see docs/clock.md"
    return [("CLOCK", text)]


def _limited(limited: Mapping[str, int]) -> list[tuple[str, str]]:
    """The most often limited first, and not all of very many."""
    if not limited:
        return []
    most = sorted(limited.items(), key=lambda each: -each[1])[:_LIMITED_SHOWN_MAX]
    more = f", and {len(limited) - len(most)} more" if len(limited) > len(most) else ""
    return [("limited", ", ".join(f"{who} {count:,} times" for who, count in most) + more)]


def _overdue(report: Reported) -> list[tuple[str, str]]:
    if not report.overdue:
        return []
    words = [f"{report.overdue:,}"]
    oldest = report.oldest_overdue
    if oldest is not None:
        since = show_span(report.now_ms - oldest.due_ms)
        keys = f" (keys {oldest.keys})" if oldest.keys else ""
        words.append(f"the oldest for {since}: {oldest.unique_id}{keys}, topic {oldest.topic}")
    return [("OVERDUE", ", ".join(words))]


def _trouble(driver: DriverReport, now_ms: int) -> list[tuple[str, str]]:
    if not driver.error:
        return []
    ago = show_span(max(now_ms - (driver.error_ms or now_ms), 0))
    return [("TROUBLE", f"{ago} ago: {driver.error}")]


def _lateness(lateness: LatenessReport) -> str:
    worst = f"worst since the start {show_span(lateness.late_ms_max)}"
    if not lateness.count:
        return f"nothing became visible in the last minute; {worst}"
    return (
        f"p50 {show_span(lateness.p50_ms or 0)}, p99 {show_span(lateness.p99_ms or 0)}, "
        f"max {show_span(lateness.max_ms or 0)} ({lateness.count:,} in the last minute); {worst}"
    )


def _driver(driver: DriverReport, now_ms: int) -> str:
    is_elsewhere = driver.status == "off" and driver.asked_ms is not None
    words = ["elsewhere" if is_elsewhere else driver.status]
    if driver.pid is not None:
        words.append(f"process {driver.pid}")
    if driver.start_count > 1:
        words.append(f"started {driver.start_count} times")
    if driver.asked_ms is not None:
        words.append(f"asked for work {show_span(max(now_ms - driver.asked_ms, 0))} ago")
    else:
        words.append("never asked for work")
    if driver.reason and not driver.error:
        words.append(f"last trouble: {driver.reason}")
    return ", ".join(words)


def _size(size_bytes: int) -> str:
    size = float(size_bytes)
    for unit in ("B", "KiB", "MiB"):
        if size < 1024:
            return f"{size:.3g} {unit}"
        size /= 1024
    return f"{size:,.1f} GiB"
