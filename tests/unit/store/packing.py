"""Delayed messages of all kinds for tests of packed records."""

from __future__ import annotations

import struct
import zlib
from dataclasses import replace

from hypothesis import strategies as st

from dueline.message import LEVEL_MAX, LEVEL_TOPIC, TIMER_TOPIC
from dueline.store import layout, packed
from dueline.store.packed import Fields, ending
from dueline.store.record import (
    MARK_DELAYED,
    MARK_GROUP,
    MARK_NUMBER_MASK,
    MARK_PRESENT,
    Record,
    is_packed,
    unpacked,
)

DUE_MS = 1_800_000_000_000

_words = st.text("ABab09 _-ä", max_size=12).map(str.encode)
_ids = st.one_of(
    st.binary(min_size=1, max_size=20).map(lambda data: data.hex().upper().encode()),
    st.binary(min_size=250, max_size=260).map(lambda data: data.hex().upper().encode()),
    st.sampled_from([b"", b"0", b"ABC", b"order-7", b"ab12", b"12\n"]),
)
_properties = st.one_of(
    st.tuples(st.sampled_from([b"TAGS", b"KEYS", b"WAIT", b"X"]), _words),
    st.tuples(st.just(b"UNIQ_KEY"), _ids),
    st.tuples(st.just(b"UNIQ_KEY"), st.binary(min_size=16, max_size=16).map(bytes.hex).map(
        lambda text: text.upper().encode()
    )),
    st.tuples(
        st.just(b"TIMER_DELIVER_MS"),
        st.sampled_from([b"%d" % DUE_MS, b"%d0" % DUE_MS, b"7", b"%d" % (DUE_MS - 1)]),
    ),
    st.tuples(st.just(b"LONG"), st.integers(200, 400).map(lambda size: b"x" * size)),
)  # fmt: skip
texts = st.one_of(
    st.lists(_properties, max_size=5).map(
        lambda pairs: b"\x02".join(b"\x01".join(pair) for pair in pairs)
    ),
    st.lists(
        st.one_of(
            st.sampled_from([b"\x01", b"\x02", b"\x02\x02", b"UNIQ_KEY", b"UNIQ_KEY\x01AB12"]),
            st.just(b"TIMER_DELIVER_MS\x01%d" % DUE_MS),
            _words,
        ),
        max_size=8,
    ).map(b"".join),
)
"""Properties as clients may have sent them, and others that nobody sends."""

level_queues = st.one_of(st.integers(0, 1023), st.sampled_from([1024, LEVEL_MAX - 1]))
"""The queues of delay levels: there may be more levels than a topic may have queues."""

hosts = st.tuples(st.binary(min_size=4, max_size=4), st.integers(0, 0x10100)).map(
    lambda host: host[0] + host[1].to_bytes(4, "big")
)


@st.composite
def records(draw: st.DrawFn) -> tuple[Record, bytes]:
    """A delayed message's record, and its properties without their ending."""
    is_timer = draw(st.booleans())
    store_ms = draw(st.sampled_from([0, 1_700_000_000_000, (1 << 47) + 5]))
    born_ms = draw(st.sampled_from([store_ms, 0, 1_699_999_999_000, (1 << 48) - 1, 1 << 48]))
    topic = draw(st.sampled_from([b"t", b"orders", b"%RETRY%g", b"x" * 127]))
    queue_id = draw(st.integers(0, 1023))
    text = draw(texts)
    is_rare = draw(st.booleans())
    is_member = draw(st.booleans())
    record = Record(
        queue_id=0 if is_timer else draw(level_queues),
        flag=draw(st.integers(-(1 << 31) + 1, (1 << 31) - 1)) if is_rare else 0,
        queue_offset=draw(st.integers(0, (1 << 48) - 1)),
        position=draw(st.one_of(st.integers(0, 1 << 20), st.integers(1 << 40, 1 << 45))),
        sys_flag=draw(st.integers(0, (1 << 31) - 1)) & ~0x30 if is_rare else 0,
        born_ms=born_ms,
        born_host=draw(hosts),
        store_ms=store_ms,
        store_host=draw(hosts),
        reconsume_times=draw(st.integers(0, (1 << 31) - 1)) if is_rare else 0,
        mark=MARK_PRESENT | MARK_DELAYED | MARK_GROUP * is_member | draw(st.integers(0, 1 << 43)),
        body=draw(st.binary(max_size=300)),
        topic=(TIMER_TOPIC if is_timer else LEVEL_TOPIC).encode(),
        properties=text + ending(topic, queue_id, DUE_MS if is_timer else None),
    )
    return record, text


def packed_of(record: Record, text: bytes) -> bytes | None:
    """A record packed, if it can be; its ending says topic and queue."""
    is_timer = record.topic == TIMER_TOPIC.encode()
    found = packed.packing_of(text, DUE_MS if is_timer else None)
    if (
        found is None
        or not packed.is_packable(
            born_ms=record.born_ms,
            born_host=record.born_host,
            body_size=len(record.body),
            due_ms=DUE_MS,
        )
        or record.store_host[4:6] != b"\0\0"
    ):
        return None
    *_, real_topic, real_queue = record.properties.split(b"\x02")
    fields = Fields(
        is_timer=is_timer,
        is_member=bool(record.mark & MARK_GROUP),
        queue_id=int(real_queue.split(b"\x01")[1]),
        number=record.mark & MARK_NUMBER_MASK,
        store_ms=record.store_ms,
        born_ms=record.born_ms,
        born_host=record.born_host,
        store_host=record.store_host,
        when=DUE_MS if is_timer else record.queue_id,
        queue_offset=record.queue_offset,
        flag=record.flag,
        sys_flag=record.sys_flag,
        times=record.reconsume_times,
        body=record.body,
        topic=real_topic.split(b"\x01")[1],
        text=b"",
    )
    return packed.encode(fields, found, record.position)


USUAL = Record(
    queue_id=0,
    flag=0,
    queue_offset=12,
    position=4_096,
    sys_flag=0,
    born_ms=1_700_000_000_000,
    born_host=b"\x7f\0\0\1\0\0\xc3\x50",
    store_ms=1_700_000_000_003,
    store_host=b"\x0a\0\0\1\0\0\x2a\x9f",
    reconsume_times=0,
    mark=0x6000_0000_0000_0007,
    body=b"body" * 10,
    topic=TIMER_TOPIC.encode(),
    properties=b"",
)
USUAL_TEXT = b"KEYS\x01k\x02UNIQ_KEY\x01" + b"7F000001" * 4 + b"\x02TIMER_DELIVER_MS\x01%d" % DUE_MS


def usual_record(text: bytes = USUAL_TEXT) -> Record:
    """A message as many are, with these properties."""
    return replace(USUAL, properties=text + ending(b"waiting-messages", 3, DUE_MS))


def unpacked_rows(data: bytes, positions: list[int]) -> list[bytes]:
    """Records that stand one behind the other, each as it is read at its position."""
    rows = [bytes(row) for row in layout.split(memoryview(data))]
    return [
        unpacked(memoryview(row), position) if is_packed(row) else row
        for row, position in zip(rows, positions, strict=True)
    ]


def resealed(data: bytes, position: int) -> bytes:
    """With the CRC that the other bytes have."""
    word = len(data) ^ position & 0xFFFFFFFF ^ position >> 32
    return data[:8] + struct.pack(">I", zlib.crc32(data[12:]) ^ word) + data[12:]
