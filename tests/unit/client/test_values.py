"""What a message says in the words of the protocol, and what is understood of one."""

from __future__ import annotations

import base64
import pickle
import zlib
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from tests.unit.store.recording import make_record

from dueline.client import Outgoing, Received, Sent
from dueline.client.values import read_messages
from dueline.errors import CorruptRecord, InvalidRequest
from dueline.store.record import Record, seal

NOW_MS = 1_800_000_000_000


def said(**given: Any) -> dict[str, str]:
    message = Outgoing(topic="orders", body=b"", **given)
    return message.to_properties("ID", NOW_MS)


def received(properties: dict[str, str], *, attempt: int = 0) -> Received:
    return Received(
        topic="orders",
        body=b"",
        id="ID",
        tag=None,
        keys=(),
        properties=properties,
        queue_id=0,
        queue_offset=0,
        attempt=attempt,
        born_ms=0,
        store_ms=0,
        position=0,
    )


@pytest.mark.parametrize(
    ("given", "properties"),
    [
        ({}, {}),
        ({"tag": "paid"}, {"TAGS": "paid"}),
        ({"keys": "k1"}, {"KEYS": "k1"}),
        ({"keys": ["k1", "k2"]}, {"KEYS": "k1 k2"}),
        ({"properties": {"a": "b"}}, {"a": "b"}),
        ({"delay": 1.5}, {"TIMER_DELAY_MS": "1500"}),
        ({"delay": timedelta(minutes=1)}, {"TIMER_DELAY_MS": "60000"}),
        ({"delay": "1h 30m"}, {"TIMER_DELAY_MS": "5400000"}),
        ({"delay_level": 3}, {"DELAY": "3"}),
        (
            {"deliver_at": datetime.fromtimestamp(NOW_MS / 1_000 + 5, UTC)},
            {"TIMER_DELIVER_MS": str(NOW_MS + 5_000)},
        ),
    ],
    ids=lambda value: ",".join(value) if isinstance(value, dict) else "",
)
def test_what_is_given_is_said(given: dict[str, Any], properties: dict[str, str]) -> None:
    assert said(**given) == {"UNIQ_KEY": "ID", **properties}


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ({"delay": 1, "delay_level": 3}, "found several"),
        ({"keys": "k1 k2"}, "several keys are a list"),
        ({"keys": [""]}, "words without spaces"),
        ({"delay_level": -1}, "expected 0 or more, found -1"),
        ({"deliver_at": datetime.fromtimestamp(NOW_MS / 1_000 - 86_400, UTC)}, "deliver_at"),
        ({"properties": {"REAL_TOPIC": "x"}}, "property REAL_TOPIC"),
    ],
)
def test_what_nobody_can_mean_is_refused_in_words(given: dict[str, Any], words: str) -> None:
    with pytest.raises(InvalidRequest, match=words):
        said(**given)


def test_text_as_a_body_is_refused_with_the_remedy() -> None:
    text: Any = "text"

    with pytest.raises(InvalidRequest, match=r"found str; encode it: text\.encode\(\)"):
        Outgoing(topic="orders", body=text).to_properties("ID", NOW_MS)


@pytest.mark.parametrize(
    ("given", "is_delayed"),
    [({}, False), ({"delay": 0}, True), ({"properties": {"TIMER_DELAY_SEC": "1"}}, True)],
)
def test_a_time_in_a_property_is_a_time(given: dict[str, Any], is_delayed: bool) -> None:
    assert Outgoing(topic="orders", body=b"", **given).is_delayed == is_delayed


def handle(*words: str) -> str:
    return base64.urlsafe_b64encode(" ".join(words).encode()).decode()


@pytest.mark.parametrize(
    ("text", "due_ms"),
    [
        (handle("v1", "t", "b", "1794789727685", "ID"), 1794789727685),
        (handle("v2", "t", "b", "1794789727685", "ID"), None),
        (handle("v1", "t", "b", "soon", "ID"), None),
        ("no base64", None),
        (None, None),
    ],
)
def test_a_handle_tells_the_due_time_if_it_is_of_a_known_kind(
    text: str | None, due_ms: int | None
) -> None:
    sent = Sent(topic="t", id="ID", offset_id="", queue_id=0, queue_offset=0, handle=text)

    assert sent.due_ms == due_ms


@pytest.mark.parametrize(
    ("properties", "due_ms"),
    [({"TIMER_OUT_MS": "17"}, 17), ({"TIMER_OUT_MS": "-1"}, None), ({}, None)],
)
def test_a_received_message_tells_when_it_was_due(
    properties: dict[str, str], due_ms: int | None
) -> None:
    assert received(properties).due_ms == due_ms


