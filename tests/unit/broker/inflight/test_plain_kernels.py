"""Rows of records beside the plain form of each."""

from __future__ import annotations

import random

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.unit.store.recording import make_record
from tests.unit.wire.turn_oracle import changed

from dueline import compiled
from dueline.broker.inflight import Held
from dueline.broker.inflight.plain_rows import (
    PLAIN_BODY_END,
    PLAIN_BODY_START,
    PLAIN_BORN_HOST,
    PLAIN_BORN_MS,
    PLAIN_IS_DELAYED,
    PLAIN_KERNELS,
    PLAIN_OFFSET,
    PLAIN_QUEUE_ID,
    PLAIN_STORE_HOST,
    PLAIN_STORE_MS,
    PLAIN_TEXT_END,
    PLAIN_TEXT_START,
    PLAIN_TIMES,
    plain_rows,
)
from dueline.message import encode_properties
from dueline.store.record import MARK_DELAYED, MARK_PRESENT, seal

pytest.importorskip("numba")

numbers64 = st.integers(-(1 << 63), (1 << 63) - 1)
numbers32 = st.integers(-(1 << 31), (1 << 31) - 1)
records = st.builds(
    lambda fields, properties: seal(
        make_record(properties=encode_properties(properties), **fields)
    ),
    st.fixed_dictionaries(
        {
            "body": st.binary(max_size=90),
            "queue_id": numbers32,
            "queue_offset": numbers64,
            "born_ms": numbers64,
            "store_ms": numbers64,
            "reconsume_times": numbers32,
            "sys_flag": st.sampled_from([0, 1, 8]),
            "topic": st.sampled_from([b"t", b"t" * 127]),
            "mark": st.sampled_from([0, MARK_PRESENT, MARK_PRESENT | MARK_DELAYED | 5]),
        }
    ),
    st.dictionaries(st.text("abc", min_size=1), st.text("abc", min_size=1)),
)


def rows_of(found: list[bytes]) -> tuple[bytes, list[list[int]]]:
    assert compiled.load([PLAIN_KERNELS])
    data, rows = plain_rows(compiled.ready(PLAIN_KERNELS), found)
    return data.tobytes(), rows.tolist()


@given(st.lists(records, min_size=1, max_size=4))
def test_rows_say_what_the_plain_form_says(found: list[bytes]) -> None:
    data, rows = rows_of(found)

    for record, row in zip(found, rows, strict=True):
        held = Held(record, receipt="", attempt=1, visible_ms=0)
        plain = held.plain()
        assert (plain is None) == (row[PLAIN_BODY_START] < 0)
        if plain is not None:
            assert plain == (
                row[PLAIN_QUEUE_ID],
                row[PLAIN_OFFSET],
                row[PLAIN_BORN_MS],
                data[row[PLAIN_BORN_HOST] : row[PLAIN_BORN_HOST] + 8],
                row[PLAIN_STORE_MS],
                data[row[PLAIN_STORE_HOST] : row[PLAIN_STORE_HOST] + 8],
                row[PLAIN_TIMES],
                bool(row[PLAIN_IS_DELAYED]),
                data[row[PLAIN_BODY_START] : row[PLAIN_BODY_END]],
            )
            assert data[row[PLAIN_TEXT_START] : row[PLAIN_TEXT_END]] == held.record.properties


@given(st.lists(records, min_size=1, max_size=3), st.integers(0, 1 << 30))
def test_what_does_not_fit_together_has_no_places(found: list[bytes], seed: int) -> None:
    generator = random.Random(seed)
    found = [changed(generator, each) for each in found]

    _, rows = rows_of(found)

    start = 0
    for record, row in zip(found, rows, strict=True):
        if row[PLAIN_BODY_START] >= 0:
            places = row[PLAIN_BODY_START : PLAIN_TEXT_END + 1]
            assert places == sorted(places)
            assert start < places[0]
            assert places[-1] == start + len(record)
        start += len(record)
