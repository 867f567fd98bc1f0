"""Is it alive, and can it deliver now?

*Live* says that this process answers. *Ready* says that a message that falls due now would reach
its consumers: the broker answers, a pipeline asks it for work or the broker stands in for it, and
nothing is overdue for long.
"""

from __future__ import annotations

from typing import Final

from dueline.flight.operators import Reported
from dueline.flight.values import Value
from dueline.times import show_span

__all__ = ["Health", "health_of"]

OVERDUE_MS_MAX: Final = 30_000


class Health(Value, frozen=True, kw_only=True):
    """`status` is live, ready or not ready; `reasons` say why it is not."""

    status: str
    reasons: tuple[str, ...] = ()


def health_of(report: Reported) -> Health:
    """Ready, or why not."""
    reasons = []
    if not report.is_delivering and not report.driver.is_stood_in:
        why = report.driver.reason or report.driver.error
        reasons.append(f"the pipeline is {report.driver.status}{f': {why}' if why else ''}")
    oldest = report.oldest_overdue
    if oldest is not None and report.now_ms - oldest.due_ms > OVERDUE_MS_MAX:
        reasons.append(
            f"{report.overdue:,} messages are overdue, the oldest for "
            f"{show_span(report.now_ms - oldest.due_ms)}"
        )
    if report.clock_ahead_ms:
        reasons.append(
            f"the wall clock was set back: time stands still for {show_span(report.clock_ahead_ms)}"
        )
    return Health(status="not ready" if reasons else "ready", reasons=tuple(reasons))
