"""Many records checked in one step: the same is said as of one record after the other."""

from __future__ import annotations

from random import Random

from hypothesis import given, settings
from hypothesis import strategies as st
from tests.unit.store.recording import make_record

from dueline.message import SYS_COMPRESSED, pack_host
from dueline.store.lanes import LANES_MAX, are_plain, cut
from dueline.store.record import MARK_DELAYED, seal, usual

INT32 = st.integers(-(1 << 31), (1 << 31) - 1)
INT64 = st.integers(-(1 << 63), (1 << 63) - 1)
FIELDS = st.fixed_dictionaries(
    {},
    optional={
        "queue_id": INT32,
        "flag": INT32,
        "queue_offset": INT64,
        "position": INT64,
        "sys_flag": (st.integers(0, 0x3FF) | INT32).map(lambda flags: flags & ~0x30),
        "born_ms": INT64,
        "store_ms": INT64,
        "reconsume_times": INT32,
        "mark": st.integers(0, (1 << 44) - 1).map(lambda number: MARK_DELAYED | number),
        "body": st.binary(max_size=300),
        "properties": st.binary(max_size=300),
    },
)
RECORDS = st.lists(FIELDS, min_size=1, max_size=12)


def sealed(fields: list[dict[str, object]]) -> list[bytes]:
    return [seal(make_record(**each)) for each in fields]


def is_plain(record: bytes) -> bool:
    """What the one-by-one reader says, and that nothing has to be unpacked."""
    parts = usual(record, 0, len(record))
    return parts is not None and not parts.sys_flag & SYS_COMPRESSED


@given(RECORDS)
def test_records_are_cut_into_their_parts(fields: list[dict[str, object]]) -> None:
    data = b"front" + b"".join(sealed(fields))

    parts = cut(data, 5)

    assert b"".join(map(b"".join, zip(*parts[:3], strict=True))) == data[5:]
    assert parts.end == len(data)
    assert parts.bodies == [each.get("body", b"body") for each in fields]


@given(RECORDS)
def test_all_are_plain_if_each_of_them_is(fields: list[dict[str, object]]) -> None:
    records = sealed(fields)

    assert are_plain(cut(b"".join(records), 0)) == all(map(is_plain, records))


@settings(max_examples=300)
@given(RECORDS, st.data())
def test_a_flipped_bit_is_noticed_where_one_by_one_it_is(
    fields: list[dict[str, object]], data: st.DataObject
) -> None:
    records = sealed(fields)
    which = data.draw(st.integers(0, len(records) - 1))
    bit = data.draw(st.integers(0, len(records[which]) * 8 - 1))
    damaged = bytearray(records[which])
    damaged[bit >> 3] ^= 1 << (bit & 7)
    records[which] = bytes(damaged)

    parts = cut(b"".join(records), 0)

    is_cut_alike = len(parts.heads) == len(records) and parts.end == sum(map(len, records))
    assert (is_cut_alike and are_plain(parts)) == all(map(is_plain, records))


def test_every_bit_of_a_record_between_others_counts() -> None:
    before, record, after = sealed([{"queue_offset": number} for number in range(3)])
    unchecked = range(20, 36)  # queue offset and position

    for place in range(len(record)):
        for bit in range(8):
            damaged = bytearray(record)
            damaged[place] ^= 1 << bit
            parts = cut(before + damaged + after, 0)
            is_taken = len(parts.heads) == 3 and are_plain(parts)
            assert is_taken == (place in unchecked), (place, bit)


def test_records_of_another_layout_are_not_plain() -> None:
    wide = seal(make_record(sys_flag=1 << 4, born_host=pack_host("2001:db8::7", 1)))
    foreign = make_record(mark=0).encode()
    usual_ones = b"".join(sealed([{}] * 8))

    for odd in (wide, foreign):
        parts = cut(usual_ones + odd, 0)
        assert len(parts.heads) == 8 or not are_plain(parts)


def test_topics_of_other_lengths_are_left_to_others() -> None:
    records = [seal(make_record(topic=topic)) for topic in (b"orders", b"payments")]

    assert not are_plain(cut(b"".join(records), 0))


def test_there_are_no_more_lanes_than_fit() -> None:
    record = seal(make_record())

    parts = cut(record * (LANES_MAX + 1), 0)

    assert len(parts.heads) == LANES_MAX
    assert parts.end == LANES_MAX * len(record)
    assert are_plain(parts)


def test_nothing_is_nothing() -> None:
    assert cut(b"", 0).end == 0
    assert not are_plain(cut(b"", 0))


def test_of_any_bytes_no_more_is_cut_than_is_there() -> None:
    """Sizes that lie: too small, too large, of the body beyond the record."""
    random = Random(7)
    whole = b"".join(sealed([{"body": random.randbytes(size)} for size in range(20)]))

    for _ in range(3_000):
        data = bytearray(whole[: random.randrange(len(whole) + 1)])
        for _ in range(random.randrange(4)):
            if data:
                data[random.randrange(len(data))] = random.choice((0, 1, 0x7F, 0xFF))
        parts = cut(bytes(data), 0)
        assert parts.end <= len(data)
        assert b"".join(map(b"".join, zip(*parts[:3], strict=True))) == data[: parts.end]
        are_plain(parts)
