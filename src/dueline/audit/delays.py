"""The delay log, compared with the states and with the timeline's runs.

Each pending number must have a sound record, once, and one unit in one run that says the same as
the record (or, behind the last checkpoint, none yet). Each cancelled number must be known as such.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import fields
from pathlib import Path
from zlib import crc32

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from dueline.audit.findings import Findings
from dueline.audit.groups import GroupWatch
from dueline.audit.keys import KeyCheck
from dueline.audit.numbers import NumberSet, Tally, mix
from dueline.audit.snapshot import Snapshot
from dueline.audit.walk import Batch, LogWalk
from dueline.errors import CorruptRecord, InvalidRequest
from dueline.schedule import DEFAULT_LEVELS, DelayLevels
from dueline.store import properties
from dueline.store.columns import ColumnFile
from dueline.store.files import Files
from dueline.store.kernels import Int64s
from dueline.store.run import Units
from dueline.store.states import FORGOTTEN, PENDING, TAKEN_BACK

__all__ = ["DelayCheck"]

_PART = 1 << 18
_REBUILD = "stop the broker and remove the file: opening makes it again from the delay log"


class DelayCheck:
    """Goes through the delay log once, then through the runs."""

    def __init__(self, snapshot: Snapshot, files: Files, findings: Findings) -> None:
        self._snapshot = snapshot
        self._files = files
        self._findings = findings
        self._runs = _Runs(snapshot, files, findings)
        self._seen = NumberSet(snapshot.next_seq)
        self._tally = Tally(len(self._runs.names) + 1)
        self._last_seq = -1
        self.walk: LogWalk = snapshot.delay.walk(files)
        self.groups = GroupWatch(self.walk, snapshot.whole_ends[0])
        self.next_due_ms: int | None = None
        self.pending_count = 0

    def run(self) -> None:
        keys = KeyCheck(
            self._snapshot.root / "index" / "delaylog",
            self._snapshot.checkpoint.delay_keys,
            self._files,
            self._findings,
        )
        for batch, controls in self.groups.batches(keys):
            for position, entry in controls:
                self._check_cancelled(position, entry.numbers)
            self._check_numbers(batch)
        self._runs.check(self._tally, self._seen)
        self._check_pending()

    def _check_cancelled(self, position: int, numbers: Int64s) -> None:
        if position >= self._snapshot.states_positions[0]:
            return  # applied by the snapshot
        states = self._snapshot.states.of(numbers)
        wrong = numbers[~np.isin(states, (*TAKEN_BACK, FORGOTTEN))]
        if len(wrong):
            self._findings.loss(
                "cancelled",
                f"delaylog {position}",
                f"message {int(wrong[0])} and {len(wrong) - 1} more were cancelled here, but the "
                "states do not say so",
            )

    def _check_numbers(self, batch: Batch) -> None:
        rows = np.flatnonzero(batch.columns.is_delayed)
        seqs = batch.columns.number[rows]
        if not len(seqs):
            return
        again = self._seen.add(seqs)
        is_back = bool((np.diff(seqs) <= 0).any()) or int(seqs[0]) <= self._last_seq
        if len(again) or is_back:
            at = int(batch.positions[rows[0]])
            self._findings.loss(
                "acceptance numbers",
                f"delaylog {at}",
                f"from position {at} on: expected numbers that grow, found one that was there "
                f"before ({[*again[:3].tolist(), int(seqs[0])][0]})",
            )
        self._last_seq = max(self._last_seq, int(seqs[-1]))
        is_pending = self._snapshot.states.of(seqs) == PENDING
        is_pending &= seqs < self._snapshot.next_seq
        self._add_units(batch, rows[is_pending], seqs[is_pending])

    def _add_units(self, batch: Batch, rows: Int64s, seqs: Int64s) -> None:
        if not len(rows):
            return
        self.pending_count += len(rows)
        texts = batch.columns.texts.take(pa.array(rows))
        positions = batch.positions[rows]
        store_ms = batch.columns.headers["store_ms"][rows].astype(np.int64)
        due_ms = _dues(texts, positions, store_ms, self._snapshot.levels)
        soonest = int(due_ms.min())
        self.next_due_ms = soonest if self.next_due_ms is None else min(self.next_due_ms, soonest)
        topics = _name_hashes(properties.values(texts, "REAL_TOPIC"))
        queue_ids = _numbers(properties.values(texts, "REAL_QID"), 0)
        hashes = mix(due_ms, seqs, positions, batch.sizes[rows], topics, queue_ids)
        self._tally.add(self._runs.owners(seqs), hashes)

    def _check_pending(self) -> None:
        """Every pending number has a record, or its message is lost."""
        states = self._snapshot.states
        for start in range(states.base, self._snapshot.next_seq, _PART):
            seqs = np.arange(start, min(start + _PART, self._snapshot.next_seq), dtype=np.int64)
            pending = seqs[states.of(seqs) == PENDING]
            lost = pending[~self._seen.has(pending)]
            for seq in lost[:100].tolist():
                self._findings.loss(
                    "pending message",
                    f"message {seq}",
                    f"delayed message {seq} is pending, but the delay log has no sound record of "
                    f"it{self._runs.describe(seq)}: it is lost",
                    "restore a backup",
                )


class _Runs:
    """The run files that the checkpoint names."""

    def __init__(self, snapshot: Snapshot, files: Files, findings: Findings) -> None:
        self._snapshot = snapshot
        self._findings = findings
        self.names: list[str] = []
        self._files: list[ColumnFile] = []
        for name in snapshot.checkpoint.runs:
            self._open(snapshot.root / "timeline" / name, files)
        self._firsts = np.array([self._range(file)[0] for file in self._files], dtype=np.int64)
        self._ends = np.array([self._range(file)[1] for file in self._files], dtype=np.int64)

    def _open(self, path: Path, files: Files) -> None:
        subject = f"timeline/{path.name}"
        try:
            file = ColumnFile(files, path)
            first, end = self._range(file)
            is_named = path.name.startswith(f"{first:016d}-{end:016d}")
        except FileNotFoundError:
            text = "missing; opening makes the timeline again from the delay log"
            self._findings.repair("run", subject, text)
            return
        except (CorruptRecord, ValueError, KeyError, TypeError) as error:
            text = f"damaged ({error}); opening makes the timeline again from the delay log"
            self._findings.repair("run", subject, text)
            return
        if not is_named:
            self._findings.loss(
                "run", subject, f"holds the numbers {first} to {end}: another run's file", _REBUILD
            )
        self.names.append(path.name)
        self._files.append(file)

    @staticmethod
    def _range(file: ColumnFile) -> tuple[int, int]:
        covered = file.meta["range"]
        return int(covered["first"]), int(covered["end"])

    def owners(self, seqs: Int64s) -> Int64s:
        """The run that each number belongs to; the last place stands for none."""
        none = len(self.names)
        if not none:
            return np.zeros(len(seqs), dtype=np.int64)
        at = np.searchsorted(self._firsts, seqs, side="right") - 1
        inside = (at >= 0) & (seqs < self._ends[np.maximum(at, 0)])
        result: Int64s = np.where(inside, at, none).astype(np.int64)
        return result

    def check(self, tally: Tally, seen: NumberSet) -> None:
        """Compare each run with what the delay log has of its numbers."""
        own = Tally(len(self.names) + 1)
        own.counts[-1], own.digests[-1] = tally.counts[-1], tally.digests[-1]
        if self._snapshot.has_checkpoint and self.names == self._snapshot.checkpoint.runs:
            self._check_covered()
        for number, file in enumerate(self._files):
            self._add(number, file, own)
        for number in own.differs(tally).tolist():
            self._explain(number, seen)

    def _check_covered(self) -> None:
        """No pending number lies between the runs; those behind them are in the log's tail."""
        end = int(self._ends[-1]) if len(self._ends) else self._snapshot.states.base
        limit = min(end, self._snapshot.checkpoint.next_seq)
        seqs = np.arange(self._snapshot.states.base, limit, dtype=np.int64)
        states = self._snapshot.states
        pending = seqs[states.of(seqs) == PENDING]
        outside = pending[self.owners(pending) == len(self.names)]
        if len(outside):
            self._findings.loss(
                "run",
                "timeline",
                f"{len(outside)} pending messages ({int(outside[0])} …) are in no run: they would "
                "not be delivered",
                "stop the broker and remove the runs: opening makes them again",
            )

    def _add(self, number: int, file: ColumnFile, own: Tally) -> None:
        previous: tuple[int, int] | None = None
        for units in _units(file):
            due_ms, seqs = units[0], units[1]
            steps = np.diff(due_ms)
            is_sorted = not bool(((steps < 0) | ((steps == 0) & (np.diff(seqs) <= 0))).any())
            if previous is not None and len(due_ms):
                is_sorted &= previous < (int(due_ms[0]), int(seqs[0]))
            if not is_sorted:
                self._findings.loss(
                    "run", f"timeline/{self.names[number]}", "not in due order", _REBUILD
                )
                return
            previous = (int(due_ms[-1]), int(seqs[-1])) if len(due_ms) else previous
            pending = np.flatnonzero(self._snapshot.states.of(seqs) == PENDING)
            hashes = mix(*(column[pending] for column in units))
            own.add(np.full(len(pending), number, dtype=np.int64), hashes)

    def _explain(self, number: int, seen: NumberSet) -> None:
        """A run that differs from the log: which messages?"""
        file = self._files[number]
        first, end = self._range(file)
        held = NumberSet(end - first)
        for units in _units(file):
            held.add(units[1] - first)
        seqs = np.arange(first, end, dtype=np.int64)
        pending = seqs[self._snapshot.states.of(seqs) == PENDING]
        absent = pending[seen.has(pending) & ~held.has(pending - first)]
        lost = pending[~seen.has(pending)]
        if len(lost) and not len(absent):
            return  # the log's loss, which is told by itself
        text = f"{len(absent)} pending messages are not in it" if len(absent) else ""
        text = text or "its units say otherwise than the delay log's records"
        self._findings.loss(
            "run",
            f"timeline/{self.names[number]}",
            f"{text}, though its checks match: they would not be delivered, or wrongly",
            _REBUILD,
        )

    def describe(self, seq: int) -> str:
        """When and where a lost message was due, as far as a run tells."""
        for file in self._files:
            first, end = self._range(file)
            if not first <= seq < end:
                continue
            at = np.flatnonzero(file["seq"] == seq - first)
            if len(at):
                row = int(at[0])
                topic = file.meta["topics"][int(file["topic"][row])]
                return f" (topic {topic}, due {int(file['due_ms'][row])} ms)"
        return ""


