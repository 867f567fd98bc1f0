"""What recovery found: a value, from which a store is opened."""

from __future__ import annotations

from dataclasses import dataclass, field

from dueline.store.checkpoint import Checkpoint
from dueline.store.due import LevelHistory
from dueline.store.scan import Damage

__all__ = ["Recovered", "Report"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Report:
    """What recovery found and did, for people."""

    delay_records: int = 0
    commit_records: int = 0
    cut_bytes: int = 0
    damage: list[tuple[str, Damage]] = field(default_factory=list)
    rebuilt: list[str] = field(default_factory=list)


@dataclass(frozen=True, slots=True, kw_only=True)
class Recovered:
    """Where a store goes on.

    Attributes:
        start: the checkpoint that the logs were read from.
        next_seq: the next acceptance number.
        index_ms: the latest store time that the checkpoint had in the consume queues.
        accepted_ms: the latest store time of a delayed message.
        floor_ms: the latest time that the store has shown to anybody or accepted a message at;
            its clock must not go back behind it.
        delay_queues: the next queue offset of each "topic/queue" of the delay log.
        delay_segments: the acceptance numbers [first, end) in each segment of the delay log.
        levels: the tables of delay levels.
    """

    report: Report
    start: Checkpoint
    next_seq: int
    index_ms: int
    accepted_ms: int
    floor_ms: int
    delay_queues: dict[str, int]
    delay_segments: dict[int, list[int]]
    levels: LevelHistory
