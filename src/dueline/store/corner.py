"""Corners and keys: how far a reader of the timeline has come.

A *key* is a place in due order: (due time, acceptance number). A *corner* is a key, the horizon,
and the acceptance number that came next when the corner was taken. A message is inside a corner if
its key is at or before the horizon and it was accepted before that number.
"""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass
from typing import Final

from dueline.errors import InvalidRequest

__all__ = ["CORNER_START", "SEQ_MAX", "Corner", "Key"]

SEQ_MAX: Final = (1 << 44) - 1
Key = tuple[int, int]


@dataclass(frozen=True, slots=True, kw_only=True)
class Corner:
    """Everything with (due, seq) <= (due_ms, seq) that was accepted before number `end`."""

    due_ms: int
    seq: int
    end: int

    @property
    def key(self) -> Key:
        return self.due_ms, self.seq

    def holds(self, due_ms: int, seq: int) -> bool:
        return (due_ms, seq) <= self.key and seq < self.end

    def to_json(self) -> str:
        return json.dumps(asdict(self))

    @classmethod
    def from_json(cls, text: str) -> Corner:
        """Read what `to_json` wrote.

        Raises:
            InvalidRequest: anything else.
        """
        try:
            fields = json.loads(text)
            return cls(due_ms=int(fields["due_ms"]), seq=int(fields["seq"]), end=int(fields["end"]))
        except (ValueError, KeyError, TypeError) as error:
            raise InvalidRequest(
                f"corner: expected JSON with due_ms, seq and end, found {text[:200]!r}"
            ) from error


CORNER_START: Final = Corner(due_ms=-1, seq=-1, end=0)
