"""Sizes of topics and properties; records are compared in `test_block_writing`."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.unit.store.making import START_MS
from tests.unit.store.test_draft import RULES

from dueline import compiled
from dueline.message import HOST_UNKNOWN, Message, UniqueIds, encode_properties
from dueline.store.block import KIND_LEVEL, KIND_ORDINARY, KIND_TIMER
from dueline.store.draft import prepare

pytest.importorskip("numba")


@pytest.fixture(scope="module")
def kernels() -> Any:
    name = "dueline.store.draft_kernels"
    assert compiled.load([name])
    return compiled.ready(name)


@given(
    st.sampled_from(["t", "orders", "x" * 127]),
    st.sampled_from([0, 9, 10, 1023]),
    st.text("ab", max_size=300),
    st.sampled_from([{}, {"DELAY": "2"}, {"TIMER_DELAY_MS": "7"}]),
)
def test_a_tail_is_as_long_as_a_drafts(
    kernels: Any, topic: str, queue_id: int, tag: str, delay: dict[str, str]
) -> None:
    properties = {"UNIQ_KEY": "A", "TAGS": tag, **delay}
    message = Message(topic=topic, body=b"", queue_id=queue_id, properties=properties)
    ids = UniqueIds(host=HOST_UNKNOWN, start_ms=START_MS)
    draft = prepare(message, now_ms=START_MS, rules=RULES, ids=ids)

    kind = KIND_LEVEL if "DELAY" in delay else KIND_TIMER if delay else KIND_ORDINARY
    text_size = len(encode_properties(properties))
    size = kernels.tail_size(kind, len(topic), text_size, queue_id, START_MS + 7)

    assert size == len(draft.tail)
