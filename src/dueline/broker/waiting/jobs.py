"""Long actions on what waits: one at a time, in portions, with progress that survives a restart.

    start    checks the order and writes it down; the one who asked may go
    work     the next portion of the oldest job; called by one thread, again and again

A job means the messages that matched when it began: those with a number below `end`. It goes
through them in due order. What it has moved has a new number, beyond `end`, and is not met again;
so a job that a crash has cut short goes on where its file says, and what was done twice was done
once. Its counts may then lack the last portions before the crash (`is_resumed`). What a rule of its
topic turns back at the gate meanwhile gets a new number as well, and is still meant.

Files, one for each job: `jobs/NUMBER.json`, written when it starts, about once a second, and when
it ends. The newest `JOB_COUNT_MAX` are kept. Any thread may call.
"""

from __future__ import annotations

import json
import logging
import re
import threading
from collections.abc import Iterator
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from time import monotonic
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from dueline.broker.waiting.changing import Change, Tally, change_numbers, change_rows
from dueline.broker.waiting.filters import PendingFilter
from dueline.broker.waiting.matching import Matching
from dueline.errors import BrokerError, InvalidRequest, LimitExceeded, NotFound, StoreClosed
from dueline.store import Key, Store
from dueline.store.files import Files
from dueline.store.kernels import Int64s
from dueline.store.survey import Survey

__all__ = ["JobOrder", "JobReport", "Jobs"]

JOB_COUNT_MAX: Final = 100
OPEN_COUNT_MAX: Final = 20
NUMBER_COUNT_MAX: Final = 1_000_000
SAVE_S: Final = 1.0
_NAME: Final = re.compile("[0-9]{8}\\.json")

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True, kw_only=True)
class JobOrder:
    """What to do with whom: those that a filter means, or some by number.

    Attributes:
        token: somebody's own name for the order; the same once more is the same job.
        by: who wants it.
    """

    change: Change
    filter: PendingFilter | None = None
    numbers: tuple[int, ...] | None = None
    token: str = ""
    by: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class JobReport:
    """How far a job is. `state`: waiting, running, done, stopped or failed.

    Attributes:
        total: how many are to be changed; None: not known before the end.
        matched: how many were come to so far.
        end: messages with a number below it are meant.
        after: the job has come to here, in due order; of numbers: so many of them.
    """

    number: int
    order: JobOrder
    state: str
    started_ms: int
    ended_ms: int | None = None
    total: int | None = None
    matched: int = 0
    tally: Tally = field(default_factory=Tally)
    error: str = ""
    is_resumed: bool = False
    end: int | None = None
    after: tuple[int, int] | None = None

    @property
    def is_open(self) -> bool:
        return self.state in ("waiting", "running")


