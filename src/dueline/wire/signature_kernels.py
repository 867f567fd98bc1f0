"""Signatures of many sends, checked by compiled code; `dueline.wire.turn_signatures` asks for it.

HMAC with SHA-1 as RFC 2104 writes it, for `LANES` sends at a time (`dueline.wire.sha1_kernels`),
unless these are so few and so long that others are as quick (`_is_worth_it`).
The plain twin is `hmac.digest` and `binascii.a2b_base64`. How long a comparison takes does not
depend on where a difference is. Places that are not within their arrays are signed by nobody.
"""

from __future__ import annotations

from typing import Any, Final

import numpy as np
import numpy.typing as npt

from dueline.byte_kernels import is_same
from dueline.compiled import BYTES, kernel
from dueline.wire.sha1_kernels import (
    BLOCK_SIZE,
    GROUP,
    LANES,
    STATE_SIZE,
    WORK_SIZE,
    add_block,
    begin,
    put_block,
    put_words,
)
from dueline.wire.turn import (
    FRAME_BODY_START,
    FRAME_CHANNEL,
    FRAME_END,
    FRAME_HEAD,
    FRAME_IS_FAST,
    FRAME_SIGNATURE_END,
    FRAME_SIGNATURE_START,
    FRAME_SIGNED_END,
    FRAME_SIGNED_START,
    FRAME_USER_END,
)
from dueline.wire.turn_signatures import (
    CASE_NAME_END,
    CASE_NAME_START,
    CASE_SOURCE,
    CASE_TOPIC,
    IS_SIGNED,
    NOT_ASKED,
    NOT_SIGNED,
    PADS_SIZE_BYTES,
    SIZE_MAX,
)

__all__ = ["check_signatures", "find_cases"]

Bytes8 = npt.NDArray[np.uint8]
Words = npt.NDArray[np.uint32]
Int64s = npt.NDArray[np.int64]

BLOCK_COUNT_MAX: Final = (SIZE_MAX + 8) // BLOCK_SIZE + 1
"""Of a content with what SHA-1 puts behind it: a bit, zeros, and how long it is."""
DIGEST_WORDS: Final = 5
SIGNATURE_SIZE: Final = 28

BLOCKS, KEY, NUMBER, LANES_WIDTH = range(4)
"""Of each lane: how many blocks it has, its key and its frame."""

_PADDING: Final = 0x3D
_U: Final = np.uint32


def _values() -> Int64s:
    """What the letters of base64 stand for; below 0: it is none, however it is shifted."""
    values = np.full(256, -1, dtype=np.int64)
    letters = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/"
    values[np.frombuffer(letters, dtype=np.uint8)] = np.arange(64)
    return values


_VALUES: Final = _values()


@kernel(f"int64({BYTES}, int64[:, ::1], int64[::1], int64[::1], int64, int64[:, ::1], int64[::1])")
def find_cases(
    texts: Bytes8,
    frames: Any,
    sources: Int64s,
    topics: Int64s,
    body_size_max: int,
    cases: Any,
    case_of: Int64s,
) -> int:
    """Tell apart who sends where, and from where: a case is a user, a source and a topic.

    Args:
        sources: by connection, a number; topics: by head, a number, below 0 if nobody may.
        cases: gets for each case where its name stands, its source and its topic.
        case_of: gets for each frame its case; -1: it has no signature, or a longer body, or there
            are more cases than fit.

    Returns: how many cases there are.
    """
    count = 0
    last = 0
    for number in range(min(len(frames), len(case_of))):
        case_of[number] = -1
        start, end = frames[number, FRAME_SIGNED_START], frames[number, FRAME_USER_END]
        if frames[number, FRAME_IS_FAST] != 1 or start < 0 or end < start or end > len(texts):
            continue
        channel, head = frames[number, FRAME_CHANNEL], frames[number, FRAME_HEAD]
        if channel < 0 or channel >= len(sources) or head < 0 or head >= len(topics):
            continue
        if frames[number, FRAME_END] - frames[number, FRAME_BODY_START] > body_size_max:
            continue
        source, topic = sources[channel], topics[head]
        if topic < 0:
            continue
        found = -1
        for offset in range(count):
            # That of the frame before is the likeliest.
            case = last + offset if last + offset < count else last + offset - count
            if cases[case, CASE_SOURCE] != source or cases[case, CASE_TOPIC] != topic:
                continue
            name = cases[case, CASE_NAME_START]
            size = cases[case, CASE_NAME_END] - name
            if size == end - start and is_same(texts, start, texts, name, size):
                found = case
                break
        if found < 0 and count < len(cases):
            cases[count, CASE_NAME_START] = start
            cases[count, CASE_NAME_END] = end
            cases[count, CASE_SOURCE] = source
            cases[count, CASE_TOPIC] = topic
            found = count
            count += 1
        if found >= 0:
            last = found
            case_of[number] = found
    return count


