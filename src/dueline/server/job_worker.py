"""Works off the broker's jobs in a thread, and rests in between so that messages are on time.

After each portion it rests as long as the portion took, and at least `REST_S_MIN`: a job has half
of a core at the most, and locks of the store for moments.
"""

from __future__ import annotations

from time import monotonic
from typing import Final

from dueline.broker.waiting.jobs import Jobs
from dueline.server.threads import OnFailure, Worker

__all__ = ["JobWorker"]

REST_S_MIN: Final = 0.005
REST_S_MAX: Final = 0.25


class JobWorker(Worker):
    """One thread for all jobs. One that is under way at `stop` goes on after the next start."""

    def __init__(self, jobs: Jobs, *, on_failure: OnFailure) -> None:
        super().__init__("jobs", on_failure=on_failure)
        self._jobs = jobs

    def _wake(self) -> None:
        self._jobs.wake()

    def _run(self) -> None:
        while not self._stopping.is_set():
            start_s = monotonic()
            if not self._jobs.work():
                self._jobs.wait(None)
                continue
            took_s = monotonic() - start_s
            self._stopping.wait(min(max(took_s, REST_S_MIN), REST_S_MAX))
