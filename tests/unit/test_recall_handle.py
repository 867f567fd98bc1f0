"""Recall handles: RocketMQ's form, and nothing else is taken for one."""

from __future__ import annotations

import base64

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dueline.errors import InvalidRequest
from dueline.recall_handle import RecallHandle


def handle(unique_id: str = "0102FC") -> RecallHandle:
    return RecallHandle(
        topic="orders", broker_name="broker-a", due_ms=1_800_000_000_000, unique_id=unique_id
    )


def test_handle_has_rocketmqs_form() -> None:
    text = handle().encode()

    assert base64.urlsafe_b64decode(text) == b"v1 orders broker-a 1800000000000 0102FC"


@pytest.mark.parametrize("unique_id", ["0102FC", "with spaces in it", "é", "\udcff"])
def test_handle_names_any_unique_id(unique_id: str) -> None:
    made = handle(unique_id)

    assert RecallHandle.decode(made.encode()) == made
    assert RecallHandle.decode(made.encode().rstrip("=")) == made


def test_handle_is_for_one_topic_of_one_broker() -> None:
    handle().check(topic="orders", broker_name="broker-a")

    with pytest.raises(InvalidRequest, match="expected topic 'orders', found 'other'"):
        handle().check(topic="other", broker_name="broker-a")
    with pytest.raises(InvalidRequest, match="expected broker 'broker-b', found 'broker-a'"):
        handle().check(topic="orders", broker_name="broker-b")


@given(text=st.one_of(st.text(max_size=60), st.just("A" * 100_000)))
def test_other_text_is_refused(text: str) -> None:
    with pytest.raises(InvalidRequest):
        RecallHandle.decode(text)
