"""The tail of a log: torn bytes are cut, whole groups stay, and what was synced is only damaged."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.unit.store.recording import make_record

from dueline.store import control
from dueline.store.files import Files
from dueline.store.log import Log
from dueline.store.record import MARK_GROUP, MARK_PRESENT, seal
from dueline.store.tail import cut_tail, missing_segments

SEGMENT = 4096


@pytest.fixture
def log(tmp_path: Path) -> Iterator[Log]:
    log = Log(Files(), tmp_path, SEGMENT)
    yield log
    log.close()


def put(log: Log, body: bytes, mark: int = MARK_PRESENT) -> int:
    """Append a sealed record; returns its position."""
    size = len(seal(make_record(body=body, mark=mark)))
    (position,), end = log.place([size])
    log.reserve(end)
    log.append([position], [size], [seal(make_record(body=body, mark=mark, position=position))])
    return position


def put_end(log: Log, start: int, count: int) -> None:
    size = control.encoded_size(0)
    (position,), end = log.place([size])
    log.reserve(end)
    entry = control.Control(kind=control.END, start=start, count=count)
    log.append([position], [size], [control.encode(entry, position=position, store_ms=0)])


def reopened(log: Log) -> Log:
    log.sync()
    return Log(Files(), log.folder, SEGMENT)


def test_a_whole_log_is_left_as_it_is(log: Log) -> None:
    positions = [put(log, b"one"), put(log, b"two")]
    again = reopened(log)

    found, cut_bytes = cut_tail(again, 0, 0, 0)

    assert found.positions.tolist() == positions
    assert (again.end, cut_bytes, found.damage) == (log.end, 0, [])


def test_torn_bytes_are_cut_and_zeros_follow(log: Log) -> None:
    put(log, b"one")
    end = log.end
    log.file_of(0).write_at(end, b"torn" * 10)
    again = reopened(log)

    found, _ = cut_tail(again, 0, 0, 0)

    assert len(found.positions) == 1
    assert again.end == end
    assert not any(again.file_of(0).read_at(end, 100))


@pytest.mark.parametrize("is_ended", [False, True])
def test_a_group_counts_as_a_whole_or_not_at_all(log: Log, *, is_ended: bool) -> None:
    put(log, b"before")
    before = log.end
    first = put(log, b"member", MARK_PRESENT | MARK_GROUP)
    put(log, b"member", MARK_PRESENT | MARK_GROUP)
    if is_ended:
        put_end(log, first, 2)
    again = reopened(log)

    found, _ = cut_tail(again, 0, 0, 0)

    assert len(found.positions) == (4 if is_ended else 1)
    assert again.end == (log.end if is_ended else before)


def test_a_group_with_an_end_but_not_all_of_its_records_is_cut(log: Log) -> None:
    first = put(log, b"member", MARK_PRESENT | MARK_GROUP)
    put_end(log, first, 2)
    again = reopened(log)

    found, _ = cut_tail(again, 0, 0, 0)

    assert len(found.positions) == 0
    assert again.end == 0


def test_what_was_synced_is_damaged_and_not_torn(log: Log) -> None:
    put(log, b"one")
    at = put(log, b"two")
    log.file_of(0).write_at(at + 90, b"X")
    again = reopened(log)

    found, cut_bytes = cut_tail(again, 0, 0, log.end)

    assert len(found.positions) == 1
    assert [damage.start for damage in found.damage] == [at]
    assert (again.end, cut_bytes) == (log.end, 0)


def test_a_hint_of_another_log_is_not_believed(log: Log) -> None:
    put(log, b"one")
    again = reopened(log)

    cut_tail(again, 0, 0, 3_000)

    assert again.end == log.end


def test_missing_segments_are_named(log: Log) -> None:
    for _ in range(6):
        put(log, bytes(2_000))
    assert missing_segments(log, 0) == []

    log.drop_segment(SEGMENT)

    assert [(gap.start, gap.end) for gap in missing_segments(log, 0)] == [(SEGMENT, 2 * SEGMENT)]
