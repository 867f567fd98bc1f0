"""A delayed message's record, packed: what others of its fields, or the timeline, say is left out.

Nothing of RocketMQ's reads the delay log. There, a usual delayed message is kept without what its
log topic, its due time and its real topic would say twice; what reads it gets the same record back,
byte for byte (`dueline.store.record`). Numbers are big-endian:

    0       4       8     12      13          14     15       16               20
    | total | magic | CRC | flags | topicSize | idAt | idSize | dueAt, bodySize | realQueue (2) |
    22           28            34           40             46              52         58
    | number (6) | storeMs (6) | bornMs (6) | bornHost (6) | storeHost (6) | when (6) | offset (6) |
    64
    | [flag, sysFlag, times (12)] | body | id | text | topic |

    CRC     CRC-32 of all behind it, XORed with the total size and with both halves of the position
    flags   1: timer, `when` is its due time; else of a level, `when` is the level's queue
            2: member of an atomic group; 4: `dueAt` says something; 8: with flag, sysFlag and times
    id      the unique id, which is hexadecimal: half as many bytes
    text    the properties but for their ending (due time, real topic and queue), for
            TIMER_DELIVER_MS if it is the due time, and for the unique id; `idAt` and `dueAt` are
            the places of the separators before these, or 0

The topic comes last: so a record never ends in zeros. A message that does not fit into this is kept
as any record is.
"""

from __future__ import annotations

import re
import struct
from typing import Final, NamedTuple
from zlib import crc32

from dueline.message import LEVEL_MAX, SYS_BORN_HOST_V6, SYS_STORE_HOST_V6
from dueline.schedule import DUE_NAME, REAL_QUEUE_NAME, REAL_TOPIC_NAME
from dueline.store.layout import HOST_SIZE

__all__ = [
    "GROWTH_MAX",
    "MAGIC",
    "SIZE_MIN",
    "Fields",
    "Packing",
    "encode",
    "ending",
    "fields_of",
    "is_packable",
    "packing_of",
    "size_of",
]

MAGIC: Final = 0xD0E19ACD
HEAD_SIZE: Final = 64
RARE_SIZE: Final = 12
CHECKED_AT: Final = 12
SIZE_MIN: Final = HEAD_SIZE + 1
"""Of the head and a topic of one letter."""

GROWTH_MAX: Final = 3
"""What is delivered is less than so many times as long as what was packed.

Body and text are as long as before, the topic is there twice, and the id has two digits a byte.
What was left out takes 190 bytes at most: header and sizes of topic and properties 91; names and
separators of id, `TIMER_DELIVER_MS`, `TIMER_OUT_MS`, `REAL_TOPIC` and `REAL_QID` 64; two due times
of 15 digits and a queue of 5. A packed record has a head of 64 bytes, which thrice are 192.
"""

IS_TIMER: Final = 1
IS_MEMBER: Final = 2
SAYS_DUE: Final = 4
IS_RARE: Final = 8
FLAGS: Final = IS_TIMER | IS_MEMBER | SAYS_DUE | IS_RARE

(
    PLACE_ID,
    PLACE_ID_END,
    PLACE_ID_AT,
    PLACE_DUE,
    PLACE_DUE_END,
    PLACE_DUE_AT,
    PLACE_KEPT,
) = range(7)
"""Columns of what kernels note of a message; `PLACE_KEPT` is -1 if it is not packed."""
PLACE_WIDTH: Final = 7

PLACE_MAX: Final = 255
ID_SIZE_MAX: Final = 255
BODY_SIZE_MAX: Final = (1 << 24) - 1
TEXT_SIZE_MAX: Final = (1 << 16) - 1
NUMBER_MAX: Final = (1 << 44) - 1
TIME_MAX: Final = (1 << 48) - 1

_HEAD: Final = struct.Struct(">IIIBBBBIHHIHIHI4sH4sHHIHI")
_RARE: Final = struct.Struct(">Iii")
_HIGH: Final = struct.Struct(">4sI")
assert _HEAD.size == HEAD_SIZE
assert _RARE.size == RARE_SIZE

_NAME_VALUE: Final = b"\x01"
_SEPARATOR: Final = b"\x02"
_UNIQUE: Final = b"UNIQ_KEY\x01"
_DELIVER: Final = b"TIMER_DELIVER_MS\x01"
_ID: Final = re.compile(rb"(?:^|\x02)UNIQ_KEY\x01((?:[0-9A-F]{2}){1,255})(?=\x02|\Z)")
V6: Final = SYS_BORN_HOST_V6 | SYS_STORE_HOST_V6
_MASK32: Final = 0xFFFFFFFF


