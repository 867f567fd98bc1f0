"""Conditions on waiting messages: a tree, and who of many rows meets it.

A row whose value is not there (no key, no such property) is not met by any comparison and, as in
SQL, by none under NOT either; `is null` asks for such. A comparison of `key` is met if any word of
a message's keys meets it.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from dueline.broker.waiting.columns import RECORD_COLUMNS, Columns

__all__ = [
    "All",
    "Begins",
    "Compare",
    "Condition",
    "Contains",
    "Either",
    "IsIn",
    "IsNull",
    "Like",
    "Not",
]

_COMPARISONS: Final = {
    "=": pc.equal,
    "<>": pc.not_equal,
    "<": pc.less,
    "<=": pc.less_equal,
    ">": pc.greater,
    ">=": pc.greater_equal,
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Condition:
    """What a row must meet."""

    def meets(self, columns: Columns) -> pa.BooleanArray:
        """For each row whether it meets this; null: that cannot be said."""
        raise NotImplementedError

    def columns(self) -> Iterator[str]:
        """The columns that it asks for."""
        raise NotImplementedError

    @property
    def needs_records(self) -> bool:
        return not RECORD_COLUMNS.isdisjoint(self.columns())


@dataclass(frozen=True, slots=True, kw_only=True)
class _OfColumn(Condition):
    column: str
    detail: str = ""

    def columns(self) -> Iterator[str]:
        yield self.column

    def meets(self, columns: Columns) -> pa.BooleanArray:
        if self.column != "key":
            return self._of(columns.get(self.column, self.detail))
        words, owners = columns.key_words()
        met = pc.fill_null(self._of(words), False).to_numpy(zero_copy_only=False)
        found = np.zeros(len(columns), dtype=np.bool_)
        found[owners[met]] = True
        has_key = columns.get("key").is_valid()
        return pc.if_else(has_key, pa.array(found), pa.scalar(None, pa.bool_()))

    def _of(self, values: pa.Array) -> pa.BooleanArray:
        raise NotImplementedError


@dataclass(frozen=True, slots=True, kw_only=True)
class Compare(_OfColumn):
    """`sign` is one of = <> < <= > >=."""

    sign: str
    value: str | int

    def _of(self, values: pa.Array) -> pa.BooleanArray:
        return _COMPARISONS[self.sign](values, pa.scalar(self.value, values.type))


@dataclass(frozen=True, slots=True, kw_only=True)
class IsIn(_OfColumn):
    values: tuple[str | int, ...]

    def _of(self, values: pa.Array) -> pa.BooleanArray:
        found = pc.is_in(values, pa.array(list(self.values), values.type))
        return pc.if_else(values.is_valid(), found, pa.scalar(None, pa.bool_()))


@dataclass(frozen=True, slots=True, kw_only=True)
class Like(_OfColumn):
    """SQL's pattern: % is any text, _ any character; a backslash before one means itself."""

    pattern: str

    def _of(self, values: pa.Array) -> pa.BooleanArray:
        return pc.match_like(values, self.pattern)


@dataclass(frozen=True, slots=True, kw_only=True)
class Begins(_OfColumn):
    text: str

    def _of(self, values: pa.Array) -> pa.BooleanArray:
        return pc.starts_with(values, self.text)


@dataclass(frozen=True, slots=True, kw_only=True)
class Contains(_OfColumn):
    text: str

    def _of(self, values: pa.Array) -> pa.BooleanArray:
        return pc.match_substring(values, self.text)


@dataclass(frozen=True, slots=True, kw_only=True)
class IsNull(Condition):
    column: str
    detail: str = ""

    def columns(self) -> Iterator[str]:
        yield self.column

    def meets(self, columns: Columns) -> pa.BooleanArray:
        return columns.get(self.column, self.detail).is_null()


@dataclass(frozen=True, slots=True, kw_only=True)
class Not(Condition):
    part: Condition

    def columns(self) -> Iterator[str]:
        return self.part.columns()

    def meets(self, columns: Columns) -> pa.BooleanArray:
        return pc.invert(self.part.meets(columns))


@dataclass(frozen=True, slots=True, kw_only=True)
class _OfParts(Condition):
    parts: tuple[Condition, ...] = ()

    def columns(self) -> Iterator[str]:
        for part in self.parts:
            yield from part.columns()


@dataclass(frozen=True, slots=True, kw_only=True)
class All(_OfParts):
    """All of the parts; of none: every row."""

    def meets(self, columns: Columns) -> pa.BooleanArray:
        met: Any = pa.array(np.ones(len(columns), dtype=np.bool_))
        for part in self.parts:
            met = pc.and_kleene(met, part.meets(columns))
        return met


@dataclass(frozen=True, slots=True, kw_only=True)
class Either(_OfParts):
    """At least one of the parts."""

    def meets(self, columns: Columns) -> pa.BooleanArray:
        met: Any = pa.array(np.zeros(len(columns), dtype=np.bool_))
        for part in self.parts:
            met = pc.or_kleene(met, part.meets(columns))
        return met