@kernel(f"int64({BYTES}, int64)", is_inlined=True)
def _four_letters(letters: Bytes8, at: int) -> int:
    """What four letters of base64 are together; below 0: one of them is none."""
    first, second = _VALUES[letters[at]], _VALUES[letters[at + 1]]
    third, fourth = _VALUES[letters[at + 2]], _VALUES[letters[at + 3]]
    return (first << 6 | second) << 12 | third << 6 | fourth


@kernel(f"boolean({BYTES}, int64[::1], uint32[::1], int64)", is_inlined=True)
def _read_signature(data: Bytes8, frame: Int64s, digests: Words, lane: int) -> bool:
    """The words of a signature in base64 into their lane; False: it is none."""
    start, end = frame[FRAME_SIGNATURE_START], frame[FRAME_SIGNATURE_END]
    if start < 0 or end > len(data) or end - start != SIGNATURE_SIZE:
        return False
    letters = data[start : start + SIGNATURE_SIZE]
    # 24 bits of each four, and of the last three 16; two bits behind them mean nothing.
    a, b, c = _four_letters(letters, 0), _four_letters(letters, 4), _four_letters(letters, 8)
    d, e, f = _four_letters(letters, 12), _four_letters(letters, 16), _four_letters(letters, 20)
    first, second, third = _VALUES[letters[24]], _VALUES[letters[25]], _VALUES[letters[26]]
    g = first << 10 | second << 4 | third >> 2
    if a | b | c | d | e | f | g < 0 or letters[27] != _PADDING:
        return False
    digests[lane] = _U(a << 8 | b >> 16)
    digests[LANES + lane] = _U((b << 16 | c >> 8) & 0xFFFFFFFF)
    digests[2 * LANES + lane] = _U((c << 24 | d) & 0xFFFFFFFF)
    digests[3 * LANES + lane] = _U(e << 8 | f >> 16)
    digests[4 * LANES + lane] = _U((f << 16 | g) & 0xFFFFFFFF)
    return True


@kernel(f"int64({BYTES}, {BYTES}, int64[::1])")
def _block_count(data: Bytes8, texts: Bytes8, frame: Int64s) -> int:
    """How many blocks SHA-1 makes of what was signed; 0: it is nothing, or too long for this."""
    text, text_end = frame[FRAME_SIGNED_START], frame[FRAME_SIGNED_END]
    body, body_end = frame[FRAME_BODY_START], frame[FRAME_END]
    if text < 0 or text_end < text or text_end > len(texts):
        return 0
    if body < 0 or body_end < body or body_end > len(data):
        return 0
    size = text_end - text + body_end - body
    return (size + 8) // BLOCK_SIZE + 1 if size <= SIZE_MAX else 0


@kernel("void(uint32[::1])")
def _take_all(masks: Words) -> None:
    for lane in range(LANES):
        masks[lane] = _U(0xFFFFFFFF)


@kernel(f"void({BYTES}, uint32[::1], uint32[::1], uint32[::1], uint32[:, ::1])")
def _begin_keys(pads: Bytes8, work: Words, state: Words, masks: Words, begun: Any) -> None:
    """The states of both hashes of every key behind its pads, with which each content begins."""
    _take_all(masks)
    count = len(begun)
    for first in range(0, count, LANES):
        lane_count = min(LANES, count - first)
        begin(state)
        for lane in range(lane_count):
            put_words(pads, (first + lane) * BLOCK_SIZE, work, lane)
        add_block(work, state, masks, lane_count)
        for lane in range(lane_count):
            for word in range(DIGEST_WORDS):
                begun[first + lane, word] = state[word * LANES + lane]


@kernel("void(uint32[:, ::1], int64[::1], int64, uint32[::1])")
def _begin_lanes(begun: Any, keys: Int64s, side: int, state: Words) -> None:
    """Let each lane go on from a state of its key: side 0 is that of the inner hash."""
    for lane in range(LANES):
        for word in range(DIGEST_WORDS):
            state[word * LANES + lane] = begun[2 * keys[lane] + side, word]


