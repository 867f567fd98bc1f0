"""The answers to the sends of a turn, made at once.

What a kernel needs beside the rows themselves (`dueline.message_rows`), and how much room their
frames take at most.
"""

from __future__ import annotations

from functools import lru_cache
from itertools import accumulate, pairwise
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from dueline.message_rows import ROW_HEAD, ROW_ID_END, ROW_ID_START, Head, MessageRows

__all__ = ["ANSWER_KERNELS", "encode_answers"]

ANSWER_KERNELS: Final = "dueline.wire.answer_kernels"

Int64s = npt.NDArray[np.int64]

(
    ANSWER_OPAQUE,
    ANSWER_FIRST_ROW,
    ANSWER_ROW_COUNT,
    ANSWER_QUEUE_ID,
    ANSWER_TOPIC_START,
    ANSWER_TOPIC_END,
    ANSWER_WIDTH,
) = range(7)

_FRAME_SIZE_MAX: Final = 640
"""Of an answer without its unique id, handle and the ids of further messages."""
_HANDLE_SIZE_MAX: Final = 160
"""Of a handle's text without unique id and broker."""
_MESSAGE_ID_SIZE: Final = 57


def encode_answers(  # noqa: PLR0913 - columns of one turn
    kernels: Any,
    messages: MessageRows,
    answers: Int64s,
    *,
    positions: Int64s,
    offsets: Int64s,
    dues: Int64s,
    store_host: bytes,
    broker_name: str,
) -> tuple[bytes, Int64s]:
    """The frames of these answers, one after the other, and where each of them ends.

    Args:
        answers: a row of `ANSWER_WIDTH` numbers each; what the heads say is filled in here.
        dues: of each message; 0: it is not delayed.
    """
    rows = messages.rows
    table, topics = _head_table(tuple(messages.heads))
    answers[:, ANSWER_QUEUE_ID:] = table[rows[answers[:, ANSWER_FIRST_ROW], ROW_HEAD]]
    broker = broker_name.encode()
    id_sizes = rows[:, ROW_ID_END] - rows[:, ROW_ID_START]
    longest = int(id_sizes.max()) + len(broker) + _HANDLE_SIZE_MAX
    size_max = len(answers) * (_FRAME_SIZE_MAX + 4 * longest) + len(rows) * _MESSAGE_ID_SIZE
    out = np.empty(size_max, dtype=np.uint8)
    answer_ends = np.empty(len(answers), dtype=np.int64)
    size = kernels.write_answers(
        *(messages.texts, rows, answers, topics),
        *(np.frombuffer(broker, dtype=np.uint8), np.frombuffer(store_host, dtype=np.uint8)),
        *(positions, offsets, dues, np.empty(longest, dtype=np.uint8), out, answer_ends),
    )
    return out[:size].tobytes(), answer_ends


@lru_cache(maxsize=64)  # most turns have the heads of the one before
def _head_table(heads: tuple[Head, ...]) -> tuple[Int64s, npt.NDArray[np.uint8]]:
    """Queue ids, where topics start and end, and the topics. Nobody writes to them."""
    topics = [head.topic.encode() for head in heads]
    ends = [0, *accumulate(map(len, topics))]
    table = [(head.queue_id, *span) for head, span in zip(heads, pairwise(ends), strict=True)]
    return np.array(table, dtype=np.int64), np.frombuffer(b"".join(topics), dtype=np.uint8)
