"""Room and names for the messages of a receive."""

from __future__ import annotations

import pytest
from tests.unit.store.recording import make_record

from dueline import compiled
from dueline.admission import RESERVED_PROPERTIES
from dueline.broker.inflight import Held
from dueline.broker.inflight.plain_rows import PLAIN_KERNELS
from dueline.message import encode_properties
from dueline.server.grpc.message_table import MESSAGE_KERNELS, write_table
from dueline.store.record import seal

pytest.importorskip("numba")


def held(properties: bytes, *, receipt: str = "r", body: bytes = b"") -> Held:
    record = make_record(properties=properties, body=body)
    return Held(seal(record), receipt=receipt, attempt=1, visible_ms=0)


def written(messages: list[Held]) -> tuple[bytes, list[int]]:
    assert compiled.load([PLAIN_KERNELS, MESSAGE_KERNELS])
    kernels = compiled.ready(PLAIN_KERNELS), compiled.ready(MESSAGE_KERNELS)
    return write_table(*kernels, messages, b"\x0a\x00", b"\x80\x01")


@pytest.mark.parametrize(
    "properties",
    [
        b"\x02".join(b"%c\x01v" % letter for letter in b"abcdefghijklmnopqrstuvwxyzABCDEF"),
        b"KEYS\x01" + b"k " * 16_000,
        b"a\x01" + b"v" * 32_000,
        b"UNIQ_KEY\x01" + b"v" * 32_000,
        b"",
    ],
)
def test_there_is_room_for_what_grows_most(properties: bytes) -> None:
    messages = [held(properties, receipt="r" * 300, body=b"b" * 3_000) for _ in range(5)]

    data, ends = written(messages)

    assert ends == [len(data) * number // 5 for number in range(1, 6)]
    assert data[: ends[0]] * 5 == data


def test_more_properties_than_there_is_room_for_are_left_out() -> None:
    many = b"".join(b"%d\x01v\x02" % number for number in range(33))

    data, ends = written([held(many), held(b"a\x01b"), held(many)])

    assert ends == [0, len(data), len(data)]
    assert data


@pytest.mark.parametrize("name", sorted(RESERVED_PROPERTIES))
def test_no_reserved_property_is_shown_as_the_users(name: str) -> None:
    without, _ = written([held(b"")])

    data, ends = written([held(encode_properties({name: "value-of-it"}))])

    if name in ("TAGS", "KEYS", "UNIQ_KEY"):
        assert b"value-of-it" in data
    else:
        assert ends == [0] or data == without
