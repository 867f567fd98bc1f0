"""Which messages of a topic a consumer wants: by tag, or by an SQL92 condition on properties.

    TAG      `*`, or tags with `||` between them: `paid || shipped`
    SQL92    see `dueline.messaging.sql92`

A consume queue keeps the hash of each message's tag, so tags are chosen there, as arrays, before a
record is read (`accept`). Two tags may have one hash: remoting clients compare the tag themselves,
other protocols use `matches`, which looks at the properties.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import Final

import numpy as np
import numpy.typing as npt

from dueline.errors import InvalidRequest
from dueline.message import string_hash
from dueline.messaging import sql92
from dueline.store.reading import Accept

__all__ = ["EVERYTHING", "SQL92", "TAG", "Filter", "filter_of"]

TAG: Final = "TAG"
SQL92: Final = "SQL92"
EXPRESSION_SIZE_MAX: Final = 64 * 1024
_EVERY_TAG: Final = ("", "*")

Matches = Callable[[Mapping[str, str]], bool]


@dataclass(frozen=True, slots=True, kw_only=True)
class Filter:
    """What to choose by: `accept` on tags codes, `matches` on properties; None: everything."""

    accept: Accept | None = None
    matches: Matches | None = None
    needs_properties: bool = False
    """Tags codes say nothing; records have to be read and asked."""


EVERYTHING: Final = Filter()


@lru_cache(maxsize=4096)
def filter_of(expression: str, kind: str = TAG) -> Filter:
    """The filter that an expression means.

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
    if kind.upper() == SQL92:
        return Filter(matches=sql92.compile_condition(expression), needs_properties=True)
    if kind and kind.upper() != TAG:
        raise InvalidRequest(
            f"filter: expected the kind {TAG} or {SQL92}, found {kind!r:.80}", what="filter"
        )
    if expression.strip() in _EVERY_TAG:
        return EVERYTHING
    tags = frozenset(tag for each in expression.split("||") if (tag := each.strip()))
    if not tags:
        raise InvalidRequest(f"filter: expected tags, found {expression!r:.80}", what="filter")
    codes = np.array(sorted(string_hash(tag) for tag in tags), dtype=np.int64)

    def accept(found: npt.NDArray[np.int64]) -> npt.NDArray[np.bool_]:
        return np.isin(found, codes)

    return Filter(accept=accept, matches=lambda properties: properties.get("TAGS") in tags)