def _units(file: ColumnFile) -> Iterator[list[Int64s]]:
    """A run's units in bounded parts: due, number, position, size, topic's hash, queue."""
    first = int(file.meta["range"]["first"])
    names = np.array([crc32(name.encode()) for name in file.meta["topics"]] or [0], dtype=np.int64)
    for start in range(0, len(file.column("due_ms")), _PART):
        rows = slice(start, start + _PART)
        due_ms, seq, position, size, topic, queue_id = (
            file.column(field.name).take(rows) for field in fields(Units)
        )
        topic = names[np.clip(topic, 0, len(names) - 1)]
        yield [due_ms, seq + first, position, size, topic, queue_id]


def _dues(
    texts: pa.BinaryArray, positions: Int64s, store_ms: Int64s, history: list[list[object]]
) -> Int64s:
    """When each record is due: by its own time, or by its level in the table of that time."""
    timers = properties.values(texts, "TIMER_OUT_MS")
    due_ms = _numbers(timers, 0)
    by_level = timers.is_null().to_numpy(zero_copy_only=False)
    if bool(by_level.any()):
        levels = np.maximum(_numbers(properties.values(texts, "DELAY"), 1), 1)
        for start, table in _tables(history):
            rows = np.flatnonzero(by_level & (positions >= start))
            delays = np.array(table.delays_ms, dtype=np.int64)
            due_ms[rows] = store_ms[rows] + delays[np.minimum(levels[rows], len(delays)) - 1]
    return due_ms


