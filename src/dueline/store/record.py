"""One record of a log: RocketMQ's layout, encoded, decoded and checked one at a time.

`dueline.store.layout` says where the fields are. RocketMQ calls one of them
"preparedTransactionOffset"; we keep a *mark* in it:

    bit 62      the record has a mark (it was written by Dueline)
    bit 61      it is a delayed message: the number is its acceptance number ("seq", the origin)
    bit 60      it is a member of an atomic group, void without the group's end
    bits 44-59  check: 16 bits over what bodyCRC does not cover
    bits 0-43   a number: seq, or the low bits of the position of the half message that this one
                commits, which stands before it: its own position tells the rest (`reference`)

bodyCRC covers the body alone. The check covers every other byte but queueOffset (known to the
consume queue, written late) and position (compared with where the record is found). So a flipped
bit anywhere in a record is noticed. Records without a mark are foreign and only their CRC is
checked; what RocketMQ keeps in the field is a position, below 2^62. In our logs it has none of the
bits above 43, by which a mark that has lost its bit 62 is told from a foreign one.

In the delay log a record may be packed (`dueline.store.packed`); it is read as what it stands for.
"""

from __future__ import annotations

import struct
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Final, NamedTuple, Protocol
from zlib import crc32

from dueline.errors import CorruptRecord
from dueline.message import (
    LEVEL_TOPIC,
    SYS_BORN_HOST_V6,
    SYS_COMMIT,
    SYS_STORE_HOST_V6,
    SYS_TRANSACTION_MASK,
    TIMER_TOPIC,
)
from dueline.store import layout, packed
from dueline.store.layout import HEADER_SIZE, RECORD_SIZE_MIN, SIZE_MAGIC

__all__ = [
    "BLANK_MAGIC",
    "GAP_MAGIC",
    "MAGIC",
    "MARK_DELAYED",
    "MARK_GROUP",
    "MARK_NUMBER_MASK",
    "MARK_PRESENT",
    "RECORD_MAGICS",
    "Record",
    "decode",
    "decode_checked",
    "decode_damaged",
    "fold",
    "is_packed",
    "is_sound",
    "reference",
    "seal",
    "tail_check",
    "unpacked",
    "usual",
]

MAGIC: Final = 0xDAA320A7
MAGIC_LONG_TOPIC: Final = 0xDAA320AB
BLANK_MAGIC: Final = 0xCBD43194
GAP_MAGIC: Final = 0xD0E11A9E

RECORD_MAGICS: Final = (MAGIC, MAGIC_LONG_TOPIC, packed.MAGIC)
"""With what a record of a log may begin, behind its size."""

MARK_PRESENT: Final = 1 << 62
MARK_DELAYED: Final = 1 << 61
MARK_GROUP: Final = 1 << 60
MARK_CHECK_SHIFT: Final = 44
MARK_CHECK_MASK: Final = 0xFFFF << MARK_CHECK_SHIFT
MARK_NUMBER_MASK: Final = (1 << MARK_CHECK_SHIFT) - 1

NO_OFFSET: Final = -1  # the queue offset of a record that is in no queue yet

# A header, unsigned throughout and with hosts as two words: what is XORed for the check.
_WORDS: Final = struct.Struct(">IIIIIqqIQIIQIIIQI")
_MASK32: Final = 0xFFFFFFFF
_MASK64: Final = 0xFFFFFFFFFFFFFFFF
_new_tuple: Final = tuple.__new__
"""What a named tuple is made with, without a call of Python code."""
_PACKED_MAGIC: Final = packed.MAGIC.to_bytes(4, "big")
_LEVEL_TOPIC: Final = LEVEL_TOPIC.encode()
_TIMER_TOPIC: Final = TIMER_TOPIC.encode()
_V6: Final = SYS_BORN_HOST_V6 | SYS_STORE_HOST_V6
assert _WORDS.size == HEADER_SIZE
assert MAGIC_LONG_TOPIC & 0xFF == layout.LONG_TOPIC_END != MAGIC & 0xFF


