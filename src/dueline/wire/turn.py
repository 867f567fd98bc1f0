"""What arrives in one turn of a loop, on all connections, read at once.

    bytes of all connections ──▶ frames ──▶ rows (messages), heads (what their headers say alike)
                                   └─ not understood: for the interpreted codec

A turn is columns of numbers: where a message's body stands in `data`, where its properties stand in
`texts`, in the form that records have. A frame is *fast* if it is a send that the kernel has read
whole; any other is left as it came. Frames of one connection are in their order.

A head is what the headers of many sends say alike: all but the time and the properties. Its `key`
tells it from others; what it means, `dueline.wire.headers` says, once for all sends that have it.

Of a frame that is signed, `texts` has what was signed but for the body (`dueline.wire.signature`),
from FRAME_SIGNED_START to FRAME_SIGNED_END, the user's name first, to FRAME_USER_END; without a
name or a signature FRAME_SIGNED_START is -1. Whether the signature is right is not asked here.

The plain twin of `read_turn` is the codec: `FrameDecoder`, `Command.decode`, `SendRequest.decode`,
`decode_properties` and `decode_batch`. Arrays are used anew by the next turn of a `TurnReader`, but
for those of a `Turn`, which are copies.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, NamedTuple

import numpy as np
import numpy.typing as npt

from dueline.message_rows import ROW_WIDTH
from dueline.wire.codes import RequestCode, Serialization
from dueline.wire.frame import READ_HEADER_SIZE_BYTES_MAX

__all__ = ["TURN_KERNELS", "Turn", "TurnLimits", "TurnReader"]

TURN_KERNELS: Final = "dueline.wire.turn_kernels"

Int64s = npt.NDArray[np.int64]
Bytes8 = npt.NDArray[np.uint8]

SEND_CODE: Final = int(RequestCode.SEND_MESSAGE_V2)
BATCH_CODE: Final = int(RequestCode.SEND_BATCH_MESSAGE)
CODE_MAX: Final = max(map(int, Serialization))
FIELD_COUNT: Final = 14
"""The one-letter names of a send's fields are a to n."""
FIELD_SIZE_BYTES: Final = 200
ENTRY_COUNT_MAX: Final = 32
HEADS_MAX: Final = 1_024
TABLE_SIZE: Final = 4_096

(
    FRAME_IS_FAST,
    FRAME_START,
    FRAME_END,
    FRAME_CHANNEL,
    FRAME_OPAQUE,
    FRAME_FLAG,
    FRAME_HEAD,
    FRAME_FIRST_ROW,
    FRAME_ROW_COUNT,
    FRAME_SIZE_BYTES,
    FRAME_BODY_START,
    FRAME_SIGNED_START,
    FRAME_USER_END,
    FRAME_SIGNED_END,
    FRAME_SIGNATURE_START,
    FRAME_SIGNATURE_END,
    FRAME_WIDTH,
) = range(17)

HEAD_KEY_START, HEAD_KEY_END, HEAD_IS_BATCH, HEAD_WIDTH = range(4)

(
    LIMIT_FRAME,
    LIMIT_HEADER,
    LIMIT_BODY,
    LIMIT_TEXT,
    LIMIT_BATCH,
    LIMIT_LEVEL,
    LIMIT_DELAY_MS,
    LIMIT_NOW_MS,
    LIMIT_WIDTH,
) = range(9)

ACTION_DROP: Final = 1
"""Leave the property out."""
ACTION_ODD: Final = 2
"""A message with it is for others to read."""
ACTION_ID: Final = 3
ACTION_KEYS: Final = 4
ACTION_TAGS: Final = 5
ACTION_LEVEL: Final = 6
ACTION_SECONDS: Final = 7
ACTION_MS: Final = 8
ACTION_AT: Final = 9

TEXT_SIZE_MAX: Final = 16 << 10
"""Longer properties are read the interpreted way; these fit into a record, whatever is added."""
_MESSAGE_SIZE_MIN: Final = 22
_FRAME_SIZE_MIN: Final = 8
_FRAMES_MAX: Final = 8_192


