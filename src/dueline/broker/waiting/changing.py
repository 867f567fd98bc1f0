"""What can be done to waiting messages, and one portion of it.

    cancel       they will not be delivered
    deliver      now: their due time becomes this moment; what is due already is left as it is
    reschedule   to one time, or each to its own
    shift        each by the same duration, earlier or later; not before now

A portion is changed in due order, so that messages which get the same due time keep their order.
Delivering now and moving are a change of the due time: the message is delivered once, by the way
that all take.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

import numpy as np
import numpy.typing as npt

from dueline.errors import InvalidRequest
from dueline.schedule import too_far
from dueline.store import Store
from dueline.store.kernels import Int64s
from dueline.store.numbers import DONE, FAILED, TOO_LATE, UNKNOWN
from dueline.store.survey import Waiting

__all__ = ["ACTIONS", "Change", "Tally", "change_numbers", "change_rows"]

ACTIONS: Final = ("cancel", "deliver", "reschedule", "shift")
CANCEL_ROWS: Final = 4_096
MOVE_ROWS: Final = 1_024
_SHIFT_MS_MAX: Final = 100 * 366 * 86_400_000

Answers = npt.NDArray[np.uint8]


@dataclass(frozen=True, slots=True, kw_only=True)
class Change:
    """What is to be done; `due_ms` is for a reschedule, `shift_ms` for a shift."""

    action: str
    due_ms: int | None = None
    shift_ms: int | None = None

    def check(self, *, now_ms: int, delay_max_ms: int) -> None:
        """Raises:
        InvalidRequest, LimitExceeded: it cannot be done.
        """
        if self.action not in ACTIONS:
            raise InvalidRequest(
                f"action: expected {', '.join(ACTIONS)}, found {self.action[:50]!r}", field="action"
            )
        for name, value, action in (
            ("due_ms", self.due_ms, "reschedule"),
            ("shift_ms", self.shift_ms, "shift"),
        ):
            if (value is None) == (self.action == action):
                raise InvalidRequest(
                    f"{name}: expected it with the action {action} and with no other, found "
                    f"{value!r} with {self.action}",
                    field=name,
                )
        if self.due_ms is not None and self.due_ms - now_ms > delay_max_ms:
            raise too_far(self.due_ms - now_ms, delay_max_ms)
        if self.shift_ms is not None and abs(self.shift_ms) > _SHIFT_MS_MAX:
            raise InvalidRequest(
                f"shift_ms: expected at most a hundred years, found {self.shift_ms} ms",
                field="shift_ms",
            )

    @property
    def portion_rows(self) -> int:
        """How many are changed at a time."""
        return CANCEL_ROWS if self.action == "cancel" else MOVE_ROWS


@dataclass(frozen=True, slots=True, kw_only=True)
class Tally:
    """How many answers of each kind there were."""

    done: int = 0
    too_late: int = 0
    unknown: int = 0
    failed: int = 0

    @staticmethod
    def of(answers: Answers) -> Tally:
        counts = np.bincount(answers, minlength=4).tolist()
        return Tally(
            done=counts[DONE],
            too_late=counts[TOO_LATE],
            unknown=counts[UNKNOWN],
            failed=counts[FAILED],
        )

    def __add__(self, other: Tally) -> Tally:
        return Tally(
            done=self.done + other.done,
            too_late=self.too_late + other.too_late,
            unknown=self.unknown + other.unknown,
            failed=self.failed + other.failed,
        )


def change_rows(store: Store, change: Change, rows: Waiting) -> Answers:
    """Change a portion of waiting rows; an answer for each.

    Raises:
        LimitExceeded: a shift beyond the longest delay; nothing was changed.
        Unavailable: the disk is full; nothing was changed.
    """
    seqs, due_ms = rows.units.seq, rows.units.due_ms
    if change.action == "cancel":
        return store.numbers.cancel(seqs)
    if change.action == "shift":
        assert change.shift_ms is not None
        return store.numbers.move(seqs, due_ms + change.shift_ms, rows)
    if change.action == "reschedule":
        assert change.due_ms is not None
        return store.numbers.move(seqs, np.full(len(seqs), change.due_ms, dtype=np.int64), rows)
    return store.numbers.move(seqs, np.minimum(due_ms, store.clock.now_ms()), rows)


def change_numbers(
    store: Store, change: Change, numbers: Int64s, due_ms: Int64s | None = None
) -> Answers:
    """Change a portion of messages by their numbers; an answer for each, in their order.

    Args:
        due_ms: a time for each, for a reschedule; in place of the one of the change.
    """
    numbers = store.numbers.newest(numbers)
    distinct, inverse = np.unique(numbers, return_inverse=True)
    if change.action == "cancel":
        return store.numbers.cancel(distinct)[inverse]
    rows = store.survey().find(distinct)
    order = rows.units.seq
    missing = np.setdiff1d(distinct, order)
    if due_ms is not None:
        firsts = np.unique(numbers, return_index=True)[1]
        wanted = due_ms[firsts][np.searchsorted(distinct, np.concatenate([order, missing]))]
        answers = store.numbers.move(np.concatenate([order, missing]), wanted, rows)
    else:
        gone = np.full(len(missing), change.due_ms or 0, dtype=np.int64)
        answers = np.concatenate(
            [change_rows(store, change, rows), store.numbers.move(missing, gone, rows)]
        )
    by_number = np.empty(len(distinct), dtype=np.uint8)
    by_number[np.searchsorted(distinct, np.concatenate([order, missing]))] = answers
    return by_number[inverse]
