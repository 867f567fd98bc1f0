"""`dueline top`: a live view of what waits, what falls due when, and how late things are."""

from __future__ import annotations

import argparse
import shutil
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from time import sleep
from typing import TYPE_CHECKING, Any, Final

from dueline.commands.connection import add_broker_argument, connect
from dueline.commands.examples import show_examples
from dueline.commands.table import layout
from dueline.commands.terminal import Screen, add_json_argument, say, say_json
from dueline.errors import InvalidRequest
from dueline.times import duration_ms, local, show_distance, show_span, show_time

if TYPE_CHECKING:
    from dueline.flight.attention import Notice
    from dueline.flight.console import HistoryRead, Measured
    from dueline.flight.operators import OperatorClient, Reported
    from dueline.flight.waiting import Road

__all__ = ["configure", "frame_lines", "run", "sparkline"]

MINUTE_MS: Final = 60_000
ROAD_MINUTES: Final = 60
TOPIC_COUNT: Final = 8
INTERVAL_MS_MIN: Final = 100
_BLOCKS: Final = "▁▂▃▄▅▆▇█"
_SIGNS: Final = {"bad": "!!", "warn": "! ", "good": "  "}


def configure(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments."""
    add_json_argument(parser)
    add_broker_argument(parser)
    parser.add_argument("--once", action="store_true", help="show it once and end")
    parser.add_argument(
        "--interval", default="2s", metavar="DURATION", help="look so often (default: 2s)"
    )
    show_examples(parser, "dueline top\ndueline top --once\ndueline top --json --interval 10s")


@dataclass(frozen=True, slots=True, kw_only=True)
class Frame:
    """What is shown at one moment."""

    report: Reported
    measured: Measured
    history: HistoryRead
    road: Road
    attention: Sequence[Notice]

    def to_json(self) -> dict[str, Any]:
        return {
            "report": self.report.to_json(),
            "measures": self.measured.to_json(),
            "road": self.road.to_json(),
            "attention": [{"tone": each.tone, "text": each.text} for each in self.attention],
        }


def run(args: argparse.Namespace) -> int:
    """Show frames until somebody has seen enough."""
    interval_ms = duration_ms(args.interval, name="--interval")
    if interval_ms < INTERVAL_MS_MIN:
        raise InvalidRequest(
            f"--interval: expected at least {INTERVAL_MS_MIN} ms, found {interval_ms} ms"
        )
    is_live = sys.stdout.isatty() and not args.once and not args.json
    with connect(args) as client, Screen(is_on=is_live) as screen:
        try:
            _show(client, args, screen, interval_ms / 1_000)
        except KeyboardInterrupt:
            if not is_live:
                raise
    return 0


def _show(
    client: OperatorClient, args: argparse.Namespace, screen: Screen, interval_s: float
) -> None:
    before: Frame | None = None
    while True:
        frame = _asked(client)
        if args.json:
            say_json(frame.to_json())
        else:
            width, height = shutil.get_terminal_size()
            lines = frame_lines(frame, before, width)
            if screen.is_on:
                screen.show([line[:width] for line in lines[:height]])
            else:
                say(*lines, *([] if args.once else [""]))
        if args.once:
            return
        before = frame
        sleep(interval_s)


def _asked(client: OperatorClient) -> Frame:
    from dueline.flight import console, waiting
    from dueline.flight.attention import notices
    from dueline.flight.operators import Report, Reported

    report = client.ask(Report(), Reported)
    measured = client.ask(console.Measure(), console.Measured)
    ahead = waiting.LookAhead(
        start_ms=report.now_ms,
        end_ms=report.now_ms + ROAD_MINUTES * MINUTE_MS,
        bucket_ms=MINUTE_MS,
    )
    forecast = client.ask(waiting.AskForecast(), waiting.Forecast)
    return Frame(
        report=report,
        measured=measured,
        history=client.ask(console.ReadHistory(), console.HistoryRead),
        road=client.ask(ahead, waiting.Road),
        attention=notices(report, measured, forecast),
    )


def frame_lines(frame: Frame, before: Frame | None, width: int) -> list[str]:
    """A frame as lines; `before` is the last one, for what happens in a second."""
    report, measured = frame.report, frame.measured
    lateness = report.lateness
    late = "nothing fell due in the last minute"
    if lateness.count:
        late = (
            f"p50 {show_span(lateness.p50_ms or 0)}, p99 {show_span(lateness.p99_ms or 0)}, "
            f"max {show_span(lateness.max_ms or 0)} ({lateness.count:,} in the last minute)"
        )
    next_due = "nothing waits"
    if report.next_due_ms is not None:
        next_due = show_distance(report.next_due_ms, report.now_ms)
    ahead_ms = measured.ahead_ms
    runway_ms = ahead_ms if measured.runway_ms is None else measured.runway_ms
    up = show_span(report.now_ms - report.started_ms)
    return [
        f"{report.shard}  version {report.version}  up {up}  {show_time(report.now_ms)}",
        *(f"{_SIGNS[each.tone]} {each.text}" for each in frame.attention),
        "",
        f"waiting   {report.pending + report.at_gate:,}, {report.at_gate:,} of them at the gate; "
        f"next due {next_due}",
        f"lateness  {late}",
        f"flow      {_flow(frame, before)}",
        f"pipeline  {_pipeline(frame)}; "
        f"runway {show_span(max(min(runway_ms, ahead_ms), 0))} of {show_span(ahead_ms)}",
        f"disk      {measured.disk_free_bytes / (1 << 30):,.1f} GiB free",
        "",
        *_road_lines(frame.road, width),
        "",
        *_topic_lines(measured, width),
    ]


def _flow(frame: Frame, before: Frame | None) -> str:
    """What comes in and falls due: between two frames, or in the last minute."""
    if before is None:
        now_ms = frame.history.now_ms
        recent = [each for each in frame.history.minutes if each.start_ms > now_ms - 2 * MINUTE_MS]
        last = recent[-1] if recent else None
        counts = (last.sent_count, last.shown_count) if last is not None else (0, 0)
        return f"{counts[0]:,} in, {counts[1]:,} fell due, this minute"
    seconds = max(frame.report.now_ms - before.report.now_ms, 1) / 1_000
    sent = frame.report.sent - before.report.sent
    carried = frame.report.delivered - before.report.delivered
    shown = sum(frame.measured.lateness_ms.counts) - sum(before.measured.lateness_ms.counts)
    return (
        f"{sent / seconds:,.0f} in, {carried / seconds:,.0f} carried over, "
        f"{shown / seconds:,.0f} fell due a second"
    )


def _pipeline(frame: Frame) -> str:
    words = frame.report.driver.status
    if frame.history.batches:
        last = frame.history.batches[-1]
        ago = show_span(max(frame.history.now_ms - last.time_ms, 0))
        words += f", last batch {last.row_count:,} messages {ago} ago"
    return words


def _road_lines(road: Road, width: int) -> list[str]:
    """The next hour by the minute; what is not in it in words."""
    total, peak = sum(road.counts), max(road.counts, default=0)
    first = f"road      {total:,} fall due within the hour, {road.after:,} later"
    if road.before:
        first += f", {road.before:,} are due already"
    if not peak:
        return [first]
    at_ms = road.start_ms + road.bucket_ms * list(road.counts).index(peak)
    scale = f"now to {local(road.start_ms + ROAD_MINUTES * MINUTE_MS):%H:%M}"
    return [
        first,
        f"          {sparkline(road.counts[: max(width - 10, 1)])}",
        f"          {scale}; at most {peak:,} a minute, at {local(at_ms):%H:%M}",
    ]


def sparkline(counts: Sequence[int]) -> str:
    """Counts as blocks of eight heights; none is a space, few are never none.

    >>> sparkline([0, 1, 50, 100])
    ' ▁▄█'
    """
    peak = max(counts, default=0)
    return "".join(
        " " if not count else _BLOCKS[max(-(-count * len(_BLOCKS) // peak) - 1, 0)]
        for count in counts
    )


def _topic_lines(measured: Measured, width: int) -> list[str]:
    topics = [each for each in measured.topics if each.pending_count or each.end > each.start]
    rows = [
        (each.topic, each.pending_count, each.end - each.start) for each in topics[:TOPIC_COUNT]
    ]
    return layout(["topic", "pending", "messages"], rows, width) if rows else []
