"""Spark's filters as ranges and sets of values: what a table need not read.

`narrowed` takes the filters that Spark offers (all of them must hold) and keeps what it
understands: comparisons of a plain column with a number or a time, equality and `in`. Whatever else
there is only fails to narrow.
"""

from __future__ import annotations

import datetime
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any, Final

from pyspark.sql import datasource
from pyspark.sql.datasource import Filter

__all__ = ["Bounds", "Wanted", "narrowed"]

_START: Final = -(1 << 62)
_END: Final = 1 << 62
_EPOCH: Final = datetime.datetime(1970, 1, 1, tzinfo=datetime.UTC)


@dataclass(frozen=True, slots=True, kw_only=True)
class Bounds:
    """A half-open range of whole numbers."""

    start: int = _START
    end: int = _END

    @property
    def is_empty(self) -> bool:
        return self.start >= self.end

    @property
    def has_start(self) -> bool:
        return self.start > _START

    @property
    def has_end(self) -> bool:
        return self.end < _END

    def within(self, other: Bounds) -> Bounds:
        return Bounds(start=max(self.start, other.start), end=min(self.end, other.end))


@dataclass(frozen=True, slots=True, kw_only=True)
class Wanted:
    """What rows must have, by column."""

    ranges: dict[str, Bounds] = field(default_factory=dict)
    sets: dict[str, tuple[Any, ...]] = field(default_factory=dict)

    def bounds(self, column: str) -> Bounds:
        return self.ranges.get(column, Bounds())

    def values(self, column: str) -> tuple[Any, ...] | None:
        """The values that a column may have, or None for any."""
        return self.sets.get(column)

    def add(self, column: str, bounds: Bounds) -> None:
        self.ranges[column] = self.bounds(column).within(bounds)

    def add_set(self, column: str, values: Iterable[Any]) -> None:
        known = self.sets.get(column)
        kept = dict.fromkeys(values)
        self.sets[column] = tuple(v for v in kept if known is None or v in known)


def narrowed(given: Iterable[Filter]) -> Wanted:
    """What all of these filters together say about single columns."""
    wanted = Wanted()
    for each in given:
        attribute: tuple[str, ...] = getattr(each, "attribute", ())
        if len(attribute) != 1:
            continue
        column = attribute[0]
        value = getattr(each, "value", None)
        if isinstance(each, datasource.In):
            wanted.add_set(column, [v for v in each.value if v is not None])
        elif isinstance(each, datasource.EqualTo | datasource.EqualNullSafe) and value is not None:
            wanted.add_set(column, [value])
        if (bounds := _bounds_of(each, value)) is not None:
            wanted.add(column, bounds)
    return wanted


def _bounds_of(each: Filter, value: Any) -> Bounds | None:
    """Inclusive at both ends: Spark looks at the rows at the edge again."""
    edges = _whole(value)
    if edges is None:
        return None
    low, high = edges
    if isinstance(each, datasource.EqualTo | datasource.EqualNullSafe):
        return Bounds(start=low, end=high + 1)
    if isinstance(each, datasource.GreaterThan | datasource.GreaterThanOrEqual):
        return Bounds(start=low)
    if isinstance(each, datasource.LessThan | datasource.LessThanOrEqual):
        return Bounds(end=high + 1)
    return None


def _whole(value: Any) -> tuple[int, int] | None:
    """The whole numbers around a value: itself twice, or the milliseconds next to a time."""
    if isinstance(value, int) and not isinstance(value, bool):
        return value, value
    if isinstance(value, datetime.datetime) and value.tzinfo is not None:
        micros = (value - _EPOCH) // datetime.timedelta(microseconds=1)
        return micros // 1000, -(-micros // 1000)
    return None
