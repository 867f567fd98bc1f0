"""The values of in-flight state: how messages are held, a held message, an acknowledgement."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

from dueline.broker.retries import ATTEMPT_MAX
from dueline.store import Record

__all__ = ["Ack", "Held", "Holding", "Outcomes", "Taken"]

Outcomes = list[BaseException | None]
"""For each of many: None if it is done, or what went wrong."""


class Ack(NamedTuple):
    """An acknowledgement."""

    group: str
    topic: str
    receipt: str


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

    @property
    def retry_count(self) -> int:
        """How often it was tried before, with either protocol."""
        return min(self.record.reconsume_times + self.attempt - 1, ATTEMPT_MAX)


@dataclass(frozen=True, slots=True, kw_only=True)
class Taken:
    """What a call of `take` took; `dead` had their last attempt before."""

    messages: list[Held]
    dead: list[Held]
