"""Recall handles: RocketMQ's form, and nothing else is taken for one."""

from __future__ import annotations

import base64

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dueline.server.grpc.codes import Refused
from dueline.server.grpc.sending import decode_handle, encode_handle


def test_handle_has_rocketmqs_form() -> None:
    handle = encode_handle("orders", "broker-a", 1_800_000_000_000, "0102FC")

    assert base64.urlsafe_b64decode(handle) == b"v1 orders broker-a 1800000000000 0102FC"
    assert decode_handle(handle, "orders") == "0102FC"


def test_handle_of_another_topic_is_refused() -> None:
    handle = encode_handle("orders", "broker-a", 1, "id")

    with pytest.raises(Refused):
        decode_handle(handle, "other")


@given(text=st.one_of(st.text(max_size=60), st.just("A" * 10_000)))
def test_other_text_is_refused(text: str) -> None:
    with pytest.raises(Refused):
        decode_handle(text, "orders")
