"""What a message says in the words of the protocol, and what is understood of one."""

from __future__ import annotations

import base64
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from dueline.client import Outgoing, Received, Sent
from dueline.errors import InvalidRequest

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
