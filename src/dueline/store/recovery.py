"""Opening a store: the one repair path, after a clean stop and after any crash alike.

1. Read the checkpoint (one of two copies); without one, start from the logs' beginning.
2. Walk the tail of both logs, check every record, and cut what is torn: bytes after the last
   sound record, and a last group without its end. A damaged record in the middle is reported and
   passed over.
3. Delay log: units of the tail go into the open run; control records mark numbers cancelled.
4. Commit log: delivered origins are marked; records that had been visible are indexed again, in
   the same order and so at the same offsets; the rest waits at the gate.
5. The clock's floor becomes the latest time that the store has shown to anybody or has accepted a
   delayed message at. That it has merely run at a later time binds nobody: a clock that was ahead
   and is right again must not be believed for ever.

Derived files that are damaged or missing (runs, index, queues) are rebuilt from the logs.
"""

from __future__ import annotations

import logging
from dataclasses import replace
from typing import Final

import numpy as np
import pyarrow as pa

from dueline.errors import CorruptRecord
from dueline.message import (
    SYS_COMMIT,
    SYS_TRANSACTION_MASK,
    real_queue_id,
)
from dueline.schedule import REAL_QUEUE_NAME, REAL_TOPIC_NAME
from dueline.store import checkpoint as checkpoints
from dueline.store import properties
from dueline.store import states as state_files
from dueline.store.checkpoint import Checkpoint
from dueline.store.consume_queues import rows_by_queue
from dueline.store.control import DELAY_LOG_STATES
from dueline.store.core import Core
from dueline.store.due import LevelHistory, row_due_ms
from dueline.store.gate import GateRows
from dueline.store.holes import Holes, first_offset
from dueline.store.kernels import Int32s, Int64s
from dueline.store.maintenance import checkpoint_path, states_path
from dueline.store.record import NO_OFFSET
from dueline.store.record_columns import RecordColumns
from dueline.store.recovered import Recovered, Report
from dueline.store.run import Units
from dueline.store.scan import Damage, Scan
from dueline.store.states import DELIVERED, DROPPED, FORGOTTEN, PENDING, TAKEN_BACK, States
from dueline.store.tail import cut_tail, missing_segments

__all__ = ["recover"]

_log = logging.getLogger(__name__)

_OFFSET_LIKELY_MAX: Final = 1 << 40


def recover(core: Core) -> Recovered:
    """Repair the logs and read what is derived from them; nothing else may use it meanwhile.

    Logs, timeline, queues, gate and key indexes are brought in line by what they offer for it. All
    else that an open store knows is in the value; `Core.adopt` takes it over.
    """
    return _Recovery(core).run()