def _tables(history: list[list[object]]) -> Iterator[tuple[int, DelayLevels]]:
    yield 0, DelayLevels.parse(DEFAULT_LEVELS)
    for start, text in history:
        try:
            yield int(str(start)), DelayLevels.parse(str(text))
        except (InvalidRequest, ValueError):
            continue


def _numbers(values: pa.BinaryArray, default: int) -> Int64s:
    """Texts as whole numbers; what is none becomes the default."""
    try:
        found = pc.fill_null(values.cast(pa.string()).cast(pa.int64()), default)
        result: Int64s = found.to_numpy(zero_copy_only=False).copy()
    except pa.ArrowInvalid:
        result = np.array([_number(value, default) for value in values.to_pylist()], np.int64)
    return np.maximum(result, 0)


def _number(value: bytes | None, default: int) -> int:
    try:
        return default if value is None else int(value)
    except ValueError:
        return default


def _name_hashes(values: pa.BinaryArray) -> Int64s:
    """A hash of each text; each distinct one is hashed once."""
    encoded = pc.fill_null(values, b"").dictionary_encode()
    names = [
        crc32(name.decode("utf-8", "replace").encode()) for name in encoded.dictionary.to_pylist()
    ]
    hashes: npt.NDArray[np.int64] = np.array(names or [0], dtype=np.int64)
    result: Int64s = hashes[encoded.indices.to_numpy()]
    return result
