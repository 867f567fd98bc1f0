"""Where the fields of a record are. RocketMQ's layout; numbers are big-endian.

    0       4       8         12        16     20            28         36        40
    | total | magic | bodyCRC | queueId | flag | queueOffset | position | sysFlag | bornMs |
    48         56        64          72               76     84         88
    | bornHost | storeMs | storeHost | reconsumeTimes | mark | bodySize |
    | body | topicSize (1) | topic | propertiesSize (2) | properties |

Hosts have 4 + 4 bytes, or 16 + 4 where sysFlag says IPv6: then all behind them is `HOST_V6_EXTRA`
bytes further back for each. The positions above are IPv4's. What the fields mean is said in
`dueline.store.record`; `dueline.store.kernels` finds them in many records at once.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from functools import lru_cache
from typing import Final, TypeVar

from dueline.message import SYS_BORN_HOST_V6, SYS_STORE_HOST_V6

QUEUE_OFFSET_AT: Final = 20
QUEUE_OFFSET: Final = slice(QUEUE_OFFSET_AT, QUEUE_OFFSET_AT + 8)
"""It is late and has no check: readers compare it for every record."""
POSITION_AT: Final = 28
SYS_FLAG_AT: Final = 36
BORN_MS_AT: Final = 40
BORN_HOST_AT: Final = 48
STORE_MS_AT: Final = 56
STORE_HOST_AT: Final = 64
RECONSUME_TIMES_AT: Final = 72
MARK_AT: Final = 76
BODY_SIZE_AT: Final = 84
HEADER_SIZE: Final = 88
RECORD_SIZE_MIN: Final = HEADER_SIZE + 3
HOST_SIZE: Final = 8
HOST_V6_EXTRA: Final = 12
MAGIC_END_AT: Final = 7
LONG_TOPIC_END: Final = 0xAB
"""The last byte of the magic number of a record whose topic's size has two bytes."""

Joined = TypeVar("Joined", bytes, memoryview)
"""Records one behind the other."""
_U32: Final = struct.Struct(">I")
SIZE_MAGIC: Final = struct.Struct(">II")
SIZE_MAGIC_POSITION: Final = struct.Struct(">II20xq")
STORE_MS_END: Final = STORE_MS_AT + HOST_V6_EXTRA + 8
"""A record's first bytes that hold its store time, whatever its hosts are."""


@lru_cache
def header(born_size: int, store_size: int) -> struct.Struct:
    """The fields before the body, for hosts of these sizes."""
    return struct.Struct(f">IIIiiqqiq{born_size}sq{store_size}siQI")


assert header(HOST_SIZE, HOST_SIZE).size == HEADER_SIZE


def host_sizes(sys_flag: int) -> tuple[int, int]:
    """How many bytes a record's born host and store host have."""
    born = HOST_SIZE + (HOST_V6_EXTRA if sys_flag & SYS_BORN_HOST_V6 else 0)
    store = HOST_SIZE + (HOST_V6_EXTRA if sys_flag & SYS_STORE_HOST_V6 else 0)
    return born, store


def sys_flag_of(head: bytes | memoryview) -> int:
    """The sysFlag in a record's first bytes."""
    return int.from_bytes(head[SYS_FLAG_AT : SYS_FLAG_AT + 4], "big")


def properties_of(record: bytes) -> bytes:
    """The properties of a sound record, as they are stored."""
    (sys_flag,) = _U32.unpack_from(record, SYS_FLAG_AT)
    body_at = header(*host_sizes(sys_flag)).size if sys_flag else HEADER_SIZE
    at = body_at + _U32.unpack_from(record, body_at - 4)[0]
    topic_at = at + (2 if record[MAGIC_END_AT] == LONG_TOPIC_END else 1)
    return record[topic_at + int.from_bytes(record[at:topic_at], "big") + 2 :]


def queue_offset_of(record: bytes) -> int:
    """Where a record stands in its queue."""
    return int.from_bytes(record[QUEUE_OFFSET], "big")


def with_queue_offset(record: bytes | memoryview, offset: int) -> bytes:
    """A copy of a record with another queue offset."""
    changed = bytearray(record)
    changed[QUEUE_OFFSET] = offset.to_bytes(8, "big")
    return bytes(changed)


def split(records: Joined) -> Iterator[Joined]:
    """Each of the sound records that stand one behind the other."""
    at = 0
    while at < len(records):
        end = at + _U32.unpack_from(records, at)[0]
        yield records[at:end]
        at = end


def store_ms_of(head: bytes | memoryview) -> int:
    """The store time, from a record's first `STORE_MS_END` bytes."""
    at = BORN_HOST_AT + host_sizes(sys_flag_of(head))[0]
    return int.from_bytes(head[at : at + 8], "big")
