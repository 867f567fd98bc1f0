"""A walk through a log finds every sound record, and names what is none."""

from __future__ import annotations

import struct
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.unit.audit.making import FILES, replace_in
from tests.unit.store import packing as making
from tests.unit.store.making import START_MS, Wall, open_store, ordinary
from tests.unit.store.packing import packed_of

from dueline.audit import walk
from dueline.audit.walk import LogWalk, _gather
from dueline.store import Store, control, packed
from dueline.store.control import Control
from dueline.store.record import is_sound, seal

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


def beginnings(count: int, size: int) -> bytes:
    """What packed records of this size begin with, one behind the other; no field is impossible."""
    head = struct.pack(">IIIBBBBI44x", size, packed.MAGIC, 0, packed.IS_TIMER, 1, 0, 0, size - 65)
    return head * count


def counted(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """How many bytes each record has that is read to be checked, from now on."""
    found: list[int] = []

    def gather(data: Any, starts: Any, sizes: Any) -> Any:
        found.extend(sizes.tolist())
        return _gather(data, starts, sizes)

    monkeypatch.setattr(walk, "_gather", gather)
    return found


def test_a_body_full_of_beginnings_is_not_looked_into(
    store: Store, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    sent = put(store, b"first", beginnings(100, 3_000), b"x" * 3_000, b"last")
    checked = counted(monkeypatch)

    walk_, found = walked(tmp_path)

    assert (found, walk_.damage) == (sent, [])
    assert checked == [end - start for start, end in sent]


def test_nor_is_one_whose_beginning_was_read_with_the_bytes_before_it(
    store: Store, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    sent = put(store, b"first", beginnings(100, 3_000), b"x" * 3_000, b"last")
    monkeypatch.setattr(walk, "BLOCK_BYTES", 500)
    checked = counted(monkeypatch)

    walk_, found = walked(tmp_path)

    assert (found, walk_.damage) == (sent, [])
    assert checked == [end - start for start, end in sent]


def test_what_only_seems_to_begin_a_record_is_not_read(
    store: Store, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """In a damaged record every place is looked at, but few have fields that fill what they say."""
    sent = put(store, b"<word>" + struct.pack(">II", 3_000, packed.MAGIC) * 500, b"y" * 3_000)
    replace_in(tmp_path / "commitlog", b"<word>", b"<ward>")
    checked = counted(monkeypatch)

    _, found = walked(tmp_path)

    assert found == sent[1:]
    assert checked == [end - start for start, end in sent]


@pytest.mark.parametrize("lead", ["far", "into", "short"])
def test_a_wrong_size_hides_nothing(store: Store, tmp_path: Path, lead: str) -> None:
    sent = put(store, *[bytes([65 + number]) * 700 for number in range(6)])
    path = tmp_path / "commitlog" / f"{0:020d}"
    size = {"far": sent[4][0], "into": sent[2][0] + 50, "short": sent[1][0] + 200}[lead]
    data = bytearray(path.read_bytes())
    data[sent[1][0] : sent[1][0] + 4] = struct.pack(">I", size - sent[1][0])
    path.write_bytes(data)

    walk_, found = walked(tmp_path)

    assert found == [sent[0], *sent[2:]]
    assert [(one.start, one.end) for one in walk_.damage] == [sent[1]]


@given(st.data())
def test_found_is_what_looking_at_every_place_finds(data: st.DataObject) -> None:
    """From the end of each sound record the next place at which one begins, whatever is between."""
    log = bytearray()
    for _ in range(data.draw(st.integers(1, 8))):
        record, text = data.draw(making.records())
        record = replace(record, position=len(log))
        if data.draw(st.booleans()) and log:  # a body with what was a record elsewhere, or here
            at = data.draw(st.integers(0, 1)) * (len(log) + 88)
            record = replace(record, body=seal(replace(record, position=at)))
        stored = (packed_of(record, text) if data.draw(st.booleans()) else None) or seal(record)
        log += stored if len(log) + len(stored) < SEGMENT else b""
    for at in data.draw(st.lists(st.integers(0, len(log) - 1), max_size=3)):
        log[at] ^= 1 << data.draw(st.integers(0, 7))
    expected, at = [], 0
    while at < len(log):
        size = int.from_bytes(log[at : at + 4], "big")
        if is_sound(memoryview(log)[at : at + size], at):
            expected.append((at, at + size))
            at += size
        else:
            at += 1

    with TemporaryDirectory() as folder, pytest.MonkeyPatch.context() as patch:
        patch.setattr(walk, "BLOCK_BYTES", data.draw(st.sampled_from([300, 1_000, 16 << 20])))
        (Path(folder) / "commitlog").mkdir()
        segment = bytes(log).ljust(SEGMENT, b"\0")
        (Path(folder) / "commitlog" / f"{0:020d}").write_bytes(segment)

        assert walked(Path(folder))[1] == expected


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
