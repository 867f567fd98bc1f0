"""Messages of a receive at once: the same bytes as one by one."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.unit.server.grpc.test_message_writer import HEAD_SIZE, Received, held_messages, writer
from tests.unit.store.recording import make_record

from dueline import compiled
from dueline.broker.inflight import Held
from dueline.broker.inflight.plain_rows import PLAIN_KERNELS
from dueline.message import encode_properties
from dueline.server.grpc.message_table import MESSAGE_KERNELS
from dueline.store.record import MARK_DELAYED, MARK_PRESENT, seal

pytest.importorskip("numba")

usual_messages = st.builds(
    lambda body, properties, numbers: Held(
        seal(
            make_record(
                body=body,
                properties=encode_properties(properties),
                queue_id=numbers[0],
                born_ms=numbers[1],
                store_ms=numbers[1] + numbers[2],
                mark=MARK_PRESENT | (MARK_DELAYED | 5 if numbers[0] % 2 else 0),
            )
        ),
        receipt="receipt" * 9,
        attempt=numbers[0] + 1,
        visible_ms=0,
    ),
    st.binary(max_size=300),
    st.dictionaries(
        st.sampled_from(["TAGS", "KEYS", "UNIQ_KEY", "WAIT", "own", "other", "TAGS2"]),
        st.text(st.characters(min_codepoint=3, max_codepoint=126), min_size=1, max_size=200),
    ),
    st.tuples(st.integers(0, 300), st.integers(0, 1 << 42), st.integers(0, 9_999)),
)


@pytest.fixture(scope="module", autouse=True)
def kernels() -> None:
    assert compiled.load([PLAIN_KERNELS, MESSAGE_KERNELS])


def frames(data: bytes) -> list[bytes]:
    found = []
    while data:
        end = HEAD_SIZE + int.from_bytes(data[1:HEAD_SIZE], "big")
        found.append(data[:end])
        data = data[end:]
    return found


@given(
    messages=st.lists(st.one_of(held_messages, usual_messages), min_size=3, max_size=9),
    invisible_ms=st.sampled_from([1, 43_200_000]),
)
def test_all_at_once_are_as_one_by_one(messages: list[Held], invisible_ms: int) -> None:
    made = writer(invisible_ms)

    found = frames(b"".join(made.write_all(messages)))

    expected = [made.write(held) for held in messages]
    assert list(map(len, found)) == list(map(len, expected))
    for one, other in zip(found, expected, strict=True):
        answer = Received.FromString(one[HEAD_SIZE:])
        assert answer == Received.FromString(other[HEAD_SIZE:])
        if len(answer.message.user_properties) < 2:  # a map has no order
            assert one == other


@pytest.mark.parametrize("body_size", [0, 1, 54, 55, 56, 57, 63, 64, 65, 119, 120, 200, 5_000])
def test_usual_ones_are_written_by_the_kernel(body_size: int) -> None:
    properties = {"TAGS": "a", "KEYS": "k1  k2 ", "UNIQ_KEY": "i", "own": "x" * 300, "WAIT": "y"}
    record = make_record(
        properties=encode_properties(properties),
        body=(bytes(range(256)) * 20)[:body_size],
        born_ms=1_700_000_000_000,
        queue_id=300,
    )
    held = Held(seal(record), receipt="r" * 64, attempt=2, visible_ms=0)
    made = writer()

    (data,) = made.write_all([held] * 3)

    assert data == made.write(held) * 3


@pytest.mark.parametrize(
    "properties",
    [
        b"",
        b"a",
        b"a\x01",
        b"\x01x",
        b"a\x01x\x02\x02a\x01y",
        b"a\x01x\x01y\x02",
        b"TAGS\x01\x02TAGS\x01q",
        b"TAGS\x01p\x02TAGS\x01q\x02",
        b"WAIT\x01p\x02WAIT\x01q",
        b"".join(b"%d\x01v\x02" % number for number in range(40)),
    ],
)
def test_odd_properties_are_written_as_one_by_one(properties: bytes) -> None:
    record = make_record(properties=properties)
    held = Held(seal(record), receipt="r", attempt=1, visible_ms=0)
    made = writer()

    found = frames(b"".join(made.write_all([held] * 3)))

    assert [Received.FromString(each[HEAD_SIZE:]) for each in found] == [made.by_classes(held)] * 3