@kernel(
    f"void({BYTES}, {BYTES}, int64[:, ::1], int64[:, ::1], int64, uint8[::1], uint32[::1],"
    "uint32[::1])"
)
def _put_blocks(
    data: Bytes8,
    texts: Bytes8,
    frames: Any,
    lanes: Any,
    block: int,
    room: Bytes8,
    work: Words,
    masks: Words,
) -> None:
    """A block of each content that is so long, and the masks of those."""
    for lane in range(LANES):
        count = lanes[BLOCKS, lane]
        masks[lane] = _U(0)
        if block < count:
            masks[lane] = _U(0xFFFFFFFF)
            frame = frames[lanes[NUMBER, lane]]
            text = texts[frame[FRAME_SIGNED_START] : frame[FRAME_SIGNED_END]]
            body = data[frame[FRAME_BODY_START] : frame[FRAME_END]]
            put_block(text, body, block, block + 1 == count, room, work, lane)


@kernel("void(uint32[::1], uint32[::1])")
def _put_digests(digests: Words, work: Words) -> None:
    """What the inner hashes gave, as the last blocks of the outer ones."""
    for at in range(16 * LANES):
        work[at] = digests[at] if at < STATE_SIZE else _U(0)
    for lane in range(LANES):
        work[DIGEST_WORDS * LANES + lane] = _U(0x80000000)
        work[15 * LANES + lane] = _U(8 * (BLOCK_SIZE + 4 * DIGEST_WORDS))


@kernel(
    f"void({BYTES}, {BYTES}, int64[:, ::1], int64[:, ::1], int64, int64, uint32[:, ::1],"
    "uint8[::1], uint32[::1], uint32[::1], uint32[::1], uint32[::1])"
)
def _hash(
    data: Bytes8,
    texts: Bytes8,
    frames: Any,
    lanes: Any,
    lane_count: int,
    block_count: int,
    begun: Any,
    room: Bytes8,
    work: Words,
    masks: Words,
    inner: Words,
    state: Words,
) -> None:
    """HMAC of what was signed in the first lanes, of which none has more blocks, into `state`.

    The arrays before it are room for it.
    """
    _begin_lanes(begun, lanes[KEY], 0, state)
    for block in range(block_count):
        _put_blocks(data, texts, frames, lanes, block, room, work, masks)
        add_block(work, state, masks, lane_count)
    for at in range(STATE_SIZE):
        inner[at] = state[at]
    _begin_lanes(begun, lanes[KEY], 1, state)
    _put_digests(inner, work)
    _take_all(masks)
    add_block(work, state, masks, lane_count)


@kernel("int64(int64[::1], int64[::1], int64[::1], uint8[::1], int64, int64[::1], int64[::1])")
def _sort(
    sizes: Int64s,
    case_of: Int64s,
    key_counts: Int64s,
    found: Bytes8,
    place: int,
    ends: Int64s,
    order: Int64s,
) -> int:
    """Frames that have a key at this place and no other one that fits, by their count of blocks.

    Returns: how many there are, the first in `order`; `ends` is room to count in.
    """
    for size in range(len(ends)):
        ends[size] = 0
    for side in range(2):
        for number in range(len(sizes)):
            if sizes[number] and place < key_counts[case_of[number]] and found[number] == 0:
                if side == 0:
                    ends[sizes[number] + 1] += 1
                else:
                    order[ends[sizes[number]]] = number
                    ends[sizes[number]] += 1
        if side == 0:
            for size in range(1, len(ends)):
                ends[size] += ends[size - 1]
    return ends[BLOCK_COUNT_MAX]


@kernel(
    f"int64({BYTES}, {BYTES}, int64[:, ::1], int64[::1], int64[::1], int64[::1], int64, int64[::1],"
    "uint8[::1])"
)
def _measure(
    data: Bytes8,
    texts: Bytes8,
    frames: Any,
    case_of: Int64s,
    key_starts: Int64s,
    key_counts: Int64s,
    key_count: int,
    sizes: Int64s,
    found: Bytes8,
) -> int:
    """The blocks of each frame that has keys; returns how many are too long."""
    long_count = 0
    case_count = min(len(key_starts), len(key_counts))
    for number in range(len(sizes)):
        sizes[number] = 0
        found[number] = NOT_SIGNED
        case = case_of[number]
        if case < 0 or case >= case_count or key_counts[case] <= 0:
            continue
        if key_starts[case] < 0 or key_starts[case] + key_counts[case] > key_count:
            continue
        sizes[number] = _block_count(data, texts, frames[number])
        if not sizes[number]:
            found[number] = NOT_ASKED
            long_count += 1
    return long_count


@kernel("boolean(int64, int64, int64)")
def _is_worth_it(lane_count: int, block_count: int, total: int) -> bool:
    """Do steps of all these lanes take less time than what else can be done?

    A step takes four times as long as a block by the processor's own instructions, for as many
    lanes as `GROUP`; all that is around a signature, in Python, takes as long as 90 such blocks.

    Args:
        block_count: of the longest; total: of all together.
    """
    groups = (lane_count + GROUP - 1) // GROUP
    return 4 * groups * block_count < 90 * lane_count + total