class _Recovery:
    def __init__(self, core: Core) -> None:
        self._core = core
        self._rebuilt: list[str] = []
        self._next_seq = 0
        self._accepted_ms = 0
        self._delay_queues: dict[str, int] = {}
        self._delay_segments: dict[int, list[int]] = {}
        self._levels = LevelHistory(default=core.options.levels)
        self._queue_offsets: list[Int64s] = []  # as the commit log's records have them
        self._queue_ranges: dict[str, dict[str, list[int]]] = {}  # as the states have them
        self._index_ms = 0
        self._whole_ends = (0, 0)  # delay log, commit log: nothing before it can be torn

    def run(self) -> Recovered:
        core = self._core
        self._keep_names()
        saved = self._load_checkpoint()
        self._whole_ends = (saved.delay_position, saved.commit_end)
        start = self._load_derived(saved)
        synced = core.synced.open()
        whole = self._whole_ends
        delay, delay_cut = cut_tail(core.delay, start.delay_position, whole[0], synced[0])
        commit, commit_cut = cut_tail(core.commit, start.commit_position, whole[1], synced[1])
        commit.damage.extend(missing_segments(core.commit, start.commit_position))
        self._replay_delay(delay)
        rows = self._replay_commit(commit)
        self._settle_numbers()
        floor_ms = self._index(rows, start, commit.damage)
        self._levels.note(core.delay.end, str(core.rules.levels))
        core.delay.forget_pages()
        core.commit.forget_pages()
        report = Report(
            delay_records=len(delay.positions),
            commit_records=len(commit.positions),
            cut_bytes=delay_cut + commit_cut,
            damage=[
                *(("delay log", damage) for damage in delay.damage),
                *(("commit log", damage) for damage in commit.damage),
            ],
            rebuilt=self._rebuilt,
        )
        for name, damage in report.damage:
            _log.warning(
                "%s: damaged bytes %d to %d: %s", name, damage.start, damage.end, damage.reason
            )
        return Recovered(
            report=report,
            start=start,
            next_seq=self._next_seq,
            index_ms=start.index_ms,
            accepted_ms=self._accepted_ms,
            floor_ms=max(floor_ms, self._accepted_ms),
            delay_queues=self._delay_queues,
            delay_segments=self._delay_segments,
            levels=self._levels,
        )

    # Loading

    def _keep_names(self) -> None:
        """Make the names of all files durable, and remove temporary ones.

        A process that makes a file syncs its folder, but may have been killed just before. Folders
        of queues are not looked into: a checkpoint names none of their files before it has synced
        it.
        """
        core = self._core
        core.files.sync_folder(core.path.parent)
        for folder in core.folders:
            for path in core.files.temporaries(folder):
                core.files.remove(path)
            core.files.sync_folder(folder)

    def _load_checkpoint(self) -> Checkpoint:
        path = checkpoint_path(self._core.path)
        for copy in (path, state_files.mirror_of(path)):
            try:
                return checkpoints.load(self._core.files, copy)
            except FileNotFoundError:
                continue
            except CorruptRecord as error:
                self._rebuilt.append(error.message)
        return Checkpoint(
            delay_position=self._core.delay.start, commit_position=self._core.commit.start
        )

    def _load_derived(self, start: Checkpoint) -> Checkpoint:
        """Open what the checkpoint names; whatever is damaged makes the logs be read from further
        back instead."""
        core = self._core
        self._accepted_ms = start.accepted_ms
        self._next_seq = start.next_seq
        self._delay_queues = dict(start.delay_queues)
        self._delay_segments = {int(base): list(seqs) for base, seqs in start.segments.items()}
        self._levels = LevelHistory(start.levels, default=core.options.levels)
        start = self._load_states(start)
        try:
            core.timeline.load(start.runs, start.delay_position)
            core.delay_keys.load(start.delay_keys, start.delay_position)
        except CorruptRecord as error:
            self._rebuilt.append(error.message)
            core.timeline.reset(core.timeline.states, core.delay.start)
            core.delay_keys.reset(core.delay.start)
            self._delay_segments = {}
            start = replace(start, delay_position=core.delay.start)
        try:
            core.commit_keys.load(start.commit_keys, start.commit_keys_end)
        except CorruptRecord as error:
            self._rebuilt.append(error.message)
            core.commit_keys.reset(core.commit.start)
            start = replace(start, commit_position=core.commit.start)
        self._rebuilt += core.done.load()
        core.queues.restore(start.queues, start.queue_checks)
        return start

    def _load_states(self, start: Checkpoint) -> Checkpoint:
        core = self._core
        path = states_path(core.path)
        for copy in (path, state_files.mirror_of(path)):
            try:
                states, meta = state_files.load(core.files, copy)
            except FileNotFoundError:
                continue
            except CorruptRecord as error:
                self._rebuilt.append(error.message)
                continue
            core.timeline.reset(states, 0)
            if not len(self._levels):
                self._levels = LevelHistory(meta["levels"], default=core.options.levels)
            self._index_ms = int(meta.get("index_ms", 0))
            self._queue_ranges = meta.get("queues", {})
            delay_end, commit_end = self._whole_ends
            self._whole_ends = (
                max(delay_end, int(meta["delay_position"])),
                max(commit_end, int(meta["commit_end"])),
            )
            # An older copy makes the logs be read again from where it was made.
            return replace(
                start,
                delay_position=min(start.delay_position, int(meta["delay_position"])),
                commit_position=min(start.commit_position, int(meta["commit_position"])),
            )
        core.timeline.reset(States(0), 0)
        if start.next_seq == 0:
            return start
        self._rebuilt.append(f"{path}: no sound copy")
        return replace(
            start,
            runs=[],
            delay_keys=[],
            delay_position=core.delay.start,
            commit_position=core.commit.start,
        )

    # Replaying

    def _replay_delay(self, found: Scan) -> None:
        core = self._core
        for rows, batch in found.batches(core.delay):
            columns = RecordColumns(batch)
            self._apply_controls(columns, delay=True)
            chosen = np.flatnonzero(columns.is_delayed)
            if not len(chosen):
                continue
            positions = found.positions[rows][chosen]
            columns = RecordColumns(batch.take(pa.array(chosen)))
            self._add_units(columns, positions, found.sizes[rows][chosen])
        core.timeline.cover(core.timeline.end, core.delay.end)
        core.delay_keys.position_end = core.delay.end

    def _add_units(self, columns: RecordColumns, positions: Int64s, sizes: Int32s) -> None:
        core = self._core
        seqs = columns.number
        if core.timeline.states.end == 0 and not core.timeline.runs and len(seqs):
            core.timeline.reset(States(int(seqs[0])), core.delay.start)
        self._accepted_ms = max(self._accepted_ms, int(columns.headers["store_ms"].max()))
        topics = properties.values(columns.texts, REAL_TOPIC_NAME)
        topic_names = [_text(value) for value in topics.to_pylist()]
        queue_ids = properties.values(columns.texts, REAL_QUEUE_NAME).to_pylist()
        units = Units(
            due_ms=row_due_ms(columns.texts, positions, columns.headers["store_ms"], self._levels),
            seq=seqs,
            position=positions,
            size=sizes.astype(np.int32),
            topic=np.array(
                [core.timeline.topics.number_of(name) for name in topic_names], dtype=np.int32
            ),
            queue_id=np.array([real_queue_id(value) for value in queue_ids], dtype=np.int32),
        )
        fresh = np.flatnonzero(units.seq >= core.timeline.end)
        for base in np.unique(positions - positions % core.delay.segment_size_bytes).tolist():
            inside = seqs[(positions >= base) & (positions < base + core.delay.segment_size_bytes)]
            first, last = int(inside.min()), int(inside.max())
            known = self._delay_segments.setdefault(base, [first, last + 1])
            known[:] = [min(known[0], first), max(known[1], last + 1)]
        self._drop_numbers(np.setdiff1d(np.arange(core.timeline.end, int(seqs.max())), seqs))
        core.timeline.add(
            units.take(fresh), end=int(seqs.max()) + 1, position_end=int(positions[-1]) + 1
        )
        self._count_delay_queues(columns)
        hashes, owners = columns.key_hashes()
        core.delay_keys.add(hashes, positions[owners], position_end=int(positions[-1]) + 1)

    def _settle_numbers(self) -> None:
        """Numbers that were given out stay so, also when nothing with them is left in log or runs.

        If the store is not sync, a power cut may leave a delivery without the message it came from.
        """
        core = self._core
        self._next_seq = max(self._next_seq, core.timeline.end, core.timeline.states.end)
        self._drop_numbers(np.arange(core.timeline.end, self._next_seq))
        core.timeline.cover(self._next_seq, core.delay.end)

    def _drop_numbers(self, seqs: Int64s) -> None:
        """Numbers without a record: torn before they were answered, or reported as damage."""
        states = self._core.timeline.states
        states.mark(seqs[states.of(seqs) == PENDING], DROPPED)

    def _count_delay_queues(self, columns: RecordColumns) -> None:
        """Go on counting queue offsets of the delay topics where the log left off."""
        names = columns.topics.to_pylist()
        pairs = zip(
            names,
            columns.headers["queue_id"].tolist(),
            columns.headers["queue_offset"].tolist(),
            strict=True,
        )
        for topic, queue_id, offset in pairs:
            name = f"{topic.decode()}/{queue_id}"
            known = self._delay_queues.get(name, 0)
            self._delay_queues[name] = max(known, offset + 1)

    def _apply_controls(self, columns: RecordColumns, *, delay: bool) -> None:
        timeline = self._core.timeline
        for entry in columns.controls():
            if delay:
                timeline.mark(entry.numbers, DELAY_LOG_STATES[entry.kind])
            else:
                pending = entry.numbers[timeline.states.of(entry.numbers) == PENDING]
                timeline.mark(pending, DROPPED)

    def _replay_commit(self, found: Scan) -> GateRows:
        """Mark origins and collect every record of the tail as a row to be indexed."""
        core = self._core
        parts = []
        for rows, batch in found.batches(core.commit):
            columns = RecordColumns(batch)
            self._apply_controls(columns, delay=False)
            origin = np.where(columns.is_delayed, columns.number, -1)
            delivered = origin[origin >= 0]
            pending = delivered[core.timeline.states.of(delivered) == PENDING]
            core.timeline.mark(pending, DELIVERED)
            state = core.timeline.states.of(np.maximum(origin, 0))
            # What is forgotten does not wait at the gate: it was seen, or cancelled before.
            unseen = columns.headers["queue_offset"] == NO_OFFSET
            cancelled = np.isin(state, TAKEN_BACK) | ((state == FORGOTTEN) & unseen)
            kind = columns.headers["sys_flag"] & SYS_TRANSACTION_MASK
            indexed = np.isin(kind, (0, SYS_COMMIT)) & ~((origin >= 0) & cancelled)
            positions = found.positions[rows]
            hashes, owners = columns.key_hashes()
            core.commit_keys.add(hashes, positions[owners], position_end=int(positions[-1]) + 1)
            chosen = np.flatnonzero(indexed)
            self._queue_offsets.append(columns.headers["queue_offset"][chosen].astype(np.int64))
            parts.append(self._gate_rows(columns, chosen, positions, found.sizes[rows], origin))
        core.commit_keys.position_end = core.commit.end
        return GateRows.concat(parts) if parts else GateRows.empty()

    def _gate_rows(
        self,
        columns: RecordColumns,
        chosen: Int64s,
        positions: Int64s,
        sizes: Int32s,
        origin: Int64s,
    ) -> GateRows:
        core = self._core
        topics = columns.topics.take(pa.array(chosen)).to_pylist()
        queue_ids = columns.headers["queue_id"][chosen].tolist()
        numbers = [
            core.queues.number_of(_text(topic), queue_id)
            for topic, queue_id in zip(topics, queue_ids, strict=True)
        ]
        tags = properties.values(columns.texts.take(pa.array(chosen)), "TAGS")
        return GateRows(
            visible_ms=columns.headers["store_ms"][chosen].astype(np.int64),
            due_ms=columns.headers["store_ms"][chosen].astype(np.int64),
            position=positions[chosen],
            size=sizes[chosen].astype(np.int32),
            tags_code=properties.tags_codes(tags),
            queue=np.array(numbers, dtype=np.int64),
            origin=origin[chosen],
        )

    def _index(self, rows: GateRows, start: Checkpoint, damage: list[Damage]) -> int:
        """Index again what had been visible; let the rest wait at the gate.

        Returns the time up to which messages had been visible.
        """
        core = self._core
        known = (rows.visible_ms <= start.index_ms) & (rows.position < start.commit_end)
        known &= ~np.isin(rows.position, np.array(start.waiting, dtype=np.int64))
        rows = rows.take(np.flatnonzero(~known))
        claims = np.concatenate([np.empty(0, np.int64), *self._queue_offsets])[~known]
        ordinary = rows.visible_ms[rows.origin < 0]
        index_ms = start.index_ms
        if not start.queues:
            index_ms = max(index_ms, self._index_ms)
            self._find_last_ends()
        shown_ms = self._shown_ms(rows, claims, is_whole=bool(start.queues) and not damage)
        floor_ms = max(int(ordinary.max(initial=0)), shown_ms, index_ms)
        if not start.queues:
            self._find_first_offsets(rows, claims, floor_ms, is_damaged=bool(damage))
        if damage:
            rows = Holes(core, damage).place(rows, claims, floor_ms)
        core.gate.add(rows)
        core.open_gate_for_all(floor_ms)
        if core.commit.start != start.commit_start:
            core.queues.trim(core.commit.start, after_crash=True)
        return floor_ms

    def _shown_ms(self, rows: GateRows, claims: Int64s, *, is_whole: bool) -> int:
        """The latest store time among records that were given a queue offset: a consumer may have
        seen them, so they must stay where they are.

        The field has no check. An offset counts only if its queue can have come so far,
        as all its records tell if it is whole.
        """
        if not len(rows):
            return 0
        ends = np.array([queue.end for queue in self._core.queues], dtype=np.int64)
        counts = np.bincount(rows.queue, minlength=len(ends))
        if not is_whole:
            counts += _OFFSET_LIKELY_MAX
        shown = (claims >= ends[rows.queue]) & (claims < (ends + counts)[rows.queue])
        return int(rows.visible_ms[shown].max(initial=0))

    def _find_last_ends(self) -> None:
        """Without a checkpoint, a queue ends where it did when the states were saved. Of a queue
        whose records were all deleted since, nothing else tells that its offsets are used up."""
        queues = self._core.queues
        for topic, ranges in self._queue_ranges.items():
            for queue_id, (_, end) in ranges.items():
                queues.begin(queues.number_of(topic, int(queue_id)), end)

    def _find_first_offsets(
        self, rows: GateRows, claims: Int64s, floor_ms: int, *, is_damaged: bool
    ) -> None:
        """Without a checkpoint, a queue begins where its first records say: what came before them
        was deleted."""
        order = np.argsort(rows.visible_ms, kind="stable")
        order = order[rows.visible_ms[order] <= floor_ms]
        claimed = claims[order]
        for number, own in rows_by_queue(rows.queue[order]):
            saved = self._saved_range(number)
            first = first_offset(claimed[own], is_damaged=is_damaged, saved=saved)
            if first is not None:
                self._core.queues.begin(number, first)

    def _saved_range(self, number: int) -> tuple[int, int] | None:
        """The offsets that a queue had when the states were saved."""
        topic, queue_id = self._core.queues.by_number(number).name
        found = self._queue_ranges.get(topic, {}).get(str(queue_id))
        return None if found is None else (found[0], found[1])


def _text(value: bytes | None) -> str:
    return "" if value is None else value.decode("utf-8", "replace")
