"""Who has signed the sends of a turn: of many of them at once, by kernels.

    turn ──▶ cases_of: who sends where, and from where ──▶ may they, and with which keys?
                                                            │
             checked: HMAC with SHA-1 of all sends ◀────────┘

A case is what many sends have in common. Whether it may be is not asked here. Contents of more than
`SIZE_MAX` bytes are left to `hashlib`, and so are a few long ones, for which it is as good.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import accumulate
from typing import Any, Final, NamedTuple

import numpy as np
import numpy.typing as npt

from dueline.wire.turn import Turn

__all__ = ["SIGNATURE_KERNELS", "Case", "KeyTable", "cases_of", "checked"]

SIGNATURE_KERNELS: Final = "dueline.wire.signature_kernels"

Int64s = npt.NDArray[np.int64]
Bytes8 = npt.NDArray[np.uint8]

SIZE_MAX: Final = (64 << 10) - 9
PADS_SIZE_BYTES: Final = 128
CASE_COUNT_MAX: Final = 256
"""In one turn; sends of more are nobody's."""

CASE_NAME_START, CASE_NAME_END, CASE_SOURCE, CASE_TOPIC, CASE_WIDTH = range(5)
NOT_SIGNED, IS_SIGNED, NOT_ASKED = range(3)


class KeyTable(NamedTuple):
    """The keys of each case: which of all pads they are, in which HMAC begins its two hashes."""

    starts: Int64s
    counts: Int64s
    pads: Bytes8

    @classmethod
    def of(cls, pads: Sequence[Sequence[bytes]]) -> KeyTable:
        """Of each case's keys, the two blocks together."""
        counts = [len(those) for those in pads]
        joined = b"".join([pad for those in pads for pad in those])
        return cls(
            np.array([0, *accumulate(counts[:-1])], dtype=np.int64),
            np.array(counts, dtype=np.int64),
            np.frombuffer(joined, dtype=np.uint8),
        )


class Case(NamedTuple):
    """The name that sends are signed with, and the numbers of where they come from and go to."""

    user: str
    source: int
    topic: int


def cases_of(
    kernels: Any, turn: Turn, sources: Sequence[int], topics: Sequence[int], body_size_max: int
) -> tuple[list[Case], Int64s]:
    """The cases of signed sends, and for each frame which of them; below 0: none.

    Args:
        kernels: those of `SIGNATURE_KERNELS`.
        sources: by connection, a number; topics: by head, a number, below 0 if nobody may.
        body_size_max: a send with more is nobody's.
    """
    cases = np.empty((CASE_COUNT_MAX, CASE_WIDTH), dtype=np.int64)
    case_of = np.empty(len(turn.frames), dtype=np.int64)
    count = kernels.find_cases(
        *(turn.texts, turn.frames, np.array(sources, dtype=np.int64)),
        *(np.array(topics, dtype=np.int64), body_size_max, cases, case_of),
    )
    found = [
        Case(turn.texts[start:end].tobytes().decode("ascii"), source, topic)
        for start, end, source, topic in cases[:count].tolist()
    ]
    return found, case_of


def checked(kernels: Any, turn: Turn, case_of: Int64s, keys: KeyTable) -> tuple[Bytes8, int]:
    """By frame: is it signed with a key of its case? `NOT_ASKED`: the caller has to look itself,
    at so many."""
    found = np.empty(len(turn.frames), dtype=np.uint8)
    left_count = kernels.check_signatures(turn.data, turn.texts, turn.frames, case_of, *keys, found)
    return found, left_count
