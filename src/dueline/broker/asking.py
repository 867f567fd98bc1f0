"""Asking producers about half messages that they left undecided: when, whom and how often.

    turn, each second ──▶ what is due ──▶ producers of any door ──▶ ask one of them, in turn
                              │                └─ none: look again soon
                              └─ asked too often, or undecided for too long: given up

A half message of a 4.x producer is asked for by its group; one of a 5.x producer, which has no
group, by its topic. A door says whom it can reach (`add_door`) and how a question gets there; it
knows nothing of the schedule, which `TransactionOptions` has. A producer that is asked decides
with the same verb as the sender would, `Transactions.end`.

`turn` reads the store, so it is called by a thread of its own (`dueline.server.asker`).
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace

from dueline.broker.transactions import Half, Transactions
from dueline.errors import NotFound
from dueline.message import decode_properties, message_id, real_queue_id
from dueline.store import Record

__all__ = ["Ask", "Asking", "Producers", "Question"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Question:
    """What becomes of this message? It is shown as its producer knows it."""

    record: Record
    """The half message with its real topic and queue, at its own place."""
    properties: dict[str, str]
    topic: str
    offset_id: str

    @property
    def unique_id(self) -> str:
        return self.properties.get("UNIQ_KEY", "")


Ask = Callable[[Question], None]
"""Passes a question to one producer; never blocks, and may come too late for it."""

Producers = Callable[[Half], Iterable[Ask]]
"""Ways to the producers that may be asked about a half message; called from any thread."""


class Asking:
    """The questions of one broker."""

    def __init__(self, transactions: Transactions) -> None:
        self._transactions = transactions
        self._doors: list[Producers] = []
        self._turns = itertools.count()

    def add_door(self, producers: Producers) -> None:
        """Producers can be reached this way too."""
        self._doors.append(producers)

    def turn(self, now_ms: int) -> None:
        """Ask for what is due.

        Raises:
            BrokerError: the rest is asked for in the next turn.
        """
        for half in self._transactions.due(now_ms):
            self._ask(half, now_ms)

    def _ask(self, half: Half, now_ms: int) -> None:
        ways = [way for producers in self._doors for way in producers(half)]
        if self._transactions.asked(half, now_ms, is_heard=bool(ways)) or not ways:
            return
        try:
            question = self.question(half)
        except NotFound:  # retention has taken it
            return
        ways[next(self._turns) % len(ways)](question)

    def question(self, half: Half) -> Question:
        """The question about a half message.

        Raises:
            NotFound: retention has taken it.
        """
        record = self._transactions.record(half.position)
        properties = decode_properties(record.properties)
        shown = replace(
            record,
            topic=half.topic.encode(),
            queue_id=real_queue_id(properties.get("REAL_QID")),
            mark=0,
        )
        return Question(
            record=shown,
            properties=properties,
            topic=half.topic,
            offset_id=message_id(record.store_host, half.position),
        )