@dataclass(frozen=True, slots=True, kw_only=True)
class TurnLimits:
    """What a kernel may take in; beyond it a frame is for the interpreted codec, and refused."""

    frame_size_bytes_max: int
    body_size_max: int
    batch_count_max: int
    level_max: int
    delay_max_ms: int

    def numbers(self) -> Int64s:
        """By `LIMIT_…`, without the time that it is."""
        limits = np.zeros(LIMIT_WIDTH, dtype=np.int64)
        limits[LIMIT_FRAME] = self.frame_size_bytes_max - 4
        limits[LIMIT_HEADER] = READ_HEADER_SIZE_BYTES_MAX
        limits[LIMIT_BODY] = self.body_size_max
        limits[LIMIT_TEXT] = TEXT_SIZE_MAX
        limits[LIMIT_BATCH] = self.batch_count_max
        limits[LIMIT_LEVEL] = self.level_max
        limits[LIMIT_DELAY_MS] = self.delay_max_ms
        return limits


class Turn(NamedTuple):
    """One turn, read."""

    data: Bytes8
    texts: Bytes8
    frames: Int64s
    rows: Int64s
    heads: Int64s

    def key(self, head: int) -> bytes:
        """What tells this head from others."""
        start, end = self.heads[head, HEAD_KEY_START], self.heads[head, HEAD_KEY_END]
        return self.texts[start:end].tobytes()


class TurnReader:
    """Reads turns; for one thread."""

    def __init__(self, limits: TurnLimits, actions: Mapping[str, int]) -> None:
        """Prepare.

        Args:
            actions: what properties mean, by name.
        """
        self._limits = limits.numbers()
        names = [name.encode() for name in actions]
        ends = np.cumsum([0, *map(len, names)], dtype=np.int64)
        self._names = np.frombuffer(b"".join(names), dtype=np.uint8)
        table = np.array([ends[:-1], ends[1:], list(actions.values())], dtype=np.int64)
        self._actions = np.ascontiguousarray(table.T)
        self._counts = np.zeros(4, dtype=np.int64)
        self._heads = np.empty((HEADS_MAX, HEAD_WIDTH), dtype=np.int64)
        self._size_max = 0
        self._make_room(64 << 10)

    def _make_room(self, size_bytes: int) -> None:
        self._size_max = size_bytes
        frame_count = min(size_bytes // _FRAME_SIZE_MIN, _FRAMES_MAX)
        row_count = frame_count + size_bytes // _MESSAGE_SIZE_MIN
        self._frames = np.empty((frame_count, FRAME_WIDTH), dtype=np.int64)
        self._rows = np.empty((row_count, ROW_WIDTH), dtype=np.int64)
        self._texts = np.empty(3 * size_bytes + 64 * frame_count, dtype=np.uint8)

    def read(self, kernels: Any, pieces: Sequence[bytes], now_ms: int) -> Turn:
        """Read what came on each connection; `kernels` are those of `TURN_KERNELS`."""
        joined = pieces[0] if len(pieces) == 1 else b"".join(pieces)
        if len(joined) > self._size_max:
            self._make_room(2 * len(joined))
        data = np.frombuffer(joined, dtype=np.uint8)
        spans = np.empty((len(pieces), 2), dtype=np.int64)
        at = 0
        for channel, piece in enumerate(pieces):
            spans[channel] = at, at + len(piece)
            at += len(piece)
        self._limits[LIMIT_NOW_MS] = now_ms
        kernels.read_turn(
            *(data, spans, self._names, self._actions, self._limits),
            *(self._frames, self._rows, self._heads, self._texts, self._counts),
        )
        row_count, head_count, text_size, frame_count = self._counts.tolist()
        return Turn(
            data,
            self._texts[:text_size].copy(),
            self._frames[:frame_count].copy(),
            self._rows[:row_count].copy(),
            self._heads[:head_count].copy(),
        )
