"""What kernels need to write the messages of a receive, beside the messages themselves.

`message_kernels` says how they are written; here are the names of properties with a meaning, and
how much room a message takes at most.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import accumulate
from typing import Any, Final

import numpy as np

from dueline.admission import RESERVED_PROPERTIES
from dueline.broker.inflight import Held
from dueline.broker.inflight.plain_rows import (
    PLAIN_TEXT_END,
    PLAIN_TEXT_START,
    joined,
    plain_rows,
)
from dueline.schedule import DELAY_NAMES

__all__ = ["MEANING_NAMES", "MESSAGE_KERNELS", "write_table"]

MESSAGE_KERNELS: Final = "dueline.server.grpc.message_kernels"

MEANING_NAMES: Final = DELAY_NAMES | {
    "RETRY_TOPIC",
    "TIMER_OUT_MS",
    "TRACE_CONTEXT",
    "TRAN_MSG",
    "__BORNHOST",
    "__SHARDINGKEY",
}
"""Properties that change more of a message than a field of their own."""

KIND_USER: Final = 0
KIND_DROP: Final = 1
KIND_ODD: Final = 2
"""A message with it is written in another way."""
KIND_TAG: Final = 3
KIND_KEYS: Final = 4
KIND_ID: Final = 5

ENTRY_NAME, ENTRY_NAME_END, ENTRY_END, ENTRY_KIND, ENTRY_WIDTH = range(5)
"""Of a property; its value is between the ends, behind a separator."""
ENTRY_COUNT_MAX: Final = 32
GROWTH_MAX: Final = 3
"""A property of three bytes has eight as an entry of a map; others grow less."""
FIXED_SIZE_MAX: Final = 512
"""Of a message without topic, properties, receipt and body."""
_WORK_SIZE: Final = 20
_ENTRIES: Final = (ENTRY_COUNT_MAX, ENTRY_WIDTH)

_KINDS: Final = {
    **dict.fromkeys(RESERVED_PROPERTIES, KIND_DROP),
    **dict.fromkeys((*MEANING_NAMES, "DLQ_ORIGIN_TOPIC"), KIND_ODD),
    "TAGS": KIND_TAG,
    "KEYS": KIND_KEYS,
    "UNIQ_KEY": KIND_ID,
}
_names: Final = [name.encode() for name in _KINDS]
_NAMES: Final = np.frombuffer(b"".join(_names), dtype=np.uint8)
_starts: Final = [0, *accumulate(map(len, _names))]
_TABLE: Final = np.array(
    list(zip(_starts[:-1], _starts[1:], _KINDS.values(), strict=True)), dtype=np.int64
)


def write_table(
    plain_kernels: Any, kernels: Any, messages: Sequence[Held], head: bytes, invisible: bytes
) -> tuple[bytes, list[int]]:
    """The messages that are of the usual kind, one behind the other, and where each ends.

    One that is not of the usual kind is left out: it ends where the one before it does.
    """
    data, rows = plain_rows(plain_kernels, [held.data for held in messages])
    receipts, receipt_ends = joined([held.receipt.encode() for held in messages])
    attempts = np.array([held.attempt for held in messages], dtype=np.int64)
    text_size = int((rows[:, PLAIN_TEXT_END] - rows[:, PLAIN_TEXT_START]).sum())
    texts_max = GROWTH_MAX * text_size + len(receipts) + len(invisible) + FIXED_SIZE_MAX
    fixed_size = len(messages) * (len(head) + len(invisible) + FIXED_SIZE_MAX)
    out = np.empty(texts_max + len(data) + fixed_size, dtype=np.uint8)
    ends = np.empty(len(messages), dtype=np.int64)
    kernels.write_messages(
        *(data, rows, receipts, receipt_ends, attempts),
        *(np.frombuffer(head, dtype=np.uint8), np.frombuffer(invisible, dtype=np.uint8)),
        *(_NAMES, _TABLE, np.empty(texts_max, dtype=np.uint8)),
        *(np.empty(_WORK_SIZE, dtype=np.uint64), np.empty(_ENTRIES, dtype=np.int64)),
        *(out, ends),
    )
    found = ends.tolist()
    return out[: found[-1]].tobytes(), found