@dataclass(frozen=True, slots=True, kw_only=True)
class Record:
    """A decoded record; `size_bytes` and `position` say where it stood."""

    queue_id: int
    flag: int
    queue_offset: int
    position: int
    sys_flag: int
    born_ms: int
    born_host: bytes
    store_ms: int
    store_host: bytes
    reconsume_times: int
    mark: int
    body: bytes
    topic: bytes
    properties: bytes
    magic: int = MAGIC

    @property
    def size_bytes(self) -> int:
        extra = len(self.born_host) + len(self.store_host) - 16
        topic_size_bytes = 1 if self.magic == MAGIC else 2
        return (
            HEADER_SIZE + extra + len(self.body) + topic_size_bytes + len(self.topic) + 2
        ) + len(self.properties)

    @property
    def seq(self) -> int | None:
        """The acceptance number of a delayed message, or None."""
        return self.mark & MARK_NUMBER_MASK if is_delayed(self.mark) else None

    @property
    def prepared_position(self) -> int:
        """The half message that this record commits, as RocketMQ means the field; 0 for none."""
        if is_delayed(self.mark):
            return 0
        if not self.mark & MARK_PRESENT:
            return self.mark
        number = self.mark & MARK_NUMBER_MASK
        if number == 0 and self.sys_flag & SYS_TRANSACTION_MASK != SYS_COMMIT:
            return 0
        return number if number > self.position else _nearest(number, self.position)

    def encode(self, mark: int | None = None) -> bytes:
        """The record's bytes, with another mark if one is given; see `seal` for its check."""
        header = layout.header(len(self.born_host), len(self.store_host)).pack(
            self.size_bytes,
            self.magic,
            body_crc(self.body),
            self.queue_id,
            self.flag,
            self.queue_offset,
            self.position,
            self.sys_flag,
            self.born_ms,
            self.born_host,
            self.store_ms,
            self.store_host,
            self.reconsume_times,
            (self.mark if mark is None else mark) & _MASK64,
            len(self.body),
        )
        topic_size = len(self.topic).to_bytes(1 if self.magic == MAGIC else 2, "big")
        return b"".join(
            (
                header,
                self.body,
                topic_size,
                self.topic,
                len(self.properties).to_bytes(2, "big"),
                self.properties,
            )
        )


class LogLike(Protocol):
    """Anything that records can be read from by position; foreign: RocketMQ writes it."""

    @property
    def is_foreign(self) -> bool: ...

    def read(self, position: int, size: int) -> memoryview: ...

    def size_at(self, position: int) -> int: ...


def reference(half_position: int, position: int) -> int:
    """The number by which a record at `position` names the half message that it commits.

    2^44 bytes further back there is nothing that it could name: then it names none.
    """
    number = half_position & MARK_NUMBER_MASK
    return number if half_position == 0 or half_position == _nearest(number, position) else 0


def _nearest(number: int, position: int) -> int:
    """The last place up to `position` whose low bits are `number`."""
    return position - (position - number & MARK_NUMBER_MASK)


def is_delayed(mark: int) -> bool:
    """Does the mark say that its number is an acceptance number?"""
    return mark & (MARK_PRESENT | MARK_DELAYED) == MARK_PRESENT | MARK_DELAYED


def body_crc(body: bytes | memoryview) -> int:
    """CRC-32 of a body with the sign bit cleared, as RocketMQ keeps it; 0 for an empty one."""
    return crc32(body) & 0x7FFFFFFF


def decode(
    data: bytes | memoryview,
    *,
    position: int | None = None,
    path: str = "",
    is_foreign: bool = False,
) -> Record:
    """Decode and check the record at the start of `data`.

    Args:
        position: where the record stands; its position field must say the same. None: not compared.
        is_foreign: RocketMQ writes this log, so what has no mark of ours never had one.

    Raises:
        CorruptRecord: anything that does not add up.
    """
    where = -1 if position is None else position
    view = memoryview(data)
    if is_packed(view):
        return _unpacked(view, position, path)
    record, crc = _decode_unchecked(view, position=position, path=path)
    if crc != body_crc(record.body):
        raise _corrupt(
            path, where, f"body CRC: expected {crc:#x}, found {body_crc(record.body):#x}"
        )
    if not record.mark & MARK_PRESENT:
        if record.mark > MARK_NUMBER_MASK and not is_foreign:
            raise _corrupt(path, where, f"expected our mark or a position, found {record.mark:#x}")
    elif _check_of(record, crc) != record.mark & MARK_CHECK_MASK:
        raise _corrupt(path, where, "check over header, topic and properties does not match")
    return record


def decode_checked(view: bytes | memoryview) -> Record:
    """Decode what `is_sound` was said of a moment ago: its checks are not made again."""
    return _decode_unchecked(memoryview(view), position=None, path="")[0]


def decode_damaged(data: bytes | memoryview, *, position: int) -> Record:
    """What is left of a record that fails its checks.

    Raises:
        CorruptRecord: not even its fields add up.
    """
    return _decode_unchecked(memoryview(data), position=position, path="")[0]


