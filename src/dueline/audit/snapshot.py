"""What a store says about itself: its checkpoint, its states, and what the logs' tails add to them.

Both files are kept twice. The newest sound copy is what the rest is compared with; a copy that is
missing, damaged or older than it may be is a finding.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, TypeVar
from zlib import crc32

import numpy as np

from dueline.audit.findings import Findings
from dueline.audit.groups import GroupWatch, controls_of
from dueline.audit.walk import Batch, LogWalk
from dueline.errors import CorruptRecord
from dueline.store import checkpoint as checkpoints
from dueline.store import states as state_files
from dueline.store.checkpoint import Checkpoint
from dueline.store.control import DELAY_LOG_STATES, Control
from dueline.store.core import COMMIT_LOG, DELAY_LOG
from dueline.store.files import POSITION_NAME, Files
from dueline.store.kernels import Int64s
from dueline.store.maintenance import checkpoint_path, states_path
from dueline.store.states import DELIVERED, DROPPED, PENDING, States

__all__ = ["LogFolder", "Snapshot", "take"]

_SLOT: Final = struct.Struct(">qI")
_Loaded = TypeVar("_Loaded")


@dataclass(frozen=True, slots=True, kw_only=True)
class LogFolder:
    """The segments of one log as its folder lists them."""

    name: str
    folder: Path
    bases: list[int]
    segment_size_bytes: int
    odd_sizes: dict[int, int]

    @property
    def start(self) -> int:
        return self.bases[0] if self.bases else 0

    def walk(self, files: Files, start: int = 0) -> LogWalk:
        bases = [base for base in self.bases if base not in self.odd_sizes]
        return LogWalk(files, self.folder, bases, self.segment_size_bytes, start=start)


@dataclass(slots=True, kw_only=True)
class Snapshot:
    """A store's own account. `states` include what the logs' tails tell."""

    root: Path
    checkpoint: Checkpoint
    states: States
    has_checkpoint: bool
    has_states: bool
    delay: LogFolder
    commit: LogFolder
    whole_ends: tuple[int, int]  # delay log, commit log: nothing before it can be torn
    states_positions: tuple[int, int]
    next_seq: int
    levels: list[list[Any]]


def take(root: Path, files: Files, findings: Findings) -> Snapshot:
    """Read what the store says of itself."""
    checkpoint = _newest(
        checkpoint_path(root), lambda path: checkpoints.load(files, path), _age, findings
    )
    loaded = _newest(
        states_path(root),
        lambda path: state_files.load(files, path),
        lambda pair: (
            pair[0].end,
            _number(pair[1], "delay_position"),
            _number(pair[1], "index_ms"),
        ),
        findings,
    )
    delay = _list_log(root, DELAY_LOG, files)
    commit = _list_log(root, COMMIT_LOG, files)
    states, meta = loaded if loaded is not None else (States(0), {})
    saved = checkpoint or Checkpoint()
    snapshot = Snapshot(
        root=root,
        checkpoint=saved,
        states=states,
        has_checkpoint=checkpoint is not None,
        has_states=loaded is not None,
        delay=delay,
        commit=commit,
        whole_ends=(
            max(saved.delay_position, _number(meta, "delay_position"), _synced(delay, 0, files)),
            max(saved.commit_end, _number(meta, "commit_end"), _synced(commit, 1, files)),
        ),
        states_positions=(_number(meta, "delay_position"), _number(meta, "commit_position")),
        next_seq=max(saved.next_seq, states.end),
        levels=saved.levels or list(meta.get("levels", [])),
    )
    _check_account(snapshot, findings)
    _add_tails(snapshot, files)
    return snapshot


def _newest(
    path: Path,
    load: Callable[[Path], _Loaded],
    age: Callable[[_Loaded], tuple[int, ...]],
    findings: Findings,
) -> _Loaded | None:
    """The newest sound copy of a file that is kept twice; None if there is none."""
    copies: list[tuple[Path, _Loaded]] = []
    trouble: list[str] = []
    for copy in (path, state_files.mirror_of(path)):
        try:
            copies.append((copy, load(copy)))
        except FileNotFoundError:
            trouble.append(f"{copy.name} is missing")
        except (CorruptRecord, KeyError, TypeError) as error:
            trouble.append(f"{copy.name} is damaged: {error}")
    if copies:
        for text in trouble:
            findings.repair("copy", path.name, f"{text}; the other copy is sound")
    else:
        findings.repair("copies", path.name, f"no sound copy: {'; '.join(trouble)}")
        return None
    if len(copies) == 2 and age(copies[0][1]) < age(copies[1][1]):
        findings.repair("copy", path.name, f"{copies[0][0].name} is older than {copies[1][0].name}")
    return max((loaded for _, loaded in copies), key=age)


def _age(checkpoint: Checkpoint) -> tuple[int, ...]:
    return (
        checkpoint.next_seq,
        checkpoint.delay_position,
        checkpoint.commit_end,
        checkpoint.index_ms,
    )


def _number(meta: dict[str, Any], name: str) -> int:
    value = meta.get(name, 0)
    return value if isinstance(value, int) else 0


def _list_log(root: Path, name: str, files: Files) -> LogFolder:
    folder = root / name
    bases = [int(name) for name in files.names(folder, POSITION_NAME)]
    sizes = {}
    for base in bases:
        try:
            sizes[base] = (folder / f"{base:020d}").stat().st_size
        except FileNotFoundError:
            continue  # deleted since it was listed
    bases = [base for base in bases if base in sizes]
    usual = _usual_size(bases, list(sizes.values()))
    odd = {base: size for base, size in sizes.items() if size != usual}
    return LogFolder(name=name, folder=folder, bases=bases, segment_size_bytes=usual, odd_sizes=odd)


def _usual_size(bases: list[int], sizes: list[int]) -> int:
    """The length that all segments should have: every one begins at a multiple of it."""
    fitting = [size for size in sizes if size and all(base % size == 0 for base in bases)]
    return max(
        fitting, key=lambda size: (fitting.count(size), size), default=max(sizes, default=1 << 30)
    )


def _synced(log: LogFolder, slot: int, files: Files) -> int:
    """How far a log is known to be on disk (`store.synced`); 0 if that is not known, or not of this
    log."""
    try:
        data = files.read(log.folder.parent / "synced")[slot * _SLOT.size :][: _SLOT.size]
        position, check = _SLOT.unpack(data)
    except (FileNotFoundError, struct.error):
        return 0
    base = position - position % log.segment_size_bytes
    if check != crc32(data[:8]) or base not in log.bases:
        return 0
    file = files.open(log.folder / f"{base:020d}")
    try:
        end = position - base
        last = file.read_at(max(end - 64, 0), min(end, 64))  # no record ends in so many zeros
        is_written = file.data_end(0) >= end and (end == 0 or any(last))
        return int(position) if is_written else 0
    finally:
        file.close()


def _check_account(snapshot: Snapshot, findings: Findings) -> None:
    """Does what checkpoint and states say of themselves agree?"""
    saved = snapshot.checkpoint
    if not snapshot.has_states and snapshot.next_seq:
        if snapshot.commit.start > 0 or snapshot.delay.start > 0:
            findings.loss(
                "states",
                "timeline.states",
                "no sound copy, and the logs do not go back far enough to tell which delayed "
                "messages are done: some may be delivered twice",
                "restore a backup, or take over what is pending by hand",
            )
        return
    if not (snapshot.has_states and snapshot.has_checkpoint):
        return
    delay_position, commit_position = snapshot.states_positions
    if snapshot.states.end < saved.next_seq or delay_position < saved.delay_position:
        is_lost = commit_position < snapshot.commit.start
        tell = findings.loss if is_lost else findings.repair
        tell(
            "stale states",
            "timeline.states",
            f"older than the checkpoint: they know numbers up to {snapshot.states.end}, the "
            f"checkpoint up to {saved.next_seq}; the logs are read again from where they end"
            + (", but that part of the commit log is gone" if is_lost else ""),
        )


def _add_tails(snapshot: Snapshot, files: Files) -> None:
    """Apply what happened since the states were saved: the delay log first, see `audit`."""
    states = snapshot.states
    saved_end = states.end
    tail = _Tail(snapshot.delay.walk(files, snapshot.states_positions[0]), snapshot.whole_ends[0])
    for batch, controls in tail.batches():
        seqs = batch.columns.number[batch.columns.is_delayed]
        if len(seqs):
            tail.note(batch.positions[batch.columns.is_delayed], seqs)
            states.extend(int(seqs.max()) + 1)
        for entry in controls:
            states.mark(entry.numbers, DELAY_LOG_STATES[entry.kind])
    torn = tail.undone()  # before they were answered, and with them those whose records are gone
    if len(torn):
        states.mark(np.arange(max(tail.settled_end, saved_end), states.end), DROPPED)
    snapshot.next_seq = max(snapshot.next_seq, states.end)
    tail = _Tail(snapshot.commit.walk(files, snapshot.states_positions[1]), snapshot.whole_ends[1])
    for batch, controls in tail.batches():
        origins = batch.columns.number[batch.columns.is_delayed]
        # A running broker may have accepted more since.
        fresh = (origins < states.end) & (states.of(origins) == PENDING)
        tail.note(batch.positions[batch.columns.is_delayed][fresh], origins[fresh])
        states.mark(origins[fresh], DELIVERED)
        for entry in controls:
            numbers = entry.numbers[entry.numbers < states.end]
            states.mark(numbers[states.of(numbers) == PENDING], DROPPED)
    states.mark(tail.undone(), PENDING)


class _Tail:
    """A log's tail, and which of its numbers opening takes back with a torn last group."""

    def __init__(self, walk: LogWalk, whole_end: int) -> None:
        self._walk = walk
        self._watch = GroupWatch(walk, whole_end)
        self._noted: list[tuple[Int64s, Int64s]] = []
        self.settled_end = 0  # behind the last number that stays

    def batches(self) -> Iterator[tuple[Batch, list[Control]]]:
        for batch in self._walk.batches():
            controls = controls_of(batch)
            self._watch.add(batch, controls)
            cut = self._watch.cut
            self._settle(cut)
            yield batch, [entry for at, entry in controls if cut is None or at < cut]

    def note(self, positions: Int64s, numbers: Int64s) -> None:
        if len(positions):
            self._noted.append((positions, numbers))

    def undone(self) -> Int64s:
        cut = self._watch.cut
        self._settle(cut)
        parts = [numbers[positions >= cut] for positions, numbers in self._noted if cut is not None]
        return np.concatenate([np.empty(0, dtype=np.int64), *parts])

    def _settle(self, cut: int | None) -> None:
        """Forget what no cut will take back."""
        kept = []
        for positions, numbers in self._noted:
            stay = positions < cut if cut is not None else np.ones(len(positions), dtype=np.bool_)
            if bool(stay.any()):
                self.settled_end = max(self.settled_end, int(numbers[stay].max()) + 1)
            if not bool(stay.all()):
                kept.append((positions[~stay], numbers[~stay]))
        self._noted = kept
