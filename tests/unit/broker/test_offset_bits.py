"""Sets of offsets, and what they spare a restart."""

import sys
from pathlib import Path
from types import SimpleNamespace

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.unit.broker.test_transactions import Broker

from dueline.broker import transactions
from dueline.broker.offset_bits import Offsets
from dueline.message import HALF_TOPIC
from dueline.store import Record
from dueline.store import record as records
from dueline.testing import ManualClock


@given(
    start=st.integers(0, 20),
    added=st.sets(st.integers(0, 70)),
    size=st.integers(0, 60),
    offset=st.integers(0, 90),
)
def test_a_gap_is_the_next_stretch_that_is_not_there(
    start: int, added: set[int], size: int, offset: int
) -> None:
    some = Offsets(start, start + size)
    for each in added:
        some.add(each)
    inside = {each for each in added if start <= each < start + size}

    found, end = some.gap(offset)

    assert found == next(each for each in range(offset, 200) if each not in inside)
    assert end == min((each for each in inside if each > found), default=sys.maxsize)


def test_restart_reads_no_half_message_that_is_decided(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One that is stuck for a day must not make a restart read all of that day's."""
    broker = Broker(tmp_path, ManualClock(1_700_000_000_000))
    stuck = broker.half(b"stuck")
    for number in range(60):
        half = broker.half()
        if number % 20:
            broker.end(half, commit=False)
    undecided = [half.queue_offset for half in broker.transactions.due(1 << 60)]
    read: list[int] = []

    def decoded(view: memoryview) -> Record:
        record = records.decode(view)
        if record.topic == HALF_TOPIC.encode():
            read.append(record.queue_offset)
        return record

    monkeypatch.setattr(transactions, "records", SimpleNamespace(decode=decoded))
    broker.reopen(save=True)

    assert undecided == [0, 1, 21, 41]
    assert read == undecided
    assert [half.queue_offset for half in broker.transactions.due(1 << 60)] == undecided
    assert broker.end(stuck, commit=True) is None
    broker.store.close()
