"""Keeping a store small and quick to open: checkpoints, merges, retention, compaction.

`checkpoint` seals what is in memory, syncs everything derived and then says so in one small file.
It holds the locks only while it sets things aside. `retain` deletes what nobody needs:

    commit log   segments in which everything has been visible for `retention_ms`; with
                 `delete_early` also the oldest one while the disk is too full
    delay log    segments in which everything is done; a segment kept alive by a few long delays is
                 rewritten with gaps, its survivors at their old positions (so ids and origins hold)

Only segments before the last checkpoint are touched: recovery reads the rest.
"""

from __future__ import annotations

import contextlib
import logging
import struct
import threading
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from time import monotonic
from typing import Final

import numpy as np
import pyarrow as pa

from dueline.errors import Unavailable
from dueline.message import decode_properties
from dueline.schedule import REAL_TOPIC_NAME
from dueline.store import checkpoint as checkpoints
from dueline.store import cut as cuts
from dueline.store.checkpoint import Checkpoint
from dueline.store.core import COMMIT_LOG, DELAY_LOG, Core
from dueline.store.cut import Cut
from dueline.store.done_index import DoneMessage
from dueline.store.files import Bytes
from dueline.store.key_index import KEYS_NAME
from dueline.store.log import BLANK_SIZE
from dueline.store.record import BLANK_MAGIC, GAP_MAGIC
from dueline.store.record_columns import RecordColumns
from dueline.store.run import Units
from dueline.store.scan import scan
from dueline.store.states import DROPPED, TAKEN_BACK, States
from dueline.store.timeline import RUN_NAME

__all__ = ["Maintainer", "Retained", "checkpoint_path", "states_path"]

_BLOCK: Final = 4096

_log = logging.getLogger(__name__)


def checkpoint_path(root: Path) -> Path:
    return root / "checkpoint.json"


def states_path(root: Path) -> Path:
    return root / "timeline.states"


@dataclass(frozen=True, slots=True, kw_only=True)
class Retained:
    """What a retention run deleted or rewrote."""

    commit_segments: int = 0
    delay_segments: int = 0
    compacted_segments: int = 0


