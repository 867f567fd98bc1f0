"""A walk through a log finds every sound record, and names what is none."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.unit.audit.making import FILES, replace_in
from tests.unit.store.making import START_MS, Wall, open_store, ordinary

from dueline.audit.walk import LogWalk
from dueline.store import Store, control
from dueline.store.control import Control

SEGMENT = 16_384


@pytest.fixture
def store(tmp_path: Path) -> Iterator[Store]:
    store = open_store(tmp_path, Wall())
    yield store
    store.close()


def put(store: Store, *texts: bytes) -> list[tuple[int, int]]:
    """Send messages; returns where their records begin and end."""
    starts = [store.put(ordinary(text)).position for text in texts]
    return [(start, start + _size_at(store, start)) for start in starts]


def _size_at(store: Store, position: int) -> int:
    """A record begins with its size."""
    path = store.path / "commitlog" / f"{position - position % SEGMENT:020d}"
    at = position % SEGMENT
    return int.from_bytes(path.read_bytes()[at : at + 4], "big")


def walked(root: Path, start: int = 0) -> tuple[LogWalk, list[tuple[int, int]]]:
    folder = root / "commitlog"
    bases = sorted(int(path.name) for path in folder.iterdir())
    walk = LogWalk(FILES, folder, bases, SEGMENT, start=start)
    found = [
        (position, position + size)
        for batch in walk.batches()
        for position, size in zip(batch.positions.tolist(), batch.sizes.tolist(), strict=True)
    ]
    return walk, found


def test_every_record_is_found_over_all_segments(store: Store, tmp_path: Path) -> None:
    sent = put(store, *[bytes([65 + number]) * 3_000 for number in range(12)])

    walk, found = walked(tmp_path)

    assert found == sent
    assert (walk.record_count, walk.end, walk.damage) == (12, sent[-1][1], [])
    assert len(walk.bases) > 2


def test_a_walk_may_begin_at_a_record(store: Store, tmp_path: Path) -> None:
    sent = put(store, *[bytes([65 + number]) * 3_000 for number in range(12)])

    assert walked(tmp_path, start=sent[7][0])[1] == sent[7:]


def test_an_empty_log_ends_where_it_begins(store: Store, tmp_path: Path) -> None:
    walk, found = walked(tmp_path)

    assert (found, walk.end, walk.damage) == ([], 0, [])


def test_damage_in_the_middle_hides_nothing_behind_it(store: Store, tmp_path: Path) -> None:
    sent = put(store, b"first text", b"second text", b"third text")
    replace_in(tmp_path / "commitlog", b"second", b"secand")

    walk, found = walked(tmp_path)

    assert found == [sent[0], sent[2]]
    ((start, end, is_tail),) = [(one.start, one.end, one.is_tail) for one in walk.damage]
    assert (start, end, is_tail) == (*sent[1], False)


def test_damage_at_the_end_is_a_tail(store: Store, tmp_path: Path) -> None:
    sent = put(store, b"first text", b"second text")
    replace_in(tmp_path / "commitlog", b"second", b"secand")

    walk, found = walked(tmp_path)

    assert found == sent[:1]
    assert walk.end == sent[0][1]
    ((start, is_tail),) = [(one.start, one.is_tail) for one in walk.damage]
    assert (start, is_tail) == (sent[1][0], True)


def test_a_record_inside_of_a_body_is_none(store: Store, tmp_path: Path) -> None:
    ((_, before),) = put(store, b"x" * 100)
    (probe,) = put(store, b"y" * 400)
    log = (tmp_path / "commitlog" / f"{0:020d}").read_bytes()
    into_body = log.index(b"y" * 400) - probe[0]
    at = probe[1] + into_body
    image = control.encode(Control(kind=control.END), position=at, store_ms=START_MS)
    assert len(image) < 400

    (sent,) = put(store, image)

    assert before == probe[0]
    walk, found = walked(tmp_path)
    assert found == [(0, before), probe, sent]
    assert walk.damage == []


def test_a_segment_that_is_deleted_meanwhile_is_no_damage(store: Store, tmp_path: Path) -> None:
    put(store, *[bytes([65 + number]) * 3_000 for number in range(12)])
    folder = tmp_path / "commitlog"
    bases = sorted(int(path.name) for path in folder.iterdir())
    walk = LogWalk(FILES, folder, [*bases, bases[-1] + SEGMENT], SEGMENT)
    list(walk.batches())

    assert walk.vanished == [bases[-1] + SEGMENT]


def test_progress_adds_up_to_all_bytes(store: Store, tmp_path: Path) -> None:
    put(store, b"a" * 3_000, b"b" * 3_000)
    folder = tmp_path / "commitlog"
    sizes: list[int] = []
    walk = LogWalk(FILES, folder, [0], SEGMENT, progress=sizes.append)
    list(walk.batches())

    assert sum(sizes) == SEGMENT