def test_a_retried_message_has_no_level_of_its_own() -> None:
    assert received({"DELAY": "3"}).level == 3
    assert received({"DELAY": "0"}).level is None
    assert received({"DELAY": "3"}, attempt=1).level is None


PROPERTIES = b"UNIQ_KEY\x01ID\x02TAGS\x01paid\x02KEYS\x01k1 k2\x02a\x01b"
EXPECTED = Received(
    topic="orders",
    body=b"body",
    id="ID",
    tag="paid",
    keys=("k1", "k2"),
    properties={"UNIQ_KEY": "ID", "TAGS": "paid", "KEYS": "k1 k2", "a": "b"},
    queue_id=1,
    queue_offset=7,
    attempt=2,
    born_ms=1_700_000_000_000,
    store_ms=1_700_000_000_001,
    position=1_234,
)


def record(**fields: Any) -> Record:
    usual = {"queue_offset": 7, "position": 1_234, "reconsume_times": 2, "properties": PROPERTIES}
    return make_record(**usual | fields)


@pytest.mark.parametrize(
    "data",
    [
        seal(record()),
        record(mark=0).encode(),
        seal(record(sys_flag=1 << 4, born_host=bytes(20))),
        seal(record(sys_flag=1, body=zlib.compress(b"body"))),
    ],
    ids=["usual", "of RocketMQ", "IPv6", "compressed"],
)
def test_messages_are_read_as_their_records_say(data: bytes) -> None:
    assert read_messages(data) == [EXPECTED]
    assert read_messages(data * 2) == [EXPECTED, EXPECTED]


def test_a_retried_message_has_the_topic_that_it_was_sent_to() -> None:
    properties = PROPERTIES + b"\x02RETRY_TOPIC\x01orders"

    (message,) = read_messages(seal(record(topic=b"%RETRY%billing", properties=properties)))

    assert message.topic == "orders"


@pytest.mark.parametrize("name", ["topic", "id", "tag", "keys", "properties"])
def test_any_part_of_a_message_may_be_asked_for_first(name: str) -> None:
    (message,) = read_messages(seal(record()))

    assert getattr(message, name) == getattr(EXPECTED, name)


def test_a_message_can_be_copied_before_it_was_looked_at() -> None:
    (message,) = read_messages(seal(record()))

    assert pickle.loads(pickle.dumps(message)) == EXPECTED


def test_a_part_that_no_message_has_is_an_attribute_error() -> None:
    (message,) = read_messages(seal(record()))

    with pytest.raises(AttributeError, match="'Received' object has no attribute 'color'"):
        message.color  # type: ignore[attr-defined]  # noqa: B018


@pytest.mark.parametrize("name", ["queue_id", "queue_offset", "attempt", "born_ms", "position"])
def test_any_number_of_a_message_may_be_asked_for_first(name: str) -> None:
    (message,) = read_messages(seal(record()))

    assert getattr(message, name) == getattr(EXPECTED, name)


@pytest.mark.parametrize("count", [1, 7, 8, 300])
def test_many_messages_are_read_as_each_of_them(count: int) -> None:
    records = [seal(record(queue_offset=number, body=b"%d" * number)) for number in range(count)]
    odd = seal(record(sys_flag=1, body=zlib.compress(b"body")))

    one_by_one = [read_messages(each)[0] for each in records]

    assert read_messages(b"".join(records)) == one_by_one
    assert read_messages(b"".join([*records, odd, *records])) == [
        *one_by_one,
        EXPECTED,
        *one_by_one,
    ]


def test_a_flipped_bit_among_many_records_is_noticed() -> None:
    whole = seal(record())

    for place in (4, 9, 38, 90, len(whole) - 1):
        damaged = bytearray(whole)
        damaged[place] ^= 1
        with pytest.raises(CorruptRecord):
            read_messages(whole * 20 + damaged + whole * 20)


def test_what_is_cut_off_behind_many_records_is_noticed() -> None:
    whole = seal(record())

    for size in (1, 3, 50, len(whole) - 1):
        with pytest.raises(CorruptRecord):
            read_messages(whole * 20 + whole[:size])


def test_a_flipped_bit_in_a_record_is_noticed() -> None:
    data = seal(record())
    late = range(20, 36)  # queue offset and position have no check

    for place in [place for place in range(len(data)) if place not in late]:
        damaged = bytearray(data)
        damaged[place] ^= 1
        with pytest.raises(CorruptRecord):
            read_messages(bytes(damaged))