class Maintainer:
    """The housekeeping of a store; one thread at a time does it."""

    def __init__(self, core: Core) -> None:
        self._core = core
        self._mutex = threading.Lock()
        self._last = Checkpoint()
        self._unused: list[Path] = []  # files that the next checkpoint no longer names
        self._is_tidy = False  # nothing is left over from a crash
        self._held_until_s = 0.0  # by the monotonic clock: nothing is deleted before

    def is_due(self) -> bool:
        """Is enough in memory that a checkpoint should be made?"""
        core = self._core
        limit = core.options.open_units_max
        in_memory = max(core.commit_keys.open_count, core.queues.open_count)
        return len(core.timeline.open) >= limit or in_memory >= 4 * limit

    def checkpoint(self) -> None:
        """Make everything derived durable and remember from where recovery has to read.

        Raises:
            Unavailable: the disk is full; nothing is lost and the store goes on.
            StoreClosed: a write failed.
        """
        with self._mutex, self._core.closing_on_disk_error():
            self._checkpoint()

    def _checkpoint(self) -> None:
        core = self._core
        with core.commit_lock, core.delay_lock:
            core.mend_offsets()
            with core.lock:
                core.open_gate(core.clock.now_ms())
                sealed = core.timeline.begin_seal()
                core.commit_keys.begin_seal()
                core.delay_keys.begin_seal()
                least = core.options.thresholds.forget_states_min
                core.timeline.states.trim(self._trim_limit(), least=least)
                states = core.timeline.states.copy()
                units = core.queues.begin_flush()
                draft = self._draft()
            core.sync_both()
            core.commit.sync_patches()
        try:
            core.queues.flush(units)
            path = core.timeline.write_sealed(sealed, states)
            commit_keys = core.commit_keys.write_sealed()
            delay_keys = core.delay_keys.write_sealed()
        except Unavailable:
            with core.lock:
                core.timeline.abort_seal()
                core.commit_keys.abort_seal()
                core.delay_keys.abort_seal()
            raise
        with core.lock:
            core.timeline.end_seal(path)
            core.commit_keys.end_seal(commit_keys)
            core.delay_keys.end_seal(delay_keys)
        if not core.room.is_short:
            with contextlib.suppress(Unavailable):  # merged when there is room again
                self._merge(states)
        self._save(draft, states)

    def _trim_limit(self) -> int:
        """States are kept for what waits at the gate and for every record of the delay log: it
        would be found there, and nobody could tell its state."""
        core = self._core
        if core.gate.row_count:
            return 0
        return min((first for first, _ in core.segments.values()), default=core.timeline.end)

    def _draft(self) -> Checkpoint:
        core = self._core
        waiting = core.gate.position_min()
        commit_position = core.commit.end if waiting is None else waiting
        return Checkpoint(
            delay_position=core.delay.end,
            commit_position=commit_position,
            commit_segments=self._visible_segments(commit_position),
            commit_start=core.commit.start,
            commit_end=core.commit.end,
            commit_keys_end=core.commit.end,
            index_ms=core.index_ms,
            waiting=core.gate.positions_until(core.index_ms),
            accepted_ms=core.accepted_ms,
            next_seq=core.next_seq,
            delay_queues=dict(core.delay_queues),
            segments={str(base): list(seqs) for base, seqs in core.segments.items()},
            levels=core.levels.entries(),
        )

    def _save(self, draft: Checkpoint, states: States) -> None:
        core = self._core
        draft = replace(draft, queues=core.queues.ranges(), queue_checks=core.queues.checks())
        with core.lock:
            final = replace(
                draft,
                runs=[run.path.name for run in core.timeline.runs],
                commit_keys=core.commit_keys.names,
                delay_keys=core.delay_keys.names,
            )
        # What the logs cannot tell either, kept with the states in case the checkpoint is lost.
        known = {
            "delay_position": draft.delay_position,
            "commit_position": draft.commit_position,
            "commit_end": draft.commit_end,
            "levels": draft.levels,
            "queues": draft.queues,
            "index_ms": draft.index_ms,
        }
        states.save(core.files, states_path(core.path), known)
        checkpoints.save(core.files, checkpoint_path(core.path), final)
        self._last = final
        if not self._is_tidy:
            self._unused += self._left_over()
            self._is_tidy = True
        if self._is_held:
            return
        named = {run.path for run in core.timeline.runs}
        for path in self._unused:
            if path not in named:
                core.files.remove(path)
        self._unused = []

    def _left_over(self) -> list[Path]:
        """Files of derived data that a crash has left and no checkpoint names."""
        core = self._core
        index = core.path / "index"
        folders = (
            (core.path / "timeline", RUN_NAME, self._last.runs),
            (index / COMMIT_LOG, KEYS_NAME, self._last.commit_keys),
            (index / DELAY_LOG, KEYS_NAME, self._last.delay_keys),
        )
        return [
            folder / name
            for folder, expected, named in folders
            for name in core.files.names(folder, expected)
            if name not in named
        ]

    def _merge(self, states: States) -> None:
        """Merge runs and index files. What is left out was done when `states` was copied, and so
        is durably done: later states may still be lost if the store is not sync."""
        core = self._core
        with core.lock:
            group = core.timeline.merge_candidates()
        if group:
            path = core.timeline.write_merged(group, states)
            with core.lock:
                self._unused += core.timeline.end_merge(group, path)
        for keys in (core.commit_keys, core.delay_keys):
            with core.lock:
                files = keys.merge_candidates()
            if files:
                merged = keys.write_merged(files)
                with core.lock:
                    self._unused += keys.end_merge(files, merged)

    # Backups

    def hold(self, lease_s: float) -> None:
        """Delete nothing for so long, so that a backup can copy what its cut names."""
        self._held_until_s = monotonic() + lease_s

    def release(self) -> None:
        """The backup is done: delete again."""
        self._held_until_s = 0.0

    @property
    def _is_held(self) -> bool:
        return monotonic() < self._held_until_s

    def cut(self) -> Cut:
        """Make a checkpoint and a consistent cut; the caller has made a hold.

        Raises:
            Unavailable: the disk is full and there is no checkpoint yet.
            StoreClosed: a write failed.
        """
        core = self._core
        with self._mutex, self._core.closing_on_disk_error():
            small = list(cuts.small_files(core.path, core.files))
            with contextlib.suppress(Unavailable):  # an older one will do
                self._checkpoint()
            names = cuts.kept_names()
            saved = [cuts.inline(name, core.path / name, core.files) for name in names]
            last = checkpoints.load(core.files, checkpoint_path(core.path))
            derived = list(cuts.derived_files(core, last))
            with core.commit_lock, core.delay_lock:
                core.sync_both()
                with core.lock:
                    return Cut(
                        files=[*small, *saved, *cuts.log_files(core, last), *derived],
                        delay_end=core.delay.end,
                        commit_end=core.commit.end,
                        next_seq=core.next_seq,
                        pending_count=core.timeline.pending_count(),
                        now_ms=core.clock.now_ms(),
                    )

    def adopt(self, last: Checkpoint) -> None:
        """Know the checkpoint that recovery started from."""
        self._last = last

    # Retention

    def retain(self) -> Retained:
        """Delete and compact what is no longer needed; nothing while a backup copies it."""
        with self._mutex, self._core.closing_on_disk_error():
            if self._is_held:
                return Retained()
            commit_count = self._retain_commit()
            states = self._durable_states()
            delay_count = self._retain_delay(states)
            compacted = self._compact_delay(states)
            self._forget_done()
        return Retained(
            commit_segments=commit_count, delay_segments=delay_count, compacted_segments=compacted
        )

    def _durable_states(self) -> States:
        """States that no power cut can take back: what is done then may be deleted."""
        core = self._core
        with core.commit_lock, core.delay_lock:
            core.sync_both()
            with core.lock:
                return core.timeline.states.copy()

    def _retain_commit(self) -> int:
        core = self._core
        limit = core.clock.now_ms() - core.options.retention_ms
        keep_from = core.commit.start
        bases = [
            base
            for base in core.commit.bases
            if base + core.commit.segment_size_bytes <= self._last.commit_position
        ]
        for number, base in enumerate(bases):
            visible_ms = self._last.commit_segments.get(str(base), 1 << 62)
            if visible_ms > limit and not (number == 0 and self._deletes_early(base)):
                break
            keep_from = base + core.commit.segment_size_bytes
        if keep_from == core.commit.start:
            return 0
        with core.commit_lock, core.lock:
            dropped = core.commit.drop_before(keep_from)
            self._unused += core.commit_keys.drop_before(core.commit.start)
        core.queues.trim(core.commit.start)
        return len(dropped)

    def _deletes_early(self, base: int) -> bool:
        """Does the oldest segment go before its time, because the operator chose that?"""
        core = self._core
        ratio = core.files.disk(core.path).used_ratio
        if not core.options.delete_early or ratio <= core.options.disk_used_ratio_max:
            return False
        _log.warning(
            "the disk is %.1f %% full, more than %.1f %% (store.disk_used_ratio_max): the oldest "
            "messages, in %s, are deleted before their time, read or not (store.delete_early)",
            100 * ratio,
            100 * core.options.disk_used_ratio_max,
            core.commit.path_of(base),
        )
        return True

    def _visible_segments(self, commit_position: int) -> dict[str, int]:
        """Segments in which everything is visible, each with a time by which it was.

        Store times do not tell: a segment may hold a delivery that became visible much later.
        """
        core = self._core
        size = core.commit.segment_size_bytes
        return {
            str(base): self._last.commit_segments.get(str(base), core.index_ms)
            for base in core.commit.bases
            if base + size <= commit_position
        }

    def _retain_delay(self, states: States) -> int:
        core = self._core
        count = 0
        for base in self._closed_delay_segments():
            first, end = core.segments.get(base, [0, 0])
            with core.lock:
                if states.pending_count(first, end) or core.gate.holds_any(first, end):
                    continue
            is_remembered = self._remember(base)
            with core.delay_lock, core.lock:
                core.delay.drop_segment(base)
                core.segments.pop(base, None)
                self._unused += core.delay_keys.drop_before(core.delay.start)
            if not is_remembered:
                _log.warning("disk full: the states of messages %d to %d are forgotten", first, end)
            count += 1
        return count

    def _remember(self, base: int) -> bool:
        """Enter what is done in a segment and stands in no other log; False if the disk is full.

        Nothing of it waits at the gate, so its states do not change any more.
        """
        core = self._core
        made_ms = core.clock.now_ms()
        try:
            path = core.done.write(self._done_in(base), base=base, made_ms=made_ms)
        except Unavailable:
            return False
        with core.lock:
            core.done.add(path)
        return True

    def _done_in(self, base: int) -> Iterator[DoneMessage]:
        """The messages of a segment that are done and were delivered to nobody."""
        core = self._core
        for _, batch in scan(core.delay, base, [base]).batches(core.delay):
            columns = RecordColumns(batch)
            with core.lock:
                states = core.timeline.states.of(columns.number)
            gone = np.isin(states, (*TAKEN_BACK, DROPPED))
            rows = np.flatnonzero(columns.is_delayed & gone)
            for text, state in zip(
                columns.texts.take(pa.array(rows)).to_pylist(), states[rows].tolist(), strict=True
            ):
                known = decode_properties(text)
                yield (
                    *(known.get(name, "") for name in (REAL_TOPIC_NAME, "UNIQ_KEY", "KEYS")),
                    state,
                )

    def _forget_done(self) -> None:
        """Delivered messages are known as long as the commit log has them, others as long."""
        core = self._core
        with core.lock:
            old = core.done.drop_before(core.clock.now_ms() - core.options.retention_ms)
        for path in old:
            core.files.remove(path)

    def _closed_delay_segments(self) -> list[int]:
        core = self._core
        size = core.delay.segment_size_bytes
        return [base for base in core.delay.bases if base + size <= self._last.delay_position]

    def _compact_delay(self, states: States) -> int:
        """Rewrite segments of which only little is still pending."""
        core = self._core
        size = core.delay.segment_size_bytes
        count = 0
        for base in self._closed_delay_segments():
            first, end = core.segments.get(base, [0, 0])
            with core.lock:
                live = states.pending_count(first, end)
                if live == 0 or live > core.options.compact_live_ratio * (end - first):
                    continue
                if core.gate.holds_any(first, end):
                    continue  # what waits at the gate can still be cancelled or rescheduled
                units = core.timeline.pending_in(base, base + size, states)
            if len(units) != live:
                continue  # never delete what the runs do not account for
            if 2 * _sparse_bytes(base, units) > core.files.disk_bytes(core.delay.path_of(base)):
                continue  # survivors are spread too thinly, or it was compacted before
            try:
                if not self._remember(base):
                    break
                core.delay.replace_segment(base, self._gapped(base, size, units))
            except Unavailable:
                break  # no room even for the survivors: try again when there is
            count += 1
        return count

    def _gapped(self, base: int, size: int, units: Units) -> Iterator[tuple[int, Bytes]]:
        """The segment's survivors at their places, and a gap or blank between them."""
        at = 0
        order = units.position.argsort()
        for position, length in zip(
            units.position[order].tolist(), units.size[order].tolist(), strict=True
        ):
            start = position - base
            if start - at >= 8:
                yield at, struct.pack(">II", start - at, GAP_MAGIC)
            yield start, self._core.delay.read(position, length)
            at = start + length
        if size - at >= BLANK_SIZE:
            yield at, struct.pack(">II", size - at, BLANK_MAGIC)


def _sparse_bytes(base: int, units: Units) -> int:
    """About how much disk space a segment takes with only these records and what leads to them."""
    starts = units.position - base
    ends = starts + units.size
    # The first gap, each record, and the gap or blank behind it.
    touched = np.concatenate([[0], starts // _BLOCK, (ends - 1) // _BLOCK, (ends + 7) // _BLOCK])
    return _BLOCK * (len(np.unique(touched)) + int((units.size // _BLOCK).sum()))