def is_packed(view: bytes | memoryview) -> bool:
    """Does a packed record begin here, as its magic says?"""
    return view[4:8] == _PACKED_MAGIC


def unpacked(view: memoryview, position: int) -> bytes:
    """The bytes that a packed record stands for.

    Raises:
        CorruptRecord: it is damaged, or at another place than it was written to.
    """
    return _unpacked(view, position, "").encode()


def _unpacked(view: memoryview, position: int | None, path: str) -> Record:
    if position is None:  # whoever knew its place has left it packed
        raise _corrupt(path, -1, "packed record: its CRC does not match at the place it was read")
    fields = packed.fields_of(view, position)
    if isinstance(fields, str):
        raise _corrupt(path, position, fields)
    record = Record(
        queue_id=0 if fields.is_timer else fields.when,
        flag=fields.flag,
        queue_offset=fields.queue_offset,
        position=position,
        sys_flag=fields.sys_flag,
        born_ms=fields.born_ms,
        born_host=fields.born_host,
        store_ms=fields.store_ms,
        store_host=fields.store_host,
        reconsume_times=fields.times,
        mark=MARK_PRESENT | MARK_DELAYED | MARK_GROUP * fields.is_member | fields.number,
        body=fields.body,
        topic=_TIMER_TOPIC if fields.is_timer else _LEVEL_TOPIC,
        properties=fields.text,
    )
    return replace(record, mark=record.mark | _check_of(record, body_crc(record.body)))


def _decode_unchecked(view: memoryview, *, position: int | None, path: str) -> tuple[Record, int]:
    where = -1 if position is None else position
    if len(view) < RECORD_SIZE_MIN:
        raise _corrupt(path, where, f"expected at least {RECORD_SIZE_MIN} bytes, found {len(view)}")
    size, magic = SIZE_MAGIC.unpack_from(view)
    if magic not in (MAGIC, MAGIC_LONG_TOPIC):
        raise _corrupt(path, where, f"expected magic {MAGIC:#010x}, found {magic:#010x}")
    if not RECORD_SIZE_MIN <= size <= len(view):
        raise _corrupt(path, where, f"expected at most {len(view)} bytes, found size {size}")
    record, crc = _decode_fields(view[:size], size, magic, path, where)
    if position is not None and record.position != position:
        raise _corrupt(path, where, f"expected its position here, found {record.position}")
    return record, crc


class Usual(NamedTuple):
    """What is read of a usual record: our own, with IPv4 hosts and a short topic."""

    body: bytes | memoryview
    tail: bytes | memoryview
    """Topic and properties with their sizes."""
    queue_id: int
    queue_offset: int
    position: int
    sys_flag: int
    born_ms: int
    store_ms: int
    reconsume_times: int


def usual(data: bytes | memoryview, start: int, size: int) -> Usual | None:
    """The record data[start : start + size], if it is a usual one that passes all its checks.

    Any other may be sound or not. Of bytes, body and tail are copies; of a view, they are views.
    """
    if size < RECORD_SIZE_MIN or start + size > len(data):
        return None
    (found_size, magic, crc, queue_id, flag, queue_offset, position, sys_flag, born_ms, born_1,
     born_2, store_ms, store_1, store_2, times, mark, body_size,
    ) = _WORDS.unpack_from(data, start)  # fmt: skip
    body_at = start + HEADER_SIZE
    tail_at, end = body_at + body_size, start + size
    if magic != MAGIC or sys_flag & _V6 or not mark & MARK_PRESENT or found_size != size:
        return None
    if tail_at + 3 > end or (queue_id | sys_flag | times) >> 31 or (born_ms | store_ms) >> 63:
        return None
    body, tail = data[body_at:tail_at], data[tail_at:end]
    text_at = 3 + tail[0]
    if text_at > len(tail) or tail[text_at - 2] << 8 | tail[text_at - 1] != len(tail) - text_at:
        return None
    if crc32(body) & 0x7FFFFFFF != crc:
        return None
    words = size ^ magic ^ crc ^ queue_id ^ flag ^ sys_flag ^ born_ms ^ born_1 ^ born_2 ^ store_ms
    words ^= store_1 ^ store_2 ^ times ^ (mark & ~MARK_CHECK_MASK) ^ body_size
    if fold(words) ^ tail_check(tail) != mark >> MARK_CHECK_SHIFT & 0xFFFF:
        return None
    return _new_tuple(
        Usual, (body, tail, queue_id, queue_offset, position, sys_flag, born_ms, store_ms, times)
    )


