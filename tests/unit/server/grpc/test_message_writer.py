"""Bytes of received messages are those that protobuf's own classes make."""

from __future__ import annotations

import contextlib
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.unit.store.recording import make_record

from dueline import compiled
from dueline.broker.inflight import Held
from dueline.broker.inflight.plain_rows import PLAIN_KERNELS
from dueline.message import encode_properties
from dueline.server.grpc.message_table import MESSAGE_KERNELS
from dueline.server.grpc.message_writer import MessageWriter
from dueline.server.grpc.stubs import message_class
from dueline.store.record import MARK_DELAYED, MARK_PRESENT, seal

Received = message_class("ReceiveMessageResponse")
HEAD_SIZE = 5
NAMES = [
    "TAGS", "KEYS", "UNIQ_KEY", "__SHARDINGKEY", "TRACE_CONTEXT", "__BORNHOST", "TRAN_MSG",
    "TIMER_OUT_MS", "TIMER_DELIVER_MS", "DELAY", "RETRY_TOPIC", "DLQ_ORIGIN_TOPIC", "own", "größe",
]  # fmt: skip

times = st.one_of(st.integers(0, 2_000), st.integers(0, 1 << 42), st.just(-1))
values = st.one_of(
    st.text(st.characters(exclude_characters="\x01\x02", exclude_categories=["Cs"]), min_size=1),
    st.sampled_from(["true", "a  b\u2003c", "17000", "x\udcff", "\u00b2", "y" * 200]),
)
held_messages = st.builds(
    lambda fields, properties, attempt: Held(
        seal(make_record(properties=encode_properties(properties), **fields)),
        receipt="receipt" * 9,
        attempt=attempt,
        visible_ms=0,
    ),
    st.fixed_dictionaries(
        {
            "body": st.one_of(st.binary(max_size=300), st.just(b"x" * 20_000)),
            "queue_id": st.integers(0, 1_023),
            "queue_offset": st.one_of(st.integers(0, 300), st.integers(0, 1 << 60)),
            "born_ms": times,
            "store_ms": times,
            "born_host": st.binary(min_size=8, max_size=8),
            "reconsume_times": st.sampled_from([0, 3, 2**31 - 1]),
            "sys_flag": st.sampled_from([0, 8]),
            "mark": st.sampled_from([MARK_PRESENT, MARK_PRESENT | MARK_DELAYED | 5]),
        }
    ),
    st.dictionaries(st.sampled_from(NAMES), values),
    st.integers(1, 300),
)


def writer(invisible_ms: int = 30_500) -> MessageWriter:
    topic = message_class("Resource")(resource_namespace="ns", name="orders")
    return MessageWriter(topic, invisible_ms, group="billing")


@given(held=held_messages, invisible_ms=st.sampled_from([1, 30_500, 43_200_000]))
def test_bytes_are_those_of_the_classes(held: Held, invisible_ms: int) -> None:
    made = writer(invisible_ms)

    data = made.write(held)

    assert data[0] == 0
    assert int.from_bytes(data[1:HEAD_SIZE], "big") == len(data) - HEAD_SIZE
    expected = made.by_classes(held)
    assert Received.FromString(data[HEAD_SIZE:]) == expected
    if len(expected.message.user_properties) < 2:  # a map has no order
        assert data[HEAD_SIZE:] == expected.SerializeToString()


@pytest.mark.parametrize("is_compiled", [True, False])
def test_what_cannot_be_shown_is_left_out(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture, is_compiled: bool
) -> None:
    if is_compiled:
        pytest.importorskip("numba")
        assert compiled.load([PLAIN_KERNELS, MESSAGE_KERNELS])
    odd, usual = (
        Held(
            seal(make_record(properties=encode_properties(properties))),
            receipt="r",
            attempt=1,
            visible_ms=0,
        )
        for properties in ({"TRAN_MSG": "true"}, {"TAGS": "a"})
    )
    made = writer()
    expected = made.write(usual)
    write = MessageWriter.write

    def fail(self: MessageWriter, held: Held) -> bytes:
        if held is odd:
            raise ValueError("cannot be shown")
        return write(self, held)

    monkeypatch.setattr(MessageWriter, "write", fail)
    with contextlib.nullcontext() if is_compiled else compiled.switched_off():
        assert b"".join(made.write_all([usual, odd, usual])) == expected * 2
    assert caplog.messages == ["billing: a message of orders cannot be shown"]


@pytest.mark.parametrize(
    ("fields", "properties"),
    [
        ({"sys_flag": 0x10, "born_host": bytes(20)}, {}),
        ({"sys_flag": 1, "body": b"not compressed"}, {}),
        ({}, {"DLQ_ORIGIN_TOPIC": "ns%orders", "DLQ_ORIGIN_MESSAGE_ID": "m1"}),
        ({}, {"TAGS": "x\udcff"}),
        ({"born_ms": -5}, {}),
    ],
)
def test_what_is_rare_is_written_too(fields: dict[str, Any], properties: dict[str, str]) -> None:
    record = make_record(properties=encode_properties(properties), **fields)
    held = Held(seal(record), receipt="r", attempt=1, visible_ms=0)

    found = Received.FromString(writer().write(held)[HEAD_SIZE:])

    assert found == writer().by_classes(held)
    assert found.message.body == record.body
    assert found.message.system_properties.receipt_handle == "r"
