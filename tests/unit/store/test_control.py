"""Control records: read back as written, and looked past by RocketMQ."""

from __future__ import annotations

import hypothesis.strategies as st
import pytest
from hypothesis import given
from tests.golden.layout import parse
from tests.unit.store.making import int64s
from tests.unit.store.recording import make_record

from dueline.errors import CorruptRecord
from dueline.store import control
from dueline.store import record as records
from dueline.store.control import CANCEL, END, Control


@pytest.mark.parametrize(
    "entry",
    [
        Control(kind=END, start=100, count=5),
        Control(kind=END, start=1 << 40, count=0, numbers=int64s(1, 2, 1 << 43)),
        Control(kind=CANCEL, numbers=int64s(7)),
    ],
)
def test_control_is_read_back(entry: Control) -> None:
    data = control.encode(entry, position=500, store_ms=77)

    record = records.decode(data, position=500)
    found = control.decode(record)

    assert control.is_control(record)
    assert len(data) == control.encoded_size(len(entry.numbers))
    assert (found.kind, found.start, found.count) == (entry.kind, entry.start, entry.count)
    assert found.numbers.tolist() == entry.numbers.tolist()
    assert record.store_ms == 77
    assert record.seq is None


@given(
    start=st.integers(0, 1 << 50),
    count=st.integers(1, 5_000),
    size=st.integers(0, 1 << 40),
    store_ms=st.integers(0, 1 << 45),
    numbers=st.lists(st.integers(0, 1 << 43), max_size=3),
)
def test_the_end_of_a_group_is_a_control_record(
    start: int, count: int, size: int, store_ms: int, numbers: list[int]
) -> None:
    listed = int64s(*numbers)
    places = [start] * count + [start + size]

    end = control.group_end(places, store_ms, listed)

    said = Control(kind=END, start=start, count=count, numbers=listed)
    assert end == control.encode(said, position=start + size, store_ms=store_ms)


def test_rocketmq_reads_it_as_rolled_back() -> None:
    fields = parse(control.encode(Control(kind=CANCEL), position=0, store_ms=0))

    assert fields["sys_flag"] == 12
    assert fields["topic"] == b"DUELINE_SYS_CONTROL"


@pytest.mark.parametrize("body", [b"", b"E" + bytes(23), b"Y" + bytes(24), b"E" + bytes(25)])
def test_other_bodies_are_refused(body: bytes) -> None:
    with pytest.raises(CorruptRecord, match="kind and its numbers"):
        control.decode(make_record(topic=b"DUELINE_SYS_CONTROL", body=body))


def test_other_topics_are_no_control() -> None:
    assert not control.is_control(make_record())
