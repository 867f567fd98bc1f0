"""The outcome of the delayed messages of a store, seen from outside and without locking it.

The snapshot of the states is as old as the last checkpoint. What happened since stands in the tails
of the logs, which are read from where the snapshot was made: deliveries and dropped origins in the
commit log, cancelled and replaced numbers in the delay log. That is what recovery does too, but
nothing is changed here, and what cannot be read is simply not known.
"""

from __future__ import annotations

from pathlib import Path

from dueline.errors import BrokerError
from dueline.message import LEVEL_TOPIC, TIMER_TOPIC, decode_properties
from dueline.schedule import REAL_TOPIC_NAME
from dueline.store import checkpoint as checkpoints
from dueline.store import control
from dueline.store import states as state_files
from dueline.store.checkpoint import Checkpoint
from dueline.store.control import DELAY_LOG_STATES, Control
from dueline.store.due import LevelHistory, said_due_ms
from dueline.store.files import Files
from dueline.store.inspection import RECORD, LogFiles, entries, find_logs
from dueline.store.maintenance import checkpoint_path, states_path
from dueline.store.record import Record
from dueline.store.rocketmq import level_due_ms
from dueline.store.states import DELIVERED, DROPPED, NAMES, States

__all__ = ["Outcomes"]


class Outcomes:
    """State and due time of delayed messages; without a store of ours only due times."""

    def __init__(self, root: Path | None = None, files: Files | None = None) -> None:
        self._files = files or Files()
        self._changes: dict[int, int] = {}
        self._states: States | None = None
        self._levels = LevelHistory()
        if root is not None:
            self._load(root)

    def state_of(self, seq: int) -> str | None:
        """The state of an acceptance number; None if it is not known."""
        if seq in self._changes:
            return NAMES[self._changes[seq]]
        if self._states is None:
            return None
        return NAMES[self._states.one(seq)]

    def due_ms(self, record: Record) -> int | None:
        """When the delayed message in a delay topic's record is due; None for other records."""
        properties = decode_properties(record.properties)
        if REAL_TOPIC_NAME not in properties:
            return None
        if record.topic == TIMER_TOPIC.encode():
            return said_due_ms(properties) or None
        if record.topic != LEVEL_TOPIC.encode():
            return None
        return level_due_ms(record, self._levels.at(record.position))

    def _load(self, root: Path) -> None:
        checkpoint = self._load_checkpoint(root)
        if checkpoint.levels:
            first = checkpoint.levels[0][1]
            self._levels = LevelHistory(checkpoint.levels, default=first)
        delay_start = commit_start = 0
        for copy in (states_path(root), state_files.mirror_of(states_path(root))):
            try:
                self._states, meta = state_files.load(self._files, copy)
            except (OSError, BrokerError):
                continue
            delay_start, commit_start = int(meta["delay_position"]), int(meta["commit_position"])
            break
        else:
            self._states = States(0)
        for log in find_logs(root, self._files):
            self._read_tail(log, delay_start if log.is_delay_log else commit_start)

    def _load_checkpoint(self, root: Path) -> Checkpoint:
        for copy in (checkpoint_path(root), state_files.mirror_of(checkpoint_path(root))):
            try:
                return checkpoints.load(self._files, copy)
            except (OSError, BrokerError):
                continue
        return Checkpoint()

    def _read_tail(self, log: LogFiles, start: int) -> None:
        for entry in entries(log, start=start, files=self._files):
            if entry.kind != RECORD or entry.record is None:
                continue
            record = entry.record
            if control.is_control(record):
                self._apply(control.decode(record), is_delay_log=log.is_delay_log)
            elif not log.is_delay_log and record.seq is not None:
                self._changes.setdefault(record.seq, DELIVERED)

    def _apply(self, entry: Control, *, is_delay_log: bool) -> None:
        for seq in entry.numbers.tolist():
            self._changes[seq] = DELAY_LOG_STATES[entry.kind] if is_delay_log else DROPPED
