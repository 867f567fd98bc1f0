"""An append: where records and their group's end go, and what keeps the gate shut meanwhile."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
from tests.unit.store.making import SMALL, START_MS, QuickFiles, Wall, int64s

from dueline.errors import StoreFailed
from dueline.store import control
from dueline.store import record as records
from dueline.store.append import Append, gate_shut
from dueline.store.core import Core
from dueline.store.log import BLANK_SIZE, Log

SEGMENT = SMALL.commit_segment_size_bytes


@pytest.fixture
def core(tmp_path: Path) -> Iterator[Core]:
    made = Core(tmp_path, SMALL, clock=Wall().clock(), files=QuickFiles())
    yield made
    made.close()


def filled(sizes: list[int], first: int = 0) -> list[bytes]:
    return [bytes([65 + first + row]) * size for row, size in enumerate(sizes)]


@pytest.mark.parametrize("before", [0, 100, SEGMENT - BLANK_SIZE - 300])
@pytest.mark.parametrize("sizes", [[300], [300, 1], [301], [100, 200, 300, 16_000, 5]])
def test_lists_are_placed_as_arrays_are(core: Core, before: int, sizes: list[int]) -> None:
    core.commit.end = before

    places, end = core.commit.place(sizes)

    expected, expected_end = core.commit.place(np.array(sizes, dtype=np.int64))
    assert (places, end) == (expected.tolist(), expected_end)


@pytest.mark.parametrize("kind", ["list", "array"])
@pytest.mark.parametrize("sizes", [[300], [100, 200], [9_000, 9_000, 50]])
def test_records_stand_where_they_were_placed(core: Core, sizes: list[int], kind: str) -> None:
    for number in range(3):
        parts = filled(sizes, number * 8)
        positions = _append(core, sizes, [b"".join(parts)], is_array=kind == "array")

        assert core.commit.end == positions[-1] + sizes[-1]
        for position, part in zip(positions, parts, strict=True):
            assert bytes(core.commit.read(position, len(part))) == part


def test_parts_need_not_end_where_records_or_segments_do(core: Core) -> None:
    sizes = [9_000, 9_000, 50, 16_000]
    whole = b"".join(filled(sizes))
    parts = [whole[:1], whole[1:9_500], whole[9_500:18_050], b"", whole[18_050:]]

    positions = _append(core, sizes, parts, is_array=True)

    assert positions == [0, SEGMENT, SEGMENT + 9_000, 2 * SEGMENT]
    for position, part in zip(positions, filled(sizes), strict=True):
        assert bytes(core.commit.read(position, len(part))) == part


def _append(core: Core, sizes: list[int], parts: list[bytes], *, is_array: bool) -> list[int]:
    if is_array:
        with Append(core, core.commit, np.array(sizes, dtype=np.int64)) as by_array:
            by_array.write_parts(np.frombuffer(part, dtype=np.uint8) for part in parts)
        return list(by_array.positions.tolist())
    with Append(core, core.commit, sizes) as append:
        append.write_parts(parts)
    return append.positions


@pytest.mark.parametrize("sizes", [[120, 130], [16_000, 16_000]])
@pytest.mark.parametrize("is_array", [False, True])
def test_a_group_ends_with_a_record_that_says_what_it_is(
    core: Core, sizes: list[int], *, is_array: bool
) -> None:
    data = b"".join(filled(sizes))
    numbers = int64s(5, 9)

    if is_array:
        with Append(core, core.delay, np.array(sizes), numbers=numbers) as of_array:
            of_array.stamp()
            of_array.write(np.frombuffer(data, dtype=np.uint8))
        positions = of_array.positions.tolist()
    else:
        with Append(core, core.delay, sizes, numbers=numbers) as append:
            append.stamp()
            append.write(data)
        positions = append.positions

    assert len(positions) == len(sizes)
    size = control.encoded_size(len(numbers))
    end = _control_at(core.delay, core.delay.end - size)
    assert (end.kind, end.start, end.count) == (control.END, positions[0], len(sizes))
    assert end.numbers.tolist() == [5, 9]


def _control_at(log: Log, position: int) -> control.Control:
    view = log.read(position, log.end - position)
    return control.decode(records.decode(view, position=position))


def test_a_group_of_nothing_but_its_end(core: Core) -> None:
    with Append(core, core.commit, int64s(), numbers=int64s(3)) as append:
        append.stamp()
        append.write(np.empty(0, dtype=np.uint8))

    end = _control_at(core.commit, 0)
    assert (end.start, end.count, end.numbers.tolist()) == (0, 0, [3])


def shut_ms(core: Core) -> int | None:
    """From when on the gate is shut."""
    return core.in_flight_ms


def test_gate_is_shut_from_the_stamp_to_the_end(core: Core) -> None:
    with Append(core, core.commit, [100]) as append:
        assert shut_ms(core) is None
        assert append.stamp() == START_MS
        assert shut_ms(core) == START_MS
        append.shut_gate(START_MS - 7)
        assert shut_ms(core) == START_MS - 7

    assert shut_ms(core) is None


def test_an_append_to_the_delay_log_leaves_the_gate_as_it_is(core: Core) -> None:
    with gate_shut(core):
        with Append(core, core.delay, [100]) as append:
            append.stamp()
            append.write(bytes(100))

        assert shut_ms(core) == START_MS
    assert shut_ms(core) is None


def test_gate_opens_again_after_a_failed_write_and_the_store_is_closed(core: Core) -> None:
    with Append(core, core.commit, [100]) as append:
        append.stamp()
        core.commit.file_of(0).write_at = _no_space  # type: ignore[method-assign]
        with pytest.raises(StoreFailed, match="No space"):
            append.write(bytes(100))

    assert shut_ms(core) is None
    assert core.is_failed


def _no_space(position: int, data: object) -> None:
    raise OSError(28, "No space left on device")
