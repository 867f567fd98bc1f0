"""The timeline: all delayed messages in due order, as runs, with the state of each.

    open run ── seal ──▶ run ──┐
    (memory)             run ──┼── merge ──▶ run    neighbours become one, without what is done
                         run ──┘

`next_corner` decides how far the next window reaches, `window` reads what is pending inside a
corner. A window is defined by what is *not done*: reading it again gives what is still to be
delivered, no matter what a reader remembers of earlier windows.

Memory: the open run (bounded by `open_units_max`), one byte per message in `States`, and
mapped pages that the system may take back. Not thread-safe: its owner holds the store's lock; only
`write_run` of a sealed copy happens outside it.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import numpy as np
import pyarrow as pa

from dueline.clock import Clock
from dueline.errors import CorruptRecord
from dueline.store.corner import SEQ_MAX, Corner, Key
from dueline.store.files import Files
from dueline.store.held import NOTHING, Held
from dueline.store.kernels import Int64s
from dueline.store.run import OpenRun, Run, RunRange, TopicList, Units, write_run
from dueline.store.soon import Soon
from dueline.store.states import PENDING, States
from dueline.store.thresholds import USUAL, Thresholds

__all__ = ["Timeline", "Window"]

OPEN_UNITS_MAX_DEFAULT: Final = 1 << 18
RUN_NAME: Final = re.compile("[0-9]{16}-[0-9]{16}(-m)?")
_UNLIMITED: Final = 1 << 62
_NEWS_MAX: Final = 256
_DENSE_MAX: Final = 1 << 20


@dataclass(frozen=True, slots=True, kw_only=True)
class Window:
    """Units to be delivered, in order of (due time, acceptance)."""

    end: Corner
    units: Units
    topic_names: list[str]

    def __len__(self) -> int:
        return len(self.units)

    def topics(self) -> pa.StringArray:
        """The topic of each unit by name."""
        used, local = np.unique(self.units.topic, return_inverse=True)
        names = pa.array([self.topic_names[number] for number in used.tolist()], pa.string())
        return names.take(pa.array(local))

    def split(self, part_count: int) -> list[tuple[Key | None, Key | None]]:
        """Key ranges (after, until] that cut the window into about equal parts."""
        count = len(self.units)
        part_count = max(1, min(part_count, count))
        cuts = [count * part // part_count for part in range(1, part_count)]
        keys: list[Key] = [
            (int(self.units.due_ms[cut - 1]), int(self.units.seq[cut - 1])) for cut in cuts
        ]
        return list(zip([None, *keys], [*keys, None], strict=True))


class News:
    """What has changed since somebody looked last: new units, and whether any were marked.

    Of many new units only that there are too many to look at one by one (`is_full`).
    """

    def __init__(self) -> None:
        self.clear()

    def clear(self) -> None:
        self.is_marked = False
        self.is_full = False
        self.added: list[Units] = []

    def add(self, units: Units) -> None:
        self.is_full |= len(units) + len(self.added) > _NEWS_MAX
        if not self.is_full:
            self.added.append(units)


class Timeline:
    """Runs, open run and states of one delay log."""

    def __init__(
        self,
        files: Files,
        folder: Path,
        states: States,
        thresholds: Thresholds = USUAL,
        *,
        clock: Clock | None = None,
    ) -> None:
        self._files = files
        self._thresholds = thresholds
        self._folder = folder
        files.make_folder(folder)
        self.states = states
        self.news: Final = News()
        self.held: Held = NOTHING
        self.soon: Final = Soon(clock or Clock())
        self.topics: Final = TopicList()
        self.runs: list[Run] = []
        self.sealing: OpenRun | None = None
        self.open = OpenRun(states.end, 0)

    @property
    def end(self) -> int:
        """The next acceptance number."""
        return self.open.end

    # Writing

    def load(self, names: list[str], position_end: int) -> None:
        """Open the runs of a checkpoint; the open run begins where they end.

        Raises:
            CorruptRecord: a run that is damaged or missing; recovery then rebuilds the timeline.
        """
        for name in names:
            try:
                self.runs.append(self._run(self._folder / name))
            except FileNotFoundError as error:
                raise CorruptRecord(
                    f"{self._folder / name}: expected a run, found no file",
                    path=str(self._folder / name),
                    position=0,
                ) from error
        first = self.runs[-1].range.end if self.runs else self.states.base
        self.open = OpenRun(first, position_end)

    def reset(self, states: States, position: int) -> None:
        """Know these states and no runs; the delay log is entered from `position` on."""
        self.close()
        self.runs = []
        self.states = states
        self.open = OpenRun(states.base, position)

    def cover(self, end: int, position_end: int) -> None:
        """Know all numbers before `end` and the delay log up to a position: no more units come."""
        self.states.extend(end)
        self.open.end = end
        self.open.position_end = position_end

    def _run(self, path: Path) -> Run:
        return Run(self._files, path, self.topics, self._thresholds.scan_run_rows)

    def add(self, units: Units, *, end: int, position_end: int) -> None:
        """Take in units of records that are now durable."""
        self.states.extend(end)
        self.open.append(units, end=end, position_end=position_end)
        self.news.add(units)
        self.soon.add(units)

    def mark(self, seqs: Int64s, code: int) -> None:
        self.states.mark(seqs, code)
        self.news.is_marked = True

    def begin_seal(self) -> OpenRun:
        """Set the open run aside (readers still see it) and start a new one."""
        assert self.sealing is None, "one seal at a time"
        self.sealing = self.open
        self.open = OpenRun(self.sealing.end, self.sealing.position_end)
        return self.sealing

    def write_sealed(self, sealed: OpenRun, states: States) -> Path | None:
        """Write a run that was set aside; needs no lock. None if nothing in it is pending."""
        units = sealed.pending(states)
        if not len(units):
            return None
        units = units.take(np.argsort(units.due_ms, kind="stable"))
        path = self._folder / f"{sealed.first:016d}-{sealed.end:016d}"
        write_run(self._files, path, units, sealed.range, self.topics)
        return path

    def end_seal(self, path: Path | None) -> None:
        """Let the written run take the place of the one set aside."""
        if path is not None:
            self.runs.append(self._run(path))
        self.sealing = None

    def abort_seal(self) -> None:
        """The run that was set aside could not be written: it is the open one again."""
        if self.sealing is not None:
            newer = self.open
            self.sealing.append(newer.units(), end=newer.end, position_end=newer.position_end)
            self.open, self.sealing = self.sealing, None

    def merge_candidates(self) -> list[Run]:
        """Neighbouring runs that are worth merging; fewer than two means none."""
        group: list[Run] = []
        live = total = 0
        for run in self.runs:
            pending = min(self.states.pending_count(run.range.first, run.range.end), len(run))
            if group and live + pending > self._thresholds.run_units_max:
                if self._is_worth_it(group, live, total):
                    return group
                group, live, total = [], 0, 0
            group.append(run)
            live += pending
            total += len(run)
        return group if self._is_worth_it(group, live, total) else []

    def _is_worth_it(self, group: list[Run], live: int, total: int) -> bool:
        """Merge when there are many small runs, or when most of what they hold is done."""
        if len(group) >= self._thresholds.merge_run_count:
            return True
        return total > 0 and live * 2 < total and total >= 1024

    def write_merged(self, group: list[Run], states: States) -> Path | None:
        """Write one run in place of several neighbours; needs no lock."""
        parts = [units for run in group for units in run.scan(states)]
        if not parts:
            return None
        units = Units.concat(parts)
        units = units.take(np.argsort(units.due_ms, kind="stable"))
        covered = RunRange(
            first=group[0].range.first,
            end=group[-1].range.end,
            position_start=group[0].range.position_start,
            position_end=group[-1].range.position_end,
        )
        name = f"{covered.first:016d}-{covered.end:016d}"
        path = self._folder / (name if not (self._folder / name).exists() else name + "-m")
        write_run(self._files, path, units, covered, self.topics)
        return path

    def end_merge(self, group: list[Run], path: Path | None) -> list[Path]:
        """Swap the merged run in; returns files to remove once no checkpoint names them."""
        at = self.runs.index(group[0])
        merged = [self._run(path)] if path is not None else []
        self.runs[at : at + len(group)] = merged
        for run in group:
            run.close()
        return [run.path for run in group]

    # Reading

    def next_corner(
        self, *, until_ms: int, row_count_max: int, size_bytes_max: int, start: Corner
    ) -> Corner:
        """The corner of the next window: what is due by `until_ms`, the earliest rows first.

        Returns `start` if nothing is pending inside. The window may be cut anywhere, also between
        messages that are due in the same millisecond.
        """
        wide = Corner(due_ms=until_ms, seq=SEQ_MAX, end=self.end)
        parts = [
            run.inside(wide, self.states, self.held, after=None, limit=row_count_max + 1)
            for run in self._all()
        ]
        units = _merged([part for part in parts if len(part)])
        if not len(units):
            return start
        total = np.cumsum(units.size[:row_count_max], dtype=np.int64)
        count = max(1, int(np.searchsorted(total, size_bytes_max, side="right")))
        if count >= len(units):
            return wide
        return Corner(
            due_ms=int(units.due_ms[count - 1]), seq=int(units.seq[count - 1]), end=self.end
        )

    def window(
        self,
        end: Corner,
        *,
        after: Key | None = None,
        until: Key | None = None,
        row_count_max: int | None = None,
        with_held: bool = False,
    ) -> Window:
        """What is pending inside `end`, or the part of it with keys in (after, until].

        Args:
            with_held: also what may not be carried over yet.
            row_count_max: of more rows than that, only the first so many.
        """
        edge = end
        if until is not None and until < end.key:
            edge = Corner(due_ms=until[0], seq=until[1], end=end.end)
        parts = [
            run.inside(
                edge,
                self.states,
                NOTHING if with_held else self.held,
                after=after,
                limit=row_count_max or _UNLIMITED,
            )
            for run in self._all()
        ]
        units = _merged([part for part in parts if len(part)])
        if row_count_max is not None and len(units) > row_count_max:
            units = units.take(slice(0, row_count_max))
        return Window(end=end, units=units, topic_names=self.topics.names)

    def earliest(
        self, *, after_ms: int, until_ms: int, without: Int64s | None = None
    ) -> dict[tuple[str, int], int]:
        """The earliest due time in (after_ms, until_ms] that is pending, by topic and queue.

        Args:
            without: numbers that do not count.
        """
        found: dict[tuple[str, int], int] = {}
        for run in self._all():
            units = self.held.left(run.between(after_ms, until_ms, self.states))
            if without is not None:
                units = units.take(np.flatnonzero(~np.isin(units.seq, without)))
            if not len(units):
                continue
            for name, due_ms in self.earliest_of(units).items():
                found[name] = min(found.get(name, _UNLIMITED), due_ms)
        return found

    def earliest_of(self, units: Units) -> dict[tuple[str, int], int]:
        """The earliest due time of units, by topic and queue."""
        width = int(units.queue_id.max(initial=0)) + 1
        queues = units.topic.astype(np.int64) * width + units.queue_id
        if len(self.topics.names) * width > _DENSE_MAX:
            numbers, places = np.unique(queues, return_inverse=True)
        else:
            numbers, places = np.arange(len(self.topics.names) * width), queues
        firsts = np.full(len(numbers), _UNLIMITED, dtype=np.int64)
        np.minimum.at(firsts, places, units.due_ms)
        chosen = np.flatnonzero(firsts < _UNLIMITED)
        return {
            (self.topics.names[number // width], number % width): due_ms
            for number, due_ms in zip(
                numbers[chosen].tolist(), firsts[chosen].tolist(), strict=True
            )
        }

    def find(self, seqs: Int64s) -> Units:
        """The units of numbers, done or not, but for those that a merge has left out."""
        if not len(seqs):
            return Units.empty()
        low, high = int(seqs.min()), int(seqs.max())
        covering = [run for run in self._all() if run.range.first <= high and low < run.range.end]
        return Units.concat([Units.empty(), *(run.find(seqs) for run in covering)])

    def key_of(self, topic: int, count: int, until_ms: int) -> Key:
        """The key of a topic's pending message that is so far in due order.

        If fewer are due by `until_ms`: the last key of that time.
        """
        if count <= 0:
            return (-1, -1)
        parts = [
            units.take(np.flatnonzero(units.topic == topic))
            for run in self._all()
            for units in [run.between(-1, until_ms, self.states)]
        ]
        units = _merged([part for part in parts if len(part)])
        if len(units) <= count:
            return (until_ms, SEQ_MAX)
        return (int(units.due_ms[count - 1]), int(units.seq[count - 1]))

    def pending_before(self, topic: int, due_ms: int) -> Int64s:
        """The numbers of a topic's pending messages that were due before a time."""
        found = [np.empty(0, dtype=np.int64)]
        for run in self._all():
            units = run.between(-1, due_ms - 1, self.states)
            found.append(units.seq[units.topic == topic])
        return np.concatenate(found)

    def next_due_ms(self) -> int | None:
        """When the next pending message is due that may be carried over."""
        dues = [run.next_due_ms(self.states, self.held) for run in self._all()]
        return min((due for due in dues if due is not None), default=None)

    def next_due_ms_but_soon(self) -> int | None:
        """As `next_due_ms`, without those in `soon`, which were accepted a moment ago."""
        without = self.soon.numbers()
        dues = [run.next_due_ms(self.states, self.held) for run in self.runs]
        aside = [self.sealing] if self.sealing is not None else []
        dues += [run.next_due_ms(self.states, self.held, without) for run in (*aside, self.open)]
        return min((due for due in dues if due is not None), default=None)

    def due_count(self, until_ms: int) -> int:
        """How many pending messages that are not held are due by `until_ms`."""
        return sum(run.due_count(until_ms, self.states, self.held) for run in self._all())

    def pending_count(self) -> int:
        return self.states.pending_count(self.states.base, self.states.end)

    def pending_in(self, position_start: int, position_end: int, states: States) -> Units:
        """Pending units whose records stand in a range of the delay log."""
        parts = []
        for run in self._all():
            covered = run.range
            if covered.position_start < position_end and covered.position_end > position_start:
                for units in run.scan(states):
                    inside = (units.position >= position_start) & (units.position < position_end)
                    parts.append(units.take(np.flatnonzero(inside)))
        return _merged([part for part in parts if len(part)])

    def _all(self) -> list[Run | OpenRun]:
        aside = [self.sealing] if self.sealing is not None else []
        return [*self.runs, *aside, self.open]

    def close(self) -> None:
        for run in self.runs:
            run.close()

    def is_pending(self, seq: int) -> bool:
        return seq < self.end and self.states.one(seq) == PENDING


def _merged(parts: list[Units]) -> Units:
    """Parts in acceptance order of their runs, each sorted: one sequence in due order."""
    if not parts:
        return Units.empty()
    if len(parts) == 1:
        return parts[0]
    units = Units.concat(parts)
    return units.take(np.argsort(units.due_ms, kind="stable"))
