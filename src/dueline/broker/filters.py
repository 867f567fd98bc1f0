"""Which messages of a topic a consumer wants: by tag, or by an SQL92 condition on properties.

    TAG      `*`, or tags with `||` between them: `paid || shipped`
    SQL92    see `dueline.broker.sql92`

A consume queue keeps the hash of each message's tag, so tags are chosen there, as arrays, before a
record is read (`accept`). Two tags may have one hash: remoting clients compare the tag themselves,
other protocols use `matches`, which looks at the properties.
"""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Final

import numpy as np
import numpy.typing as npt

from dueline.broker import sql92
from dueline.errors import InvalidRequest
from dueline.message import string_hash
from dueline.store.reading import Accept

__all__ = ["EVERYTHING", "SQL92", "TAG", "Filter", "filter_of"]

TAG: Final = "TAG"
SQL92: Final = "SQL92"
EXPRESSION_SIZE_MAX: Final = 16 * 1024
CACHE_SIZE_BYTES_MAX: Final = 32 << 20
_CACHED_BYTES_PER_CHARACTER: Final = 256
"""What a parsed expression takes for each of its characters, at most."""
_CACHED_BYTES: Final = 2_048
_EVERY_TAG: Final = ("", "*")

Matches = Callable[[Mapping[str, str]], bool]


@dataclass(frozen=True, slots=True, kw_only=True)
class Filter:
    """What to choose by: `accept` on tags codes, `matches` on properties; None: everything."""

    accept: Accept | None = None
    matches: Matches | None = None
    needs_properties: bool = False
    """Tags codes say nothing; records have to be read and asked."""
    word_count: int = 0
    """What an answer of `matches` costs, more or less."""


EVERYTHING: Final = Filter()


class _Cache:
    """Filters by their expressions; those that were not asked for longest go first."""

    def __init__(self, size_bytes_max: int) -> None:
        self._size_bytes_max = size_bytes_max
        self._filters: OrderedDict[tuple[str, str], Filter] = OrderedDict()
        self._lock = threading.Lock()
        self.size_bytes = 0

    def get(self, expression: str, kind: str) -> Filter | None:
        with self._lock:
            found = self._filters.get((expression, kind))
            if found is not None:
                self._filters.move_to_end((expression, kind))
            return found

    def put(self, expression: str, kind: str, made: Filter) -> None:
        with self._lock:
            if (expression, kind) not in self._filters:
                self.size_bytes += _cached_size(expression)
            self._filters[expression, kind] = made
            while self.size_bytes > self._size_bytes_max:
                (oldest, _), _ = self._filters.popitem(last=False)
                self.size_bytes -= _cached_size(oldest)


def _cached_size(expression: str) -> int:
    return _CACHED_BYTES + _CACHED_BYTES_PER_CHARACTER * len(expression)


_cache: Final = _Cache(CACHE_SIZE_BYTES_MAX)


def filter_of(expression: str, kind: str = TAG) -> Filter:
    """The filter that an expression means; usual ones are parsed once.

    Raises:
        InvalidRequest: an expression that cannot be read, or a kind that does not exist.

    >>> filter_of("paid || shipped").matches({"TAGS": "shipped"})
    True
    """
    if len(expression) > EXPRESSION_SIZE_MAX:
        raise InvalidRequest(
            f"filter: expected at most {EXPRESSION_SIZE_MAX} characters, found {len(expression)}",
            what="filter",
        )
    if kind.upper() not in ("", TAG, SQL92):
        raise InvalidRequest(
            f"filter: expected the kind {TAG} or {SQL92}, found {kind!r:.80}", what="filter"
        )
    found = _cache.get(expression, kind)
    if found is None:
        found = _condition(expression) if kind.upper() == SQL92 else _tags(expression)
        _cache.put(expression, kind, found)
    return found


def _condition(expression: str) -> Filter:
    made = sql92.compile_condition(expression)
    return Filter(matches=made.matches, needs_properties=True, word_count=made.word_count)


def _tags(expression: str) -> Filter:
    if expression.strip() in _EVERY_TAG:
        return EVERYTHING
    tags = frozenset(tag for each in expression.split("||") if (tag := each.strip()))
    if not tags:
        raise InvalidRequest(f"filter: expected tags, found {expression!r:.80}", what="filter")
    codes = np.array(sorted(string_hash(tag) for tag in tags), dtype=np.int64)

    def accept(found: npt.NDArray[np.int64]) -> npt.NDArray[np.bool_]:
        return np.isin(found, codes)

    return Filter(accept=accept, matches=lambda properties: properties.get("TAGS") in tags)
