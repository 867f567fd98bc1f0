"""Which of the waiting messages are meant: a few fields that must all hold, or a condition as text.

`plan` says what of a filter the timeline answers by itself (topics, due times, an exact key) and
what must be asked of the rows, and of their records.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Final

from dueline.broker.waiting.conditions import All, Begins, Compare, Condition, Contains, IsIn
from dueline.broker.waiting.where import parse_where
from dueline.errors import InvalidRequest

__all__ = ["FilterPlan", "PendingFilter"]

TEXT_SIZE_MAX: Final = 4_096
TIME_MS_MAX: Final = 1 << 43


@dataclass(frozen=True, slots=True, kw_only=True)
class PendingFilter:
    """What must hold of a message; what is None holds of all.

    Attributes:
        key, key_prefix: one of its keys, as a whole or its beginning.
        property_name, property_value: a property of this name with this value.
        due_start_ms, due_end_ms: due times [start, end).
        text: is somewhere in the body.
        where: a condition as text, see `where.py`.
    """

    topic: str | None = None
    key: str | None = None
    key_prefix: str | None = None
    tag: str | None = None
    property_name: str | None = None
    property_value: str | None = None
    due_start_ms: int | None = None
    due_end_ms: int | None = None
    text: str | None = None
    where: str | None = None

    def plan(self) -> FilterPlan:
        """How to find what it means.

        Raises:
            InvalidRequest: it makes no sense.
        """
        self._check()
        start_ms, end_ms = 0, TIME_MS_MAX
        topics: frozenset[str] | None = None
        key: str | None = None
        rest: list[Condition] = []
        for part in self._conditions():
            if isinstance(part, Compare) and part.column == "due" and part.sign != "<>":
                low, high = _times(part)
                start_ms, end_ms = max(start_ms, low), min(end_ms, high)
                continue
            wanted = _topics(part)
            if wanted is not None:
                topics = wanted if topics is None else topics & wanted
                continue
            if isinstance(part, Compare) and part.column == "key" and part.sign == "=":
                key = str(part.value)
            rest.append(part)
        return FilterPlan(start_ms=start_ms, end_ms=end_ms, topics=topics, key=key, rest=rest)

    def _check(self) -> None:
        for name in (
            "topic",
            "key",
            "key_prefix",
            "tag",
            "property_name",
            "property_value",
            "text",
        ):
            value = getattr(self, name)
            if value is not None and not 0 < len(value) <= TEXT_SIZE_MAX:
                raise InvalidRequest(
                    f"{name}: expected 1 to {TEXT_SIZE_MAX} characters, found {len(value)}",
                    field=name,
                )
        if (self.property_name is None) != (self.property_value is None):
            raise InvalidRequest(
                "property: expected a name and a value, found one of them", field="property_name"
            )
        for name in ("due_start_ms", "due_end_ms"):
            time_ms = getattr(self, name)
            if time_ms is not None and not 0 <= time_ms < TIME_MS_MAX:
                raise InvalidRequest(
                    f"{name}: expected milliseconds since 1970, found {time_ms}", field=name
                )

    def _conditions(self) -> Iterator[Condition]:
        """All that must hold, one by one."""
        for column in ("topic", "key", "tag"):
            if (value := getattr(self, column)) is not None:
                yield Compare(column=column, sign="=", value=value)
        if self.key_prefix is not None:
            yield Begins(column="key", text=self.key_prefix)
        if self.property_name is not None and self.property_value is not None:
            yield Compare(
                column="property", detail=self.property_name, sign="=", value=self.property_value
            )
        if self.due_start_ms is not None:
            yield Compare(column="due", sign=">=", value=self.due_start_ms)
        if self.due_end_ms is not None:
            yield Compare(column="due", sign="<", value=self.due_end_ms)
        if self.text is not None:
            yield Contains(column="body", text=self.text)
        if self.where is not None and self.where.strip():
            yield from _flat(parse_where(self.where))


@dataclass(frozen=True, slots=True, kw_only=True)
class FilterPlan:
    """Due times [start_ms, end_ms), topics (None: all), a key that an index knows, and the rest."""

    start_ms: int
    end_ms: int
    topics: frozenset[str] | None
    key: str | None
    rest: list[Condition] = field(default_factory=list)

    @property
    def of_units(self) -> Condition:
        """What can be asked before any record is read."""
        return All(parts=tuple(part for part in self.rest if not part.needs_records))

    @property
    def of_records(self) -> Condition | None:
        """What the records must be read for; None: nothing."""
        parts = tuple(part for part in self.rest if part.needs_records)
        return All(parts=parts) if parts else None


def _flat(condition: Condition) -> Iterator[Condition]:
    if isinstance(condition, All):
        for part in condition.parts:
            yield from _flat(part)
    else:
        yield condition


def _times(part: Compare) -> tuple[int, int]:
    value = min(max(int(part.value), -1), TIME_MS_MAX)
    return {
        "=": (value, value + 1),
        "<": (0, value),
        "<=": (0, value + 1),
        ">": (value + 1, TIME_MS_MAX),
        ">=": (value, TIME_MS_MAX),
    }[part.sign]


def _topics(part: Condition) -> frozenset[str] | None:
    if isinstance(part, Compare) and part.column == "topic" and part.sign == "=":
        return frozenset([str(part.value)])
    if isinstance(part, IsIn) and part.column == "topic":
        return frozenset(map(str, part.values))
    return None
