"""The values of in-flight state: how messages are held, a held message, what one look took."""

from __future__ import annotations

from dataclasses import dataclass

from dueline.store import Record

__all__ = ["Held", "Holding", "Taken"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Holding:
    """How a received message is held."""

    invisible_ms: int
    owner: str = ""
    renew: bool = False
    attempt_max: int = 17


@dataclass(frozen=True, slots=True, kw_only=True)
class Held:
    """A message that is held now."""

    record: Record
    properties: dict[str, str]
    receipt: str
    attempt: int
    visible_ms: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Taken:
    """What a call of `take` took; `dead` had their last attempt before."""

    messages: list[Held]
    dead: list[Held]
