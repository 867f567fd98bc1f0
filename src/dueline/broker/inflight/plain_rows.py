"""Held records as rows of numbers: the array form of `holding.Plain`, for kernels of the doors.

A row says where in the records' bytes something stands, or what it is. Records that are not of the
usual kind have a row whose body begins at -1, and zeros.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import accumulate
from typing import Any, Final

import numpy as np
import numpy.typing as npt

__all__ = ["PLAIN_KERNELS", "joined", "plain_rows"]

PLAIN_KERNELS: Final = "dueline.broker.inflight.plain_kernels"

Bytes8 = npt.NDArray[np.uint8]
Int64s = npt.NDArray[np.int64]

(
    PLAIN_QUEUE_ID,
    PLAIN_OFFSET,
    PLAIN_BORN_MS,
    PLAIN_BORN_HOST,
    PLAIN_STORE_MS,
    PLAIN_STORE_HOST,
    PLAIN_TIMES,
    PLAIN_IS_DELAYED,
    PLAIN_BODY_START,
    PLAIN_BODY_END,
    PLAIN_TEXT_START,
    PLAIN_TEXT_END,
    PLAIN_WIDTH,
) = range(13)
"""Hosts have 8 bytes; texts are the properties."""


def plain_rows(kernels: Any, records: Sequence[bytes]) -> tuple[Bytes8, Int64s]:
    """Records one behind the other, and a row for each; `kernels` are those of `PLAIN_KERNELS`."""
    data, ends = joined(records)
    rows = np.zeros((len(records), PLAIN_WIDTH), dtype=np.int64)
    kernels.read_plain(data, ends, rows)
    return data, rows


def joined(parts: Sequence[bytes]) -> tuple[Bytes8, Int64s]:
    """Parts one behind the other, and where each of them ends."""
    ends = np.array(list(accumulate(map(len, parts))), dtype=np.int64)
    return np.frombuffer(b"".join(parts), dtype=np.uint8), ends