class Packing(NamedTuple):
    """What is kept of a message's properties; no place: the property stays in the text."""

    text: bytes
    id: bytes
    id_at: int
    due_at: int | None


class Fields(NamedTuple):
    """What a packed record says; the hosts have 8 bytes each, `text` is all properties."""

    is_timer: bool
    is_member: bool
    queue_id: int
    number: int
    store_ms: int
    born_ms: int
    born_host: bytes
    store_host: bytes
    when: int
    queue_offset: int
    flag: int
    sys_flag: int
    times: int
    body: bytes
    topic: bytes
    text: bytes


def ending(topic: bytes, queue_id: int, due_ms: int | None) -> bytes:
    """The last properties of a delayed message; `due_ms` is None for one of a level.

    >>> ending(b"orders", 3, 1_800_000_000_000)[:27]
    b'\\x02TIMER_OUT_MS\\x011800000000000'
    """
    due = b"" if due_ms is None else f"\x02{DUE_NAME}\x01{due_ms}".encode()
    real = f"\x02{REAL_QUEUE_NAME}\x01{queue_id}".encode()
    return b"".join((due, f"\x02{REAL_TOPIC_NAME}\x01".encode(), topic, real))


def packing_of(text: bytes, due_ms: int | None) -> Packing | None:
    """How properties without their ending are kept; None: they are not of the usual form.

    >>> packing_of(b"TAGS\\x01a\\x02UNIQ_KEY\\x0100FF\\x02TIMER_DELIVER_MS\\x0177", 77)
    Packing(text=b'TAGS\\x01a', id=b'\\x00\\xff', id_at=6, due_at=20)
    """
    if not text or b"\x02\x02" in b"".join((_SEPARATOR, text, _SEPARATOR)):
        return None  # an empty property would make places ambiguous
    due_at = None
    if due_ms is not None:
        property_ = b"".join((_DELIVER, str(due_ms).encode()))
        due_at = _place(text, property_)
        if due_at is not None:
            text = _without(text, due_at, len(property_))
    found = _ID.search(text)
    if found is None or found.start() > PLACE_MAX:
        return Packing(text, b"", 0, due_at)
    id_at = found.start()
    size = found.end() - (id_at + 1 if id_at else 0)
    return Packing(_without(text, id_at, size), bytes.fromhex(found[1].decode()), id_at, due_at)


def _text(packing: Packing, when: int) -> bytes | None:
    """The properties without their ending; None: a place is not within them."""
    text = packing.text
    if packing.id:
        if packing.id_at > len(text):
            return None
        unique_id = packing.id.hex().upper().encode()
        text = _with(text, packing.id_at, b"".join((_UNIQUE, unique_id)))
    if packing.due_at is not None:
        if packing.due_at > len(text):
            return None
        text = _with(text, packing.due_at, b"".join((_DELIVER, str(when).encode())))
    return text


def _place(text: bytes, property_: bytes) -> int | None:
    """Where a property's separator stands, or 0 at the start of the text; None: not near it."""
    whole = b"".join((_SEPARATOR, text[: PLACE_MAX + 1 + len(property_) + 1], _SEPARATOR))
    at = whole.find(b"".join((_SEPARATOR, property_, _SEPARATOR)))
    if at < 0 or at - 1 > PLACE_MAX:
        return None
    return max(at - 1, 0)


def _without(text: bytes, at: int, size: int) -> bytes:
    """A text without the property of `size` bytes whose place is `at`, and one separator."""
    return text[:at] + text[at + 1 + size :] if at else text[size + 1 :]


def _with(text: bytes, at: int, property_: bytes) -> bytes:
    """The text that `_without` was given."""
    if at:
        return b"".join((text[:at], _SEPARATOR, property_, text[at:]))
    return b"".join((property_, _SEPARATOR if text else b"", text))


def is_packable(*, born_ms: int, born_host: bytes, body_size: int, due_ms: int) -> bool:
    """Do a message's numbers fit? The store's host must have 8 bytes, too."""
    return (
        max(born_ms, due_ms) <= TIME_MAX
        and len(born_host) == HOST_SIZE
        and born_host[4:6] == b"\0\0"
        and body_size <= BODY_SIZE_MAX
    )


def size_of(packing: Packing, *, is_rare: bool, body_size: int, topic_size: int) -> int:
    """How many bytes a packed record has."""
    rare = RARE_SIZE if is_rare else 0
    return HEAD_SIZE + rare + body_size + len(packing.id) + len(packing.text) + topic_size


