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
    """The report as it is now; `on_change` hears when the status changes."""

    def __init__(self, clock: Clock, *, on_change: OnChange = lambda report: None) -> None:
        self._clock = clock
        self._on_change = on_change
        self._report = PipelineReport()
        self._has_committed = False
        self._lock = threading.Lock()

    def report(self) -> PipelineReport:
        return self._report

    @property
    def has_committed(self) -> bool:
        """Whether a pipeline has finished a batch since the start."""
        return self._has_committed

    # What the pipeline tells

    def asked(self) -> None:
        """It asked for work, so it is alive."""
        with self._lock:
            self._report = replace(self._report, asked_ms=self._clock.now_ms())

    def committed(self) -> None:
        """It finished a batch: what is due now can be delivered."""
        with self._lock:
            self._has_committed = True
            is_ready = self._report.status == "starting"
            report = replace(self._report, error="", error_ms=None)
            self._report = replace(report, status="ready", reason="") if is_ready else report
        if is_ready:
            self._on_change(self._report)

    def failed(self, error: str) -> None:
        """Something went wrong in it; it goes on, or is started again."""
        with self._lock:
            self._report = replace(
                self._report, error=error[:ERROR_SIZE_MAX], error_ms=self._clock.now_ms()
            )

    # What its supervisor sees

    def starting(self, pid: int) -> None:
        with self._lock:
            count = self._report.start_count + 1
            report = replace(self._report, status="starting", pid=pid, start_count=count)
            self._report = report
        self._on_change(report)

    def waiting(self, reason: str) -> None:
        """It ended and will be started again."""
        self._ended("waiting", reason)

    def stopped(self, reason: str | None = None) -> None:
        """It ended and will not be started again."""
        self._ended("stopped", reason)

    def _ended(self, status: str, reason: str | None) -> None:
        with self._lock:
            report = replace(self._report, status=status, pid=None)
            report = report if reason is None else replace(report, reason=reason)
            self._report = report
        self._on_change(report)
