"""Answers to sends, many at once, compiled; the plain twins are `dueline.wire.send_answer`,
`SendResponse` and the broker's recall handles.

One buffer holds all answers of a turn, one after the other in the order of their requests, so that
those of one connection are one slice of it.
"""

from __future__ import annotations

from typing import Any, Final

import numpy as np
import numpy.typing as npt

from dueline.byte_kernels import put_bytes
from dueline.compiled import BYTES, kernel
from dueline.message import DELAY_LOG_MARK
from dueline.message_rows import ROW_ID_END, ROW_ID_START
from dueline.wire.send_answer import HEAD, LAST, MESSAGE_END, REST
from dueline.wire.turn_answers import (
    ANSWER_FIRST_ROW,
    ANSWER_OPAQUE,
    ANSWER_QUEUE_ID,
    ANSWER_ROW_COUNT,
    ANSWER_TOPIC_END,
    ANSWER_TOPIC_START,
)

__all__ = ["write_answers"]

Bytes8 = npt.NDArray[np.uint8]
Int64s = npt.NDArray[np.int64]


def _array(text: str) -> Bytes8:
    return np.frombuffer(text.encode(), dtype=np.uint8)


_HEAD: Final = _array(HEAD)
_QUEUE: Final = _array(MESSAGE_END)
_OFFSET: Final = _array('","queueOffset":"')
_ID: Final = _array('","transactionId":"')
_RECALL: Final = _array(',"recallHandle":"')
_REST: Final = _array(f",{REST}")
_END: Final = _array(LAST)
_VERSION: Final = _array("v1 ")
_HEX: Final = _array("0123456789ABCDEF")
_BASE64: Final = _array("ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_")
_QUOTE: Final = 0x22
_BLANK: Final = 0x20


@kernel("int64(uint8[::1], int64, int64)")
def _put_number(out: Bytes8, at: int, value: int) -> int:
    if value < 0:
        out[at] = 0x2D
        at += 1
        value = -value
    end = at + 1
    rest = value
    while rest >= 10:
        rest //= 10
        end += 1
    place = end
    while place > at:
        place -= 1
        out[place] = 0x30 + value % 10
        value //= 10
    return end


@kernel(f"int64(uint8[::1], int64, {BYTES}, int64)")
def _put_message_id(out: Bytes8, at: int, host: Bytes8, position: int) -> int:
    for place in range(len(host)):
        out[at] = _HEX[host[place] >> 4]
        out[at + 1] = _HEX[host[place] & 15]
        at += 2
    for place in range(16):
        out[at + place] = _HEX[position >> 4 * (15 - place) & 15]
    return at + 16


@kernel("int64(uint8[::1], int64, uint8[::1], int64)")
def _put_base64(out: Bytes8, at: int, data: Bytes8, size: int) -> int:
    for start in range(0, size, 3):
        left = size - start
        word = np.int64(data[start]) << 16
        if left > 1:
            word |= np.int64(data[start + 1]) << 8
        if left > 2:
            word |= np.int64(data[start + 2])
        out[at] = _BASE64[word >> 18 & 63]
        out[at + 1] = _BASE64[word >> 12 & 63]
        out[at + 2] = _BASE64[word >> 6 & 63] if left > 1 else 0x3D
        out[at + 3] = _BASE64[word & 63] if left > 2 else 0x3D
        at += 4
    return at


@kernel(
    f"int64(uint8[::1], int64, {BYTES}, int64, int64, {BYTES}, int64, {BYTES}, int64, int64,"
    "uint8[::1])"
)
def _put_handle(
    out: Bytes8,
    at: int,
    topics: Bytes8,
    topic_start: int,
    topic_end: int,
    broker: Bytes8,
    due_ms: int,
    texts: Bytes8,
    id_start: int,
    id_end: int,
    scratch: Bytes8,
) -> int:
    size = put_bytes(scratch, 0, _VERSION, 0, len(_VERSION))
    size = put_bytes(scratch, size, topics, topic_start, topic_end)
    scratch[size] = _BLANK
    size = put_bytes(scratch, size + 1, broker, 0, len(broker))
    scratch[size] = _BLANK
    size = _put_number(scratch, size + 1, due_ms)
    scratch[size] = _BLANK
    size = put_bytes(scratch, size + 1, texts, id_start, id_end)
    return _put_base64(out, at, scratch, size)


@kernel(
    f"int64({BYTES}, int64[:, ::1], int64[:, ::1], {BYTES}, {BYTES}, {BYTES}, int64[::1],"
    "int64[::1], int64[::1], uint8[::1], uint8[::1], int64[::1])"
)
def write_answers(
    texts: Bytes8,
    rows: Any,
    answers: Any,
    topics: Bytes8,
    broker: Bytes8,
    host: Bytes8,
    positions: Int64s,
    offsets: Int64s,
    dues: Int64s,
    scratch: Bytes8,
    out: Bytes8,
    ends: Int64s,
) -> int:
    """Write the frame of each answer; ends[i] is where it ends in `out`. Returns the last end.

    Args:
        dues: of each row; 0: it is not delayed.
        scratch: as long as the longest handle.
        out: as long as all answers (`dueline.wire.turn_answers`).
    """
    at = 0
    for number in range(len(answers)):
        answer = answers[number]
        first, count = answer[ANSWER_FIRST_ROW], answer[ANSWER_ROW_COUNT]
        start = at
        at = put_bytes(out, at + 8, _HEAD, 0, len(_HEAD))
        for row in range(first, first + count):
            if row > first:
                out[at] = 0x2C
                at += 1
            mark = DELAY_LOG_MARK if dues[row] else 0
            at = _put_message_id(out, at, host, positions[row] | mark)
        at = put_bytes(out, at, _QUEUE, 0, len(_QUEUE))
        at = _put_number(out, at, answer[ANSWER_QUEUE_ID])
        at = put_bytes(out, at, _OFFSET, 0, len(_OFFSET))
        at = _put_number(out, at, offsets[first])
        id_start, id_end = rows[first, ROW_ID_START], rows[first, ROW_ID_END]
        if count == 1:
            at = put_bytes(out, at, _ID, 0, len(_ID))
            at = put_bytes(out, at, texts, id_start, id_end)
        out[at] = _QUOTE
        at += 1
        if dues[first]:
            at = put_bytes(out, at, _RECALL, 0, len(_RECALL))
            at = _put_handle(
                out,
                at,
                topics,
                answer[ANSWER_TOPIC_START],
                answer[ANSWER_TOPIC_END],
                broker,
                dues[first],
                texts,
                id_start,
                id_end,
                scratch,
            )
            out[at] = _QUOTE
            at += 1
        at = put_bytes(out, at, _REST, 0, len(_REST))
        at = _put_number(out, at, answer[ANSWER_OPAQUE])
        at = put_bytes(out, at, _END, 0, len(_END))
        size = at - start - 8
        for place in range(4):
            out[start + place] = size + 4 >> 8 * (3 - place) & 0xFF
            out[start + 4 + place] = size >> 8 * (3 - place) & 0xFF
        ends[number] = at
    return at
