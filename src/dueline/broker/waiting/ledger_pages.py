"""The ledger a page at a time, filtered: what waits, then what ended, then what was delivered.

A cursor is a place in that order, so that nothing comes twice, whatever happens meanwhile:

    ["waiting", due_ms, number]          behind this key, in due order
    ["ended", number]                    behind this number, in order of acceptance
    ["delivered", topic, queue, offset]  from this offset on, topic by topic

One call looks at about `LOOK_COUNT_MAX` rows; so a page may be shorter than its limit though more
follows. Any thread may call.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any, Final

import pyarrow as pa
import pyarrow.compute as pc

from dueline.broker.waiting.cursors import foreign, packed, unpacked
from dueline.broker.waiting.ledger import delivered_rows, ended_rows, waiting_rows
from dueline.errors import InvalidRequest
from dueline.outcomes import ENDED, OUTCOMES, WAITING
from dueline.store import Store

__all__ = ["LedgerFilter", "LedgerPage", "ledger_page"]

LOOK_COUNT_MAX: Final = 50_000
PAGE_ROWS_MAX: Final = 1_000
_SLAB_ROWS: Final = 4_096

Place = tuple[Any, ...]
_START: Final[Place] = ("waiting", -1, -1)


@dataclass(frozen=True, slots=True, kw_only=True)
class LedgerFilter:
    """All of what is given must hold; `late_ms`: at least so late, as only delivered ones are."""

    topic: str | None = None
    outcome: str | None = None
    late_ms: int | None = None

    def check(self) -> None:
        """Raises:
        InvalidRequest: no row could be meant.
        """
        if self.outcome is not None and self.outcome not in OUTCOMES:
            raise InvalidRequest(
                f"outcome: expected one of {', '.join(OUTCOMES)}, found {self.outcome[:50]!r}",
                field="outcome",
            )
        if self.late_ms is not None and not 0 <= self.late_ms < 1 << 53:
            raise InvalidRequest(
                f"late_ms: expected 0 or more, found {self.late_ms}", field="late_ms"
            )

    def may_have(self, *outcomes: str) -> bool:
        """Can rows of these outcomes match?"""
        if self.late_ms is not None and "delivered" not in outcomes:
            return False
        return self.outcome is None or self.outcome in outcomes

    def met(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        """The rows that match."""
        for name, value in (("topic", self.topic), ("outcome", self.outcome)):
            if value is not None:
                batch = batch.filter(pc.equal(batch.column(name), value))
        if self.late_ms is not None:
            batch = batch.filter(pc.greater_equal(batch.column("late_ms"), self.late_ms))
        return batch


@dataclass(frozen=True, slots=True, kw_only=True)
class LedgerPage:
    """Rows of the ledger; `cursor` is where the next page begins, None at the end."""

    rows: list[dict[str, Any]]
    cursor: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class _Step:
    """Rows, how many were looked at for them, and the place behind them."""

    batch: pa.RecordBatch
    looked_count: int
    end: Place


def ledger_page(
    store: Store, wanted: LedgerFilter, *, limit: int, cursor: str | None = None
) -> LedgerPage:
    """The next rows that match.

    Raises:
        InvalidRequest: a filter, cursor or limit that makes no sense.
    """
    wanted.check()
    if not 1 <= limit <= PAGE_ROWS_MAX:
        raise InvalidRequest(f"limit: expected 1 to {PAGE_ROWS_MAX}, found {limit}", field="limit")
    found: list[dict[str, Any]] = []
    looked = 0
    for step in _steps(store, wanted, _START if cursor is None else _decode(cursor)):
        rows = wanted.met(step.batch).slice(0, limit - len(found)).to_pylist()
        found += rows
        looked += step.looked_count
        if len(found) == limit:
            return LedgerPage(rows=found, cursor=packed(json.dumps(_behind(found[-1]))))
        if looked >= LOOK_COUNT_MAX:
            return LedgerPage(rows=found, cursor=packed(json.dumps(step.end)))
    return LedgerPage(rows=found, cursor=None)


def _steps(store: Store, wanted: LedgerFilter, place: Place) -> Iterator[_Step]:
    parts = list(_PARTS)
    for part in parts[parts.index(place[0]) :]:
        outcomes, steps, start = _PARTS[part]
        if wanted.may_have(*outcomes):
            yield from steps(store, wanted, place if part == place[0] else start)


def _waiting(store: Store, wanted: LedgerFilter, place: Place) -> Iterator[_Step]:
    _, due_ms, number = place
    for batch, edge, count in waiting_rows(
        store, (due_ms, number), topic=wanted.topic, step=_SLAB_ROWS
    ):
        yield _Step(batch=batch, looked_count=count, end=("waiting", *edge))


def _ended(store: Store, wanted: LedgerFilter, place: Place) -> Iterator[_Step]:
    for batch in ended_rows(store, place[1]):
        end = ("ended", batch.column("number")[-1].as_py())
        yield _Step(batch=batch, looked_count=len(batch), end=end)


def _delivered(store: Store, wanted: LedgerFilter, place: Place) -> Iterator[_Step]:
    _, first_topic, first_queue, first_offset = place
    for topic, queue_id in sorted(store.queues()):
        if (topic, queue_id) < (first_topic, first_queue) or wanted.topic not in (None, topic):
            continue
        is_first = (topic, queue_id) == (first_topic, first_queue)
        offset = first_offset if is_first else 0
        for batch, start, end in delivered_rows(store, topic, queue_id, offset):
            place = ("delivered", topic, queue_id, end)
            yield _Step(batch=batch, looked_count=end - start, end=place)


_PARTS: Final[dict[str, tuple[tuple[str, ...], Callable[..., Iterator[_Step]], Place]]] = {
    "waiting": (WAITING, _waiting, _START),
    "ended": (ENDED, _ended, ("ended", -1)),
    "delivered": (("delivered",), _delivered, ("delivered", "", 0, 0)),
}
"""The parts of the ledger in their order: which outcomes they have, and how they are walked."""


def _behind(row: dict[str, Any]) -> Place:
    """The place behind a row."""
    if row["outcome"] in WAITING:
        return ("waiting", row["due_ms"], row["number"])
    if row["outcome"] in ENDED:
        return ("ended", row["number"])
    return ("delivered", row["topic"], row["queue_id"], row["queue_offset"] + 1)


_SHAPES: Final = {
    "waiting": (str, int, int),
    "ended": (str, int),
    "delivered": (str, str, int, int),
}


def _decode(text: str) -> Place:
    """The place of a cursor.

    Raises:
        InvalidRequest: it is none that this broker has given out.
    """
    try:
        found = json.loads(unpacked(text))
    except (ValueError, RecursionError):
        raise foreign(text) from None
    if isinstance(found, list) and found and isinstance(found[0], str):
        numbers = [each for each in found if isinstance(each, int)]
        is_shaped = tuple(map(type, found)) == _SHAPES.get(found[0])
        if is_shaped and all(-1 <= each < 1 << 62 for each in numbers):
            return tuple(found)
    raise foreign(text)