def is_sound(view: memoryview, position: int) -> bool:
    """Would `decode` take these bytes, all of them, for the record at `position`?

    For readers that pass records on as they are; the usual kind is not decoded for that.
    """
    found = usual(view, 0, len(view))
    return found.position == position if found is not None else _is_sound_rare(view, position)


def _is_sound_rare(view: memoryview, position: int) -> bool:
    """Wide hosts, long topics, records of RocketMQ's own, and what is no record at all."""
    try:
        decode(view, position=position)
    except CorruptRecord:
        return False
    return int.from_bytes(view[:4], "big") == len(view)


def _decode_fields(
    view: memoryview, size: int, magic: int, path: str, where: int
) -> tuple[Record, int]:
    header = layout.header(*layout.host_sizes(layout.sys_flag_of(view)))
    topic_size_bytes = 1 if magic == MAGIC else 2
    body_at = header.size
    if body_at + topic_size_bytes + 2 > size:
        raise _corrupt(path, where, f"expected room for its hosts, found size {size}")
    (_, _, crc, queue_id, flag, queue_offset, own_position, sys_flag, born_ms, born_host, store_ms,
     store_host, reconsume_times, mark, body_size) = header.unpack_from(view)  # fmt: skip
    topic_at = body_at + body_size + topic_size_bytes
    if topic_at + 2 > size:
        raise _corrupt(path, where, f"expected a body within {size} bytes, found {body_size}")
    topic_size = int.from_bytes(view[topic_at - topic_size_bytes : topic_at], "big")
    properties_at = topic_at + topic_size + 2
    properties_size = int.from_bytes(view[properties_at - 2 : properties_at], "big")
    if properties_at + properties_size != size:
        raise _corrupt(
            path,
            where,
            f"expected fields that fill {size}, found {properties_at + properties_size}",
        )
    record = Record(
        queue_id=queue_id,
        flag=flag,
        queue_offset=queue_offset,
        position=own_position,
        sys_flag=sys_flag,
        born_ms=born_ms,
        born_host=born_host,
        store_ms=store_ms,
        store_host=store_host,
        reconsume_times=reconsume_times,
        mark=mark,
        body=bytes(view[body_at : body_at + body_size]),
        topic=bytes(view[topic_at : topic_at + topic_size]),
        properties=bytes(view[properties_at:]),
        magic=magic,
    )
    return record, crc


def seal(record: Record) -> bytes:
    """Encode a record whose mark's check is made to match; the mark's flags and number stay."""
    mark = record.mark & ~MARK_CHECK_MASK | MARK_PRESENT
    unchecked = record if record.mark == mark else replace(record, mark=mark)
    return record.encode(mark | _check_of(unchecked, body_crc(record.body)))


def tail_check(tail: bytes | memoryview) -> int:
    """16 bits over topic and properties with their sizes: a CRC-32, folded.

    The fold was chosen so that no single flipped bit within 40,000 bytes goes unseen.
    """
    crc = crc32(tail)
    return (crc ^ crc >> 5 ^ crc >> 8) & 0xFFFF


def fold(value: int) -> int:
    """XOR of the four 16-bit words of a 64-bit number: any one flipped bit flips one bit of it."""
    value ^= value >> 32
    value ^= value >> 16
    return value & 0xFFFF


@lru_cache(maxsize=65_536)
def host_words(host: bytes) -> int:
    """A packed host as one 64-bit XOR of its 32-bit words, for the check."""
    words = struct.unpack(f">{len(host) // 4}I", host)
    result = 0
    for word in words:
        result ^= word
    return result


def _check_of(record: Record, crc: int) -> int:
    """The check bits, at their place in the mark."""
    words = (
        record.size_bytes
        ^ record.magic
        ^ crc
        ^ (record.queue_id & _MASK32)
        ^ (record.flag & _MASK32)
        ^ (record.sys_flag & _MASK32)
        ^ (record.born_ms & _MASK64)
        ^ host_words(record.born_host)
        ^ (record.store_ms & _MASK64)
        ^ host_words(record.store_host)
        ^ (record.reconsume_times & _MASK32)
        ^ (record.mark & ~MARK_CHECK_MASK & _MASK64)
        ^ len(record.body)
    )
    topic_size = len(record.topic).to_bytes(1 if record.magic == MAGIC else 2, "big")
    tail = b"".join(
        (topic_size, record.topic, len(record.properties).to_bytes(2, "big"), record.properties)
    )
    return (fold(words) ^ tail_check(tail)) << MARK_CHECK_SHIFT


def _corrupt(path: str, position: int, reason: str) -> CorruptRecord:
    return CorruptRecord(
        f"record at {position} of {path or 'the log'}: {reason}", path=path, position=position
    )
