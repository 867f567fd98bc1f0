"""Looking into logs from outside: what a path is, and what stands where."""

from __future__ import annotations

import struct
from pathlib import Path

import pytest
from tests.golden.layout import SEGMENT, STORE, all_records
from tests.unit.store.making import Wall, delayed, open_store, ordinary
from tests.unit.store.recording import make_record

from dueline.errors import NotFound
from dueline.store import record as records
from dueline.store.inspection import BLANK, DAMAGE, GAP, RECORD, Entry, entries, find_logs
from dueline.store.record import BLANK_MAGIC, GAP_MAGIC

SIZE = 4096
NAME = "0" * 20


def sealed(position: int, body: bytes = b"body") -> bytes:
    return records.seal(make_record(position=position, body=body))


def listed(path: Path, data: bytes, **options: int) -> list[Entry]:
    """The entries of one segment with these bytes."""
    (path / NAME).write_bytes(data.ljust(SIZE, b"\0"))
    (log,) = find_logs(path)
    return list(entries(log, **options))  # type: ignore[arg-type]


def kinds(found: list[Entry]) -> list[tuple[str, int, int]]:
    return [(entry.kind, entry.position, entry.size) for entry in found]


# --- what a path is -------------------------------------------------------------------------------


def test_store_of_ours_has_two_logs(tmp_path: Path) -> None:
    with open_store(tmp_path, Wall()) as store:
        store.put_all([ordinary(), delayed(5)])

        commit, delay = find_logs(tmp_path)

        assert (commit.name, delay.name) == ("commitlog", "delaylog")
        assert [log.is_delay_log for log in (commit, delay)] == [False, True]
        assert commit.root == delay.root == tmp_path
        assert [base for base, _ in commit.segments] == [0]
        (lone,) = find_logs(tmp_path / "delaylog")
        assert lone.root == tmp_path
        assert lone.is_delay_log


def test_rocketmqs_store_has_one(tmp_path: Path) -> None:
    for path in (STORE, STORE / "commitlog", SEGMENT):
        (log,) = find_logs(path)
        assert log.root is None
        assert len(list(entries(log))) == len(all_records())
    assert tmp_path.is_dir()


def test_segment_under_another_name_says_where_it_starts(tmp_path: Path) -> None:
    path = tmp_path / "a copy.bin"
    path.write_bytes(sealed(8192).ljust(SIZE, b"\0"))

    (log,) = find_logs(path)

    assert log.segments == [(8192, path)]
    assert kinds(list(entries(log))) == [(RECORD, 8192, len(sealed(8192)))]


def test_fresh_store_has_empty_logs(tmp_path: Path) -> None:
    open_store(tmp_path, Wall()).close()

    assert [list(entries(log)) for log in find_logs(tmp_path)] == [[], []]


@pytest.mark.parametrize("kind", ["missing", "empty folder", "other folder", "other file", "empty"])
def test_what_is_no_store_is_refused(tmp_path: Path, kind: str) -> None:
    path = tmp_path / "x"
    if kind == "other folder":
        path.mkdir()
        (path / "README").write_text("hello")
    elif kind == "empty folder":
        path.mkdir()
    elif kind == "other file":
        path.write_text("hello " * 100)
    elif kind == "empty":
        path.write_bytes(b"")

    with pytest.raises(NotFound, match="expected") as caught:
        find_logs(path)

    assert caught.value.path == str(path)


# --- what stands where ----------------------------------------------------------------------------


def test_records_blanks_and_gaps(tmp_path: Path) -> None:
    gap = struct.pack(">II", 300, GAP_MAGIC).ljust(300, b"\0")
    end = 300 + len(sealed(300))
    data = gap + sealed(300) + struct.pack(">II", SIZE - end, BLANK_MAGIC)

    found = listed(tmp_path, data)

    assert kinds(found) == [(GAP, 0, 300), (RECORD, 300, end - 300), (BLANK, end, SIZE - end)]
    assert found[1].record is not None
    assert found[1].record.body == b"body"


def test_zeros_are_the_end(tmp_path: Path) -> None:
    assert kinds(listed(tmp_path, sealed(0))) == [(RECORD, 0, len(sealed(0)))]
    assert listed(tmp_path, b"") == []


def test_damaged_record_is_a_range_with_a_reason(tmp_path: Path) -> None:
    first, second, third = sealed(0), sealed(len(sealed(0)), b"bad"), b""
    third = sealed(len(first) + len(second))
    bad = bytearray(second)
    bad[90] ^= 1

    found = listed(tmp_path, first + bytes(bad) + third)

    assert kinds(found) == [
        (RECORD, 0, len(first)),
        (DAMAGE, len(first), len(second)),
        (RECORD, len(first) + len(second), len(third)),
    ]
    assert "body CRC" in found[1].reason


def test_torn_tail_is_a_range_with_a_reason(tmp_path: Path) -> None:
    first = sealed(0)
    torn = sealed(len(first), b"x" * 500)[:300]

    found = listed(tmp_path, first + torn)

    assert kinds(found) == [(RECORD, 0, len(first)), (DAMAGE, len(first), 300)]
    assert found[1].reason.startswith("torn: ")


def test_torn_tail_may_be_a_record_that_is_being_written(tmp_path: Path) -> None:
    first = sealed(0)
    second = sealed(len(first), b"x" * 500)
    (tmp_path / NAME).write_bytes((first + second[:300]).ljust(SIZE, b"\0"))
    (log,) = find_logs(tmp_path)
    asked = []

    def finish() -> bool:
        asked.append(True)
        if len(asked) == 2:
            with (tmp_path / NAME).open("r+b") as file:
                file.write(first + second)
        return len(asked) < 5

    found = list(entries(log, patience=finish))

    assert kinds(found) == [(RECORD, 0, len(first)), (RECORD, len(first), len(second))]
    assert len(asked) == 2


def test_garbage_after_zeros_is_damage(tmp_path: Path) -> None:
    found = listed(tmp_path, bytes(500) + b"garbage")

    assert kinds(found) == [(DAMAGE, 0, 507)]


def test_start_in_the_middle_of_a_record_goes_on_with_the_next(tmp_path: Path) -> None:
    first, size = sealed(0), len(sealed(0))
    data = first + sealed(size) + sealed(2 * size)

    assert [entry.position for entry in listed(tmp_path, data, start=1)] == [size, 2 * size]
    assert [entry.position for entry in listed(tmp_path, data, start=size)] == [size, 2 * size]
    assert listed(tmp_path, data, start=3 * size) == []
    assert listed(tmp_path, data, start=1 << 40) == []


def test_empty_segment_file_is_damage(tmp_path: Path) -> None:
    (tmp_path / NAME).write_bytes(b"")
    (log,) = find_logs(tmp_path)

    (entry,) = entries(log)

    assert (entry.kind, entry.size) == (DAMAGE, 0)


def test_segment_that_retention_deleted_meanwhile_is_passed_over(tmp_path: Path) -> None:
    (tmp_path / NAME).write_bytes(sealed(0).ljust(SIZE, b"\0"))
    (tmp_path / f"{SIZE:020d}").write_bytes(sealed(SIZE).ljust(SIZE, b"\0"))
    (log,) = find_logs(tmp_path)
    (tmp_path / NAME).unlink()

    assert [entry.position for entry in entries(log)] == [SIZE]


def test_segment_shorter_than_the_others_is_read(tmp_path: Path) -> None:
    (tmp_path / NAME).write_bytes(sealed(0))

    (log,) = find_logs(tmp_path)

    assert kinds(list(entries(log))) == [(RECORD, 0, len(sealed(0)))]
