"""A broker's backup: a cut that stays whole, one at a time, for as long as somebody asks."""

from __future__ import annotations

import struct
import zlib
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.unit.store.making import START_MS, QuickFiles, Wall, delayed, open_store, ordinary

from dueline.broker import backups as module
from dueline.broker.backups import LEASE_S, Backups
from dueline.errors import InvalidRequest, NotFound, Unavailable
from dueline.store import Store


class Seconds:
    """The time that leases are measured in."""

    now_s = 1_000.0

    def __call__(self) -> float:
        return self.now_s


@pytest.fixture
def seconds(monkeypatch: pytest.MonkeyPatch) -> Seconds:
    seconds = Seconds()
    monkeypatch.setattr(module, "monotonic", seconds)
    return seconds


@pytest.fixture
def store(tmp_path: Path) -> Iterator[Store]:
    store = open_store(tmp_path / "store", Wall())
    yield store
    store.close()


@pytest.fixture
def backups(store: Store, tmp_path: Path) -> Backups:
    def save() -> None:
        (tmp_path / "topics.json").write_text("topics in memory")

    return Backups(store, files=QuickFiles(), save=save)


def copied(backups: Backups, hold: str) -> dict[str, bytes]:
    """All files of a backup, put together from their pieces."""
    files = backups.files(hold)
    found = {one.path: bytearray(one.size_bytes) for one in files}
    for number, position, data in backups.pieces(hold, range(len(files))):
        found[files[number].path][position : position + len(data)] = data
    return {path: bytes(data) for path, data in found.items()}


def test_a_backup_says_what_its_cut_holds(backups: Backups, store: Store, tmp_path: Path) -> None:
    store.put(delayed(5_000))
    store.put(delayed(6_000))
    store.put(ordinary())

    begun = backups.begin()

    assert (begun.accepted, begun.pending, begun.now_ms) == (2, 2, START_MS)
    assert begun.folder == tmp_path
    assert begun.file_count == len(backups.files(begun.hold))


def test_the_copy_opens_as_the_store_was_when_it_was_cut(
    backups: Backups, store: Store, tmp_path: Path
) -> None:
    store.put(ordinary(b"before"))
    begun = backups.begin()
    store.put(ordinary(b"after"))

    target = tmp_path / "restored"
    for name, data in copied(backups, begun.hold).items():
        path = target / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(data)

    assert (target / "topics.json").read_text() == "topics in memory"
    with open_store(target / "store", Wall()) as restored:
        assert restored.offset_range("orders", 0) == (0, 1)
        assert b"before" in bytes(restored.read("orders", 0, 0).records[0])


def test_small_files_are_taken_without_what_nobody_needs(
    backups: Backups, store: Store, tmp_path: Path
) -> None:
    for name in (
        "groups.json",
        "spark.log",
        "spark.log.1",
        "serve.lock",
        "half.tmp",
        "receipts.log",
    ):
        (tmp_path / name).write_bytes(b"no receipts")
    (tmp_path / "link").symlink_to(tmp_path / "groups.json")
    (tmp_path / "sub").mkdir()
    (tmp_path / "sub" / "note").write_bytes(b"n")

    begun = backups.begin()

    small = {
        one.path: one.size_bytes
        for one in backups.files(begun.hold)
        if not one.path.startswith("store/")
    }
    assert set(small) >= {"groups.json", "topics.json", "receipts.log", "sub/note"}
    assert not {"spark.log", "spark.log.1", "serve.lock", "link"} & set(small)
    assert small["groups.json"] == 11


def test_receipts_are_taken_without_a_write_that_is_under_way(
    backups: Backups, tmp_path: Path
) -> None:
    payload = struct.pack(">cQ", b"T", 17)
    frame = struct.pack(">II", len(payload), zlib.crc32(payload)) + payload
    whole = b"DUEPOP01" + bytes(4) + frame
    (tmp_path / "receipts.log").write_bytes(whole + frame[:-1])

    assert copied(backups, backups.begin().hold)["receipts.log"] == whole


def test_one_backup_at_a_time(backups: Backups, seconds: Seconds) -> None:
    first = backups.begin().hold
    with pytest.raises(Unavailable, match="wait until it is done"):
        backups.begin()

    assert not backups.end("another")
    with pytest.raises(Unavailable):
        backups.begin()
    assert backups.end(first)
    assert not backups.end(first)
    assert backups.begin().hold != first


def test_a_lease_runs_out_unless_somebody_asks(backups: Backups, seconds: Seconds) -> None:
    hold = backups.begin().hold
    seconds.now_s += LEASE_S - 1
    assert backups.renew(hold) == LEASE_S
    seconds.now_s += LEASE_S - 1
    backups.files(hold)

    seconds.now_s += LEASE_S
    with pytest.raises(NotFound, match="run the backup again"):
        backups.renew(hold)
    assert backups.begin().hold != hold


def test_nothing_of_the_cut_is_deleted_until_it_ends(tmp_path: Path, seconds: Seconds) -> None:
    wall = Wall()
    with open_store(tmp_path / "store", wall) as store:
        backups = Backups(store, files=QuickFiles(), save=lambda: None)
        for _ in range(12):
            store.put(ordinary(bytes(4_000)))
        hold = backups.begin().hold
        wall.advance(365 * 86_400_000)

        store.retain()
        assert store.offset_range("orders", 0)[0] == 0
        backups.end(hold)
        store.retain()
        assert store.offset_range("orders", 0)[0] > 0


def test_a_cut_that_fails_holds_nothing(store: Store, seconds: Seconds) -> None:
    failures = iter([OSError("no room")])

    def save() -> None:
        for error in failures:
            raise error

    backups = Backups(store, files=QuickFiles(), save=save)
    with pytest.raises(OSError, match="no room"):
        backups.begin()

    assert backups.begin().file_count > 0


def test_files_are_asked_for_by_numbers_that_exist(backups: Backups) -> None:
    begun = backups.begin()
    for number in (-1, begun.file_count):
        with pytest.raises(InvalidRequest, match=f"found {number}"):
            list(backups.pieces(begun.hold, [number]))
