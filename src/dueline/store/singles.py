"""Indexing messages that came one by one, with lists instead of arrays.

A group of such messages is small: one, or some dozens. An array operation costs a microsecond
before it has looked at the first row, and a put made of arrays took a hundred of them. Tables of
messages are another matter (`dueline.store.bulk`).

The caller holds the locks that the store's other writers hold (`dueline.store.core`).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from dueline.store.consume_queue import pack_unit
from dueline.store.core import Core
from dueline.store.draft import Draft
from dueline.store.kernels import Int64s

__all__ = ["index", "key_rows", "queue_rows", "take_offsets"]

QueueRows = dict[int, list[int]]
"""By the queue's number: which rows it gets, in their order."""


def queue_rows(core: Core, drafts: Sequence[Draft]) -> QueueRows:
    """Which queue each message goes to; a half message goes to none."""
    rows: QueueRows = {}
    for row, draft in enumerate(drafts):
        if draft.is_indexed:
            number = core.queues.number_of(draft.log_topic, draft.log_queue_id)
            rows.setdefault(number, []).append(row)
    return rows


def take_offsets(core: Core, rows: QueueRows, count: int) -> list[int]:
    """The queue offset of each message, 0 where it has none."""
    offsets = [0] * count
    for number, of_queue in rows.items():
        first = core.queues.by_number(number).end
        for offset, row in enumerate(of_queue, first):
            offsets[row] = offset
    return offsets


def index(
    core: Core,
    rows: QueueRows,
    drafts: Sequence[Draft],
    positions: Sequence[int],
    sizes: Sequence[int],
) -> None:
    """Let the consume queues point to records that are durable, and wake their readers."""
    for number, of_queue in rows.items():
        units = [pack_unit(positions[row], sizes[row], drafts[row].tags_code) for row in of_queue]
        core.queues.append_to(number, b"".join(units))
    core.commit_keys.add(*key_rows(drafts, positions), position_end=core.commit.end)
    core.notify(list(rows))


def key_rows(drafts: Sequence[Draft], positions: Sequence[int]) -> tuple[Any, Int64s]:
    """Every hash under which a message is found, and its position."""
    hashes = [value for draft in drafts for value in draft.key_hashes]
    places = [
        place for draft, place in zip(drafts, positions, strict=False) for _ in draft.key_hashes
    ]
    return np.array(hashes, dtype=np.uint32), np.array(places, dtype=np.int64)