@kernel(
    f"int64({BYTES}, {BYTES}, int64[:, ::1], int64[::1], int64[::1], int64[::1], int64[::1],"
    "uint32[:, ::1], uint32[:, ::1], uint8[::1], uint32[::1], int64[:, ::1], int64[::1],"
    "int64[::1], uint8[::1])"
)
def _check(
    data: Bytes8,
    texts: Bytes8,
    frames: Any,
    case_of: Int64s,
    key_starts: Int64s,
    key_counts: Int64s,
    sizes: Int64s,
    begun: Any,
    states: Any,
    room: Bytes8,
    work: Words,
    lanes: Any,
    ends: Int64s,
    order: Int64s,
    found: Bytes8,
) -> int:
    """Compare the signatures of measured frames with those that their keys give.

    Returns how many are left to others, who are as quick.

    Args:
        begun: of each key, what its two hashes begin with.
        states, room, work, lanes, ends, order: room for what is under way.
    """
    state, inner, expected, masks = states[0], states[1], states[2], states[3, :LANES]
    place_count = 0
    for case in range(len(key_counts)):
        place_count = max(place_count, key_counts[case])
    left_count = 0
    for place in range(place_count):
        total = _sort(sizes, case_of, key_counts, found, place, ends, order)
        for first in range(0, total, LANES):
            lane_count = min(LANES, total - first)
            block_count = total_blocks = 0
            for lane in range(LANES):
                lanes[BLOCKS, lane] = 0
                lanes[KEY, lane] = 0
                if lane >= lane_count:
                    continue
                number = order[first + lane]
                if _read_signature(data, frames[number], expected, lane):
                    lanes[BLOCKS, lane] = sizes[number]
                    lanes[KEY, lane] = key_starts[case_of[number]] + place
                    lanes[NUMBER, lane] = number
                    block_count = max(block_count, sizes[number])
                    total_blocks += sizes[number]
            if not _is_worth_it(lane_count, block_count, total_blocks):
                for lane in range(lane_count):
                    found[order[first + lane]] = NOT_ASKED
                left_count += lane_count
                continue
            _hash(
                data,
                texts,
                frames,
                lanes,
                lane_count,
                block_count,
                begun,
                room,
                work,
                masks,
                inner,
                state,
            )
            for lane in range(lane_count):
                difference = _U(0)
                for word in range(DIGEST_WORDS):
                    at = word * LANES + lane
                    difference |= _U(_U(state[at]) ^ _U(expected[at]))
                if lanes[BLOCKS, lane] and difference == 0:
                    found[order[first + lane]] = IS_SIGNED
    return left_count


@kernel(
    f"int64({BYTES}, {BYTES}, int64[:, ::1], int64[::1], int64[::1], int64[::1], {BYTES},"
    "uint8[::1])",
    makes_arrays=True,
)
def check_signatures(
    data: Bytes8,
    texts: Bytes8,
    frames: Any,
    case_of: Int64s,
    key_starts: Int64s,
    key_counts: Int64s,
    pads: Bytes8,
    found: Bytes8,
) -> int:
    """Which frames are signed with a key of their case? Returns how many somebody else has to
    look at.

    Args:
        case_of: by frame; below 0: nobody's.
        key_starts, key_counts: by case, which keys may have signed it.
        pads: of each key `PADS_SIZE_BYTES`, with which the two hashes begin.
        found: gets for each frame `NOT_SIGNED`, `IS_SIGNED`, or `NOT_ASKED`.
    """
    key_count = len(pads) // PADS_SIZE_BYTES
    sizes = np.empty(min(len(frames), len(case_of), len(found)), dtype=np.int64)
    long_count = _measure(
        data, texts, frames, case_of, key_starts, key_counts, key_count, sizes, found
    )
    work = np.zeros(WORK_SIZE, dtype=np.uint32)
    states = np.zeros((4, STATE_SIZE), dtype=np.uint32)
    begun = np.empty((2 * key_count, DIGEST_WORDS), dtype=np.uint32)
    _begin_keys(pads, work, states[0], states[3, :LANES], begun)
    left_count = _check(
        data,
        texts,
        frames,
        case_of,
        key_starts,
        key_counts,
        sizes,
        begun,
        states,
        np.empty(BLOCK_SIZE, dtype=np.uint8),
        work,
        np.empty((LANES_WIDTH, LANES), dtype=np.int64),
        np.empty(BLOCK_COUNT_MAX + 2, dtype=np.int64),
        np.empty(len(sizes), dtype=np.int64),
        found,
    )
    return long_count + left_count
