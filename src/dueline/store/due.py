"""When a delayed message in the delay log is due: from its record alone.

    TIMER_OUT_MS   the due time, to the millisecond
    DELAY          a level: the due time is the store time and that level's delay, by the table of
                   levels that was in force when the record was written (`LevelHistory`)

The promise itself is made by `dueline.schedule`, when a message is accepted, and put into the
record so that this is what comes out again. How RocketMQ reads its own records is in
`dueline.store.rocketmq`.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from functools import lru_cache
from typing import Any

import numpy as np
import pyarrow as pa

from dueline.message import DUE_MS_MAX, LEVEL_MAX, whole_number
from dueline.schedule import DEFAULT_LEVELS, DUE_NAME, LEVEL_NAME, DelayLevels
from dueline.store import properties
from dueline.store.kernels import Int64s

__all__ = ["LevelHistory", "due_ms", "row_due_ms", "said_due_ms"]

_parse = lru_cache(maxsize=64)(DelayLevels.parse)


class LevelHistory:
    """Which table of levels was in force from which position of the delay log on.

    >>> history = LevelHistory([(0, "1s 5s")])
    >>> history.note(700, "1m")
    >>> str(history.at(699)), str(history.at(700))
    ('1s 5s', '1m')
    """

    def __init__(
        self, entries: Iterable[Iterable[Any]] = (), *, default: str = DEFAULT_LEVELS
    ) -> None:
        """`default`: the table before the first entry."""
        self._default = default
        self._entries = [(int(position), str(text)) for position, text in entries]

    def __len__(self) -> int:
        return len(self._entries)

    def note(self, position: int, text: str) -> None:
        """This table is in force from `position` on, if another was before."""
        if not self._entries or self._entries[-1][1] != text:
            self._entries.append((position, text))

    def at(self, position: int) -> DelayLevels:
        """The table for the record at a position."""
        found = self._default
        for start, text in self._entries:
            if start > position:
                break
            found = text
        return _parse(found)

    def entries(self) -> list[list[Any]]:
        """As a checkpoint keeps it."""
        return [[position, text] for position, text in self._entries]


def due_ms(properties: Mapping[str, str], store_ms: int, levels: DelayLevels) -> int:
    """When the delayed message with these properties is due, by the table of its time."""
    return _due_ms(properties.get(DUE_NAME), properties.get(LEVEL_NAME), store_ms, levels)


def said_due_ms(properties: Mapping[str, str]) -> int | None:
    """The due time that a record names to the millisecond; None if it names a level, or none."""
    text = properties.get(DUE_NAME)
    return None if text is None else whole_number(text, 0, number_max=DUE_MS_MAX)


def row_due_ms(
    texts: pa.BinaryArray, positions: Int64s, store_ms: Int64s, history: LevelHistory
) -> Int64s:
    """As `due_ms`, for each record of the delay log by its properties as they are stored."""
    rows = zip(
        properties.values(texts, DUE_NAME).to_pylist(),
        properties.values(texts, LEVEL_NAME).to_pylist(),
        store_ms.tolist(),
        positions.tolist(),
        strict=True,
    )
    found = [
        _due_ms(said, level, stored_ms, history.at(position))
        for said, level, stored_ms, position in rows
    ]
    return np.array(found, dtype=np.int64)


def _due_ms(
    said: bytes | str | None, level: bytes | str | None, store_ms: int, levels: DelayLevels
) -> int:
    if said is not None:
        return whole_number(said, 0, number_max=DUE_MS_MAX)
    number = whole_number(level, 1, number_max=LEVEL_MAX)
    return store_ms + levels.delay_ms(max(number, 1))
