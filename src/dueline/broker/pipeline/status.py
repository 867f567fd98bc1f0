"""How the pipeline is doing: what its supervisor sees, and what it tells by itself.

                 supervisor: starting             door: a batch was committed
    off  ───────────────────────────▶  starting  ─────────────────────────────▶  ready
                                        ▲    │ waiting                             │ waiting
                                        │    ▼                                     ▼
                                        └─ waiting ◀───────────────────────────────┘

Without a supervisor the pipeline runs elsewhere and the status stays "off"; when it asked and what
went wrong in it is known all the same. Any thread may call.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from dataclasses import dataclass, replace

from dueline.clock import Clock

__all__ = ["OnChange", "PipelineReport", "PipelineStatus"]

ERROR_SIZE_MAX = 500
TRANSFORM_MS = 60_000
"""So long after it has last asked, a pipeline with a transform is taken to be there."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PipelineReport:
    """`status` is off, starting, ready, waiting (to be started again) or stopped.

    `asked_ms` is when a pipeline, this broker's or another, last asked for work. `error` is the
    last thing that went wrong in it, in one line, since it last finished a batch.
    """

    status: str = "off"
    pid: int | None = None
    start_count: int = 0
    reason: str = ""
    asked_ms: int | None = None
    error: str = ""
    error_ms: int | None = None


OnChange = Callable[[PipelineReport], None]


class PipelineStatus:
    """The report as it is now, and who hears when the status changes."""

    def __init__(self, clock: Clock, *, is_transformed: bool = True) -> None:
        """`is_transformed`: whether a transform is to be expected, until a pipeline has said."""
        self._clock = clock
        self._is_transformed = is_transformed
        self._transformed_ms: int | None = None
        self._on_change: list[OnChange] = []
        self._report = PipelineReport()
        self._lock = threading.Lock()

    def on_change(self, callback: OnChange) -> None:
        """Let this be called with every report of another status, in the thread that made it."""
        self._on_change.append(callback)

    def report(self) -> PipelineReport:
        return self._report

    def is_missed(self) -> bool:
        """Is there a pipeline of ours that does not work yet, or does not any more?"""
        return self._report.status in ("starting", "waiting")

    def is_stood_in(self) -> bool:
        """Does the broker deliver in its place (`deputy.py`)? Not where it may decide something."""
        return self.is_missed() and not self.may_decide()

    # What the pipeline tells

    def asked(self, *, is_transformed: bool) -> None:
        """It asked for work, so it is alive, and it says whether it has a transform."""
        now_ms = self._clock.now_ms()
        with self._lock:
            self._report = replace(self._report, asked_ms=now_ms)
            self._is_transformed = is_transformed
            if is_transformed:
                self._transformed_ms = now_ms

    def may_decide(self) -> bool:
        """May a pipeline do other than pass messages on? Also if one of several does."""
        with self._lock:
            if self._is_transformed or self._transformed_ms is None:
                return self._is_transformed
            return self._clock.now_ms() - self._transformed_ms <= TRANSFORM_MS

    def committed(self) -> None:
        """It finished a batch: what is due now can be delivered."""
        with self._lock:
            is_ready = self._report.status == "starting"
            report = replace(self._report, error="", error_ms=None)
            self._report = replace(report, status="ready", reason="") if is_ready else report
        if is_ready:
            self._tell()

    def failed(self, error: str) -> None:
        """Something went wrong in it; it goes on, or is started again."""
        with self._lock:
            self._report = replace(
                self._report, error=error[:ERROR_SIZE_MAX], error_ms=self._clock.now_ms()
            )

    # What its supervisor sees

    def follow(self, *, status: str, pid: int | None, start_count: int, reason: str) -> None:
        """Its process is starting, waits to be started again, or has stopped for good.

        Why it ended the last time is known until it is ready again.
        """
        with self._lock:
            self._report = replace(
                self._report,
                status=status,
                pid=pid,
                start_count=start_count,
                reason=reason or self._report.reason,
            )
        self._tell()

    def _tell(self) -> None:
        report = self._report
        for callback in self._on_change:
            callback(report)