def encode(fields: Fields, packing: Packing, position: int) -> bytes:
    """A packed record; of `fields`, `text` is not used: `packing` is what is kept of it."""
    is_rare = bool(fields.flag or fields.sys_flag or fields.times)
    size = size_of(
        packing, is_rare=is_rare, body_size=len(fields.body), topic_size=len(fields.topic)
    )
    flags = IS_TIMER * fields.is_timer | IS_MEMBER * fields.is_member | IS_RARE * is_rare
    due_at = 0
    if packing.due_at is not None:
        flags |= SAYS_DUE
        due_at = packing.due_at
    born_host, store_host = _HIGH.unpack(fields.born_host), _HIGH.unpack(fields.store_host)
    head = _HEAD.pack(
        *(size, MAGIC, 0, flags, len(fields.topic), packing.id_at, len(packing.id)),
        *(due_at << 24 | len(fields.body), fields.queue_id, *_halves(fields.number)),
        *(*_halves(fields.store_ms), *_halves(fields.born_ms), *born_host, *store_host),
        *(*_halves(fields.when), *_halves(fields.queue_offset)),
    )
    rare = _RARE.pack(fields.flag & _MASK32, fields.sys_flag, fields.times) if is_rare else b""
    checked = b"".join(
        (head[CHECKED_AT:], rare, fields.body, packing.id, packing.text, fields.topic)
    )
    crc = crc32(checked) ^ _place_word(size, position)
    return b"".join((head[:8], crc.to_bytes(4, "big"), checked))


def _halves(number: int) -> tuple[int, int]:
    return number >> 32, number & _MASK32


def _place_word(size: int, position: int) -> int:
    """What the CRC is XORed with: a record that is elsewhere, or cut, is none."""
    return size ^ position & _MASK32 ^ position >> 32


def fields_of(view: memoryview, position: int) -> Fields | str:
    """What the packed record at the start of a view says, or why it is none."""
    if len(view) < SIZE_MIN:
        return f"expected at least {SIZE_MIN} bytes, found {len(view)}"
    (size, _, crc, flags, topic_size, id_at, id_size, sizes, queue_id, number_1, number_2,
     store_1, store_2, born_1, born_2, born_ip, born_port, store_ip, store_port, when_1, when_2,
     offset_1, offset_2) = _HEAD.unpack_from(view)  # fmt: skip
    if not SIZE_MIN <= size <= len(view):
        return f"expected at most {len(view)} bytes, found size {size}"
    body_at = HEAD_SIZE + (RARE_SIZE if flags & IS_RARE else 0)
    id_start = body_at + (sizes & BODY_SIZE_MAX)
    text_start, topic_start = id_start + id_size, size - topic_size
    if flags & ~FLAGS or not topic_size or not 0 <= topic_start - text_start <= TEXT_SIZE_MAX:
        return f"expected fields that fill {size} bytes, found others"
    flag, sys_flag, times = _RARE.unpack_from(view, HEAD_SIZE) if flags & IS_RARE else (0, 0, 0)
    flag -= flag >> 31 << 32
    when, number = when_1 << 32 | when_2, number_1 << 32 | number_2
    is_timer = bool(flags & IS_TIMER)
    if sys_flag & V6 or number > NUMBER_MAX or (not is_timer and when >= LEVEL_MAX):
        return "expected numbers of a delayed message, found others"
    # Last, since it reads all bytes: a body may be full of what seem to be beginnings of records.
    found = crc32(view[CHECKED_AT:size]) ^ _place_word(size, position)
    if found != crc:
        return f"CRC: expected {crc:#x}, found {found:#x}"
    due_at = sizes >> 24 if flags & SAYS_DUE else None
    packing = Packing(
        bytes(view[text_start:topic_start]), bytes(view[id_start:text_start]), id_at, due_at
    )
    topic = bytes(view[topic_start:size])
    text = _text(packing, when)
    if text is None:
        return "expected places within the properties, found others"
    text += ending(topic, queue_id, when if is_timer else None)
    if len(text) > TEXT_SIZE_MAX:
        return f"expected at most {TEXT_SIZE_MAX} bytes of properties, found {len(text)}"
    return Fields(
        is_timer=is_timer,
        is_member=bool(flags & IS_MEMBER),
        queue_id=queue_id,
        number=number,
        store_ms=store_1 << 32 | store_2,
        born_ms=born_1 << 32 | born_2,
        born_host=_HIGH.pack(born_ip, born_port),
        store_host=_HIGH.pack(store_ip, store_port),
        when=when,
        queue_offset=offset_1 << 32 | offset_2,
        flag=flag,
        sys_flag=sys_flag,
        times=times,
        body=bytes(view[body_at:id_start]),
        topic=topic,
        text=text,
    )
