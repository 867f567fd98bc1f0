"""How far the due source has come: Spark's offset.

    {"127.0.0.1:8815": {"due_ms": 1700000000000, "seq": 41, "end": 57, "turn": 3}, …}

One entry per shard: the corner up to which a window was taken. Spark compares offsets only for
equality and starts a batch when they differ. `turn` makes them differ when the same corner has to
be read again: what is not done inside a corner is read again whatever the checkpoint says, so a
checkpoint that is ahead of the store (a restored backup, say) skips nothing.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Self

from dueline.flight.protocol import WindowCorner
from dueline.flight.values import Value

__all__ = ["Offset", "ShardOffset"]


class ShardOffset(Value, frozen=True, kw_only=True):
    """A corner of one shard, and how often it was taken."""

    due_ms: int
    seq: int
    end: int
    turn: int = 0

    @property
    def corner(self) -> WindowCorner:
        return WindowCorner(due_ms=self.due_ms, seq=self.seq, end=self.end)

    def next(self, corner: WindowCorner) -> ShardOffset:
        """The offset of a window that reaches to `corner` and has rows; never equal to this one."""
        turn = self.turn + 1 if corner == self.corner else 0
        return ShardOffset(due_ms=corner.due_ms, seq=corner.seq, end=corner.end, turn=turn)


@dataclass(frozen=True, slots=True, kw_only=True)
class Offset:
    """The offsets of all shards by address; one that has not been read yet is not in it."""

    shards: dict[str, ShardOffset] = field(default_factory=dict)

    def with_shard(self, address: str, offset: ShardOffset) -> Offset:
        return Offset(shards={**self.shards, address: offset})

    def to_json(self) -> dict[str, Any]:
        return {address: offset.to_json() for address, offset in sorted(self.shards.items())}

    @classmethod
    def from_json(cls, plain: dict[str, Any]) -> Self:
        return cls(
            shards={address: ShardOffset.from_json(entry) for address, entry in plain.items()}
        )