class Jobs:
    """The jobs of one store."""

    def __init__(self, store: Store, folder: Path, files: Files | None = None) -> None:
        """Read the files of earlier jobs; those that were cut short wait to go on."""
        self._store = store
        self._folder = folder
        self._files = files or Files()
        self._lock = threading.Lock()
        self._jobs: dict[int, JobReport] = {}
        self._stopping: set[int] = set()
        self._news = threading.Event()
        self._running: Iterator[None] | None = None
        self._saved_s = 0.0
        self.matching: Final = Matching(store)
        self._files.make_folder(folder)
        self._load()

    def _load(self) -> None:
        for name in self._files.names(self._folder, _NAME):
            try:
                report = _from_json(json.loads(self._files.read(self._folder / name)))
            except (ValueError, KeyError, TypeError) as error:
                log.warning("job %s cannot be read and is left out: %s", name, error)
                continue
            if report.is_open:
                report = replace(report, state="waiting", is_resumed=True)
                self._news.set()
            self._jobs[report.number] = report

    # Asking

    def list(self) -> list[JobReport]:
        """All that are known, the newest first."""
        with self._lock:
            return [self._jobs[number] for number in sorted(self._jobs, reverse=True)]

    def find(self, number: int) -> JobReport:
        """Raises:
        NotFound: there is none of this number.
        """
        with self._lock:
            report = self._jobs.get(number)
        if report is None:
            raise NotFound(
                f"job {number}: expected one of the last {JOB_COUNT_MAX}, found none", what="job"
            )
        return report

    # Ordering

    def start(self, order: JobOrder) -> JobReport:
        """Take an order; returns at once, when it is on disk.

        Raises:
            InvalidRequest, LimitExceeded: an order that makes no sense, or too many under way.
        """
        self._check(order)
        with self._lock:
            for known in self._jobs.values():
                if order.token and known.order.token == order.token:
                    return known
            if sum(job.is_open for job in self._jobs.values()) >= OPEN_COUNT_MAX:
                raise LimitExceeded(
                    f"jobs: expected at most {OPEN_COUNT_MAX} under way, found as many; wait for "
                    "one to end, or stop it",
                    limit=OPEN_COUNT_MAX,
                    found=OPEN_COUNT_MAX + 1,
                )
            report = JobReport(
                number=max(self._jobs, default=0) + 1,
                order=order,
                state="waiting",
                started_ms=self._store.clock.now_ms(),
            )
            self._save(report)
            self._jobs[report.number] = report
            self._forget_old()
        self._news.set()
        return report

    def _check(self, order: JobOrder) -> None:
        store = self._store
        order.change.check(
            now_ms=store.clock.now_ms(), delay_max_ms=store.options.rules.delay_max_ms
        )
        if (order.filter is None) == (order.numbers is None):
            raise InvalidRequest("job: expected a filter or numbers, found both or neither")
        if order.filter is not None:
            order.filter.plan()
        if order.numbers is not None and not 1 <= len(order.numbers) <= NUMBER_COUNT_MAX:
            raise LimitExceeded(
                f"numbers: expected 1 to {NUMBER_COUNT_MAX}, found {len(order.numbers)}",
                limit=NUMBER_COUNT_MAX,
                found=len(order.numbers),
            )

    def stop(self, number: int) -> JobReport:
        """Let a job end after its portion; what it has done stays so."""
        report = self.find(number)
        if report.is_open:
            self._stopping.add(number)
            self._news.set()
        return report

    # Working

    def wait(self, seconds: float | None) -> None:
        """Until there may be something to do."""
        self._news.wait(seconds)
        self._news.clear()

    def wake(self) -> None:
        self._news.set()

    def work(self) -> bool:
        """Do the next portion of the oldest job that is open; False if there is none.

        Raises:
            StoreClosed: the store has failed.
        """
        with self._lock:
            opened = sorted(number for number, job in self._jobs.items() if job.is_open)
        if not opened:
            return False
        number = opened[0]
        try:
            if number in self._stopping:
                self._end(number, "stopped")
                return True
            if self._running is None:
                self._running = self._portions(number)
            if next(self._running, _END) is _END:
                self._end(number, "done")
        except StoreClosed:
            raise
        except BrokerError as error:
            self._end(number, "failed", error.message)
        return True

    def _end(self, number: int, state: str, error: str = "") -> None:
        self._running = None
        self._stopping.discard(number)
        ended_ms = self._store.clock.now_ms()
        self._update(number, is_saved=True, state=state, error=error, ended_ms=ended_ms)

    def _portions(self, number: int) -> Iterator[None]:
        """Do a job, a portion for each step."""
        job = self.find(number)
        survey = self._store.survey()
        end = survey.end if job.end is None else job.end
        self._update(number, is_saved=True, state="running", end=end)
        if job.order.filter is None:
            yield from self._by_numbers(job)
        else:
            yield from self._by_filter(job, job.order.filter, survey, end)

    def _by_filter(
        self, job: JobReport, wanted: PendingFilter, survey: Survey, end: int
    ) -> Iterator[None]:
        if job.total is None and wanted.plan().of_records is None:
            self._update(job.number, total=self.matching.count(wanted).count)
            yield
        change = job.order.change
        for rows, edge in self.matching.waiting(wanted, survey, job.after):
            rows = rows.take(np.flatnonzero(self._is_meant(job, rows.units.seq, end)))
            for start in range(0, len(rows), change.portion_rows):
                portion = rows.take(slice(start, start + change.portion_rows))
                answers = change_rows(self._store, change, portion)
                after = portion.key_at(len(portion) - 1)
                self._add(job.number, len(portion), Tally.of(answers), after)
                yield
            self._add(job.number, 0, Tally(), edge)

    def _is_meant(self, job: JobReport, numbers: Int64s, end: int) -> npt.NDArray[np.bool_]:
        """Which numbers had matched when the job began. One that a rule of its topic has turned
        back since has another number, which a job that goes on after a restart has not seen."""
        meant: npt.NDArray[np.bool_] = numbers < end
        if job.is_resumed:
            for row in np.flatnonzero(~meant).tolist():
                meant[row] = self._store.numbers.was_before(int(numbers[row]), end)
        return meant

    def _by_numbers(self, job: JobReport) -> Iterator[None]:
        change, numbers = job.order.change, np.array(job.order.numbers, dtype=np.int64)
        self._update(job.number, total=len(numbers))
        first = job.after[0] if job.after is not None else 0
        for start in range(first, len(numbers), change.portion_rows):
            portion = numbers[start : start + change.portion_rows]
            answers = change_numbers(self._store, change, portion)
            self._add(job.number, len(portion), Tally.of(answers), (start + len(portion), 0))
            yield

    def _add(self, number: int, matched: int, tally: Tally, after: Key) -> None:
        job = self.find(number)
        is_saved = monotonic() >= self._saved_s + SAVE_S
        self._update(
            number,
            is_saved=is_saved,
            matched=job.matched + matched,
            tally=job.tally + tally,
            after=after,
        )

    def _update(self, number: int, *, is_saved: bool = False, **changes: Any) -> None:
        with self._lock:
            report = self._jobs[number] = replace(self._jobs[number], **changes)
        if is_saved:
            self._save(report)
            self._saved_s = monotonic()

    # Files

    def _save(self, report: JobReport) -> None:
        text = json.dumps(asdict(report)).encode()
        self._files.replace(self._path(report.number), [text])

    def _path(self, number: int) -> Path:
        return self._folder / f"{number:08d}.json"

    def _forget_old(self) -> None:
        """The caller holds the lock."""
        ended = sorted(number for number, job in self._jobs.items() if not job.is_open)
        for number in ended[: max(len(self._jobs) - JOB_COUNT_MAX, 0)]:
            del self._jobs[number]
            self._files.remove(self._path(number))


_END: Final = object()


def _from_json(plain: dict[str, Any]) -> JobReport:
    order = plain.pop("order")
    numbers, wanted = order.pop("numbers"), order.pop("filter")
    after = plain.pop("after")
    return JobReport(
        **{name: value for name, value in plain.items() if name != "tally"},
        tally=Tally(**plain["tally"]),
        after=None if after is None else (int(after[0]), int(after[1])),
        order=JobOrder(
            change=Change(**order.pop("change")),
            numbers=None if numbers is None else tuple(map(int, numbers)),
            filter=None if wanted is None else PendingFilter(**wanted),
            **order,
        ),
    )
