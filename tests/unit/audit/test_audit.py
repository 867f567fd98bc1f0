"""A look through a whole store: what is told, how bad it is, and that nothing changes by it."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest
from tests.unit.audit.making import FILES, make_store, replace_in, told
from tests.unit.store.making import START_MS, Wall, carry_over, delayed, open_store, ordinary

from dueline.audit import Audit, audit
from dueline.audit.audit import find_store
from dueline.errors import NotFound


@pytest.fixture
def data(tmp_path: Path) -> Path:
    """A broker's data folder."""
    make_store(tmp_path / "data" / "store")
    return tmp_path / "data"


def look(path: Path, *, is_running: bool = False) -> Audit:
    return audit(path, files=FILES, is_running=is_running)


def contents(folder: Path) -> dict[Path, tuple[bytes, int]]:
    return {
        path: (path.read_bytes(), path.stat().st_mtime_ns)
        for path in folder.rglob("*")
        if path.is_file()
    }


def test_a_sound_store_is_counted(data: Path) -> None:
    before = contents(data)
    found = look(data)

    assert (found.verdict, found.exit_code) == ("sound", 0)
    assert found.counts["accepted_delayed"] == 6
    assert found.counts["pending"] == 3
    assert found.counts["at_gate"] == 2
    assert found.counts["visible"] == 3
    assert found.counts["queues"] == 1
    assert found.next_due_ms == START_MS + 60_000
    assert contents(data) == before
    assert look(data / "store").counts == found.counts


def test_a_store_is_found_in_its_folder_or_by_itself(data: Path, tmp_path: Path) -> None:
    assert find_store(data, FILES) == (data, data / "store")
    assert find_store(data / "store", FILES) == (None, data / "store")
    (tmp_path / "empty").mkdir()
    for path, text in (
        (tmp_path / "empty", "an empty folder"),
        (tmp_path / "nowhere", "nothing there"),
        (tmp_path, "data"),
    ):
        with pytest.raises(NotFound, match=f"found .*{text}"):
            find_store(path, FILES)


def test_the_worst_finding_is_the_verdict(data: Path) -> None:
    (copy, *_) = sorted((data / "store").glob("checkpoint*"))
    copy.unlink()
    assert (look(data).verdict, look(data).exit_code) == ("repairable", 1)

    replace_in(data / "store" / "commitlog", b"body of b", b"body of x")
    found = look(data)

    assert (found.verdict, found.exit_code) == ("damaged", 2)
    assert ("loss", "record") in told(found.findings)
    as_json = found.to_json()
    assert (as_json["verdict"], as_json["exit_code"]) == ("damaged", 2)
    assert {"record", "visible message"} <= {one["kind"] for one in as_json["findings"]}


def test_a_torn_tail_is_cut_by_opening_and_ignored_while_it_is_written(tmp_path: Path) -> None:
    store = open_store(tmp_path / "store", Wall())
    store.put(ordinary(b"whole text"))
    store.put(ordinary(b"torn  text"))
    shutil.copytree(tmp_path / "store", tmp_path / "copy", ignore=shutil.ignore_patterns("synced"))
    store.close()
    replace_in(tmp_path / "copy" / "commitlog", b"torn  text", b"torn \0\0\0\0\0")

    assert told(look(tmp_path / "copy").findings) >= {("repair", "torn tail")}
    assert look(tmp_path / "copy").exit_code == 1
    running = look(tmp_path / "copy", is_running=True)
    assert ("repair", "torn tail") not in told(running.findings)


def test_a_torn_group_that_lost_records_in_two_segments_is_no_loss(tmp_path: Path) -> None:
    """Of four members at the end of one segment and the beginning of the next the last is left."""
    store = open_store(tmp_path / "store", Wall())
    store.put(ordinary(bytes([1]) * 12_000))
    for number in range(4):
        store.put(delayed(5_000, b"member %d" % number * 200))
    shutil.copytree(tmp_path / "store", tmp_path / "copy", ignore=shutil.ignore_patterns("synced"))
    carry_over(store, ahead_ms=10_000)
    first, second = (path.read_bytes() for path in sorted((tmp_path / "store/commitlog").iterdir()))
    store.close()
    kept = first[: int.from_bytes(first[:4], "big")]
    lost = int.from_bytes(second[:4], "big")
    member = second[lost:][: int.from_bytes(second[lost : lost + 4], "big")]
    assert b"member 3" in member
    for base, data in ((0, kept), (16_384, bytes(lost) + member)):
        (tmp_path / "copy/commitlog" / f"{base:020d}").write_bytes(data.ljust(16_384, b"\0"))

    found = look(tmp_path / "copy")

    assert found.exit_code == 1, [one.text for one in found.findings.kept]
    assert ("repair", "torn tail") in told(found.findings)
    with open_store(tmp_path / "copy", Wall()) as reopened:
        assert not reopened.report.damage
    assert look(tmp_path / "copy").exit_code == 0


def test_a_segment_between_two_others_must_be_there(tmp_path: Path) -> None:
    with open_store(tmp_path, Wall()) as store:
        for _ in range(12):
            store.put(ordinary(bytes([1]) * 3_900))
    bases = sorted((tmp_path / "commitlog").iterdir())
    assert len(bases) >= 3
    bases[1].unlink()

    found = look(tmp_path)

    subjects = {one.subject for one in found.findings.kept if one.kind == "segment"}
    assert subjects == {f"commitlog/{bases[1].name}"}
    assert found.exit_code == 2


def test_a_log_that_ends_before_its_checkpoint_is_damaged(tmp_path: Path) -> None:
    with open_store(tmp_path, Wall()) as store:
        store.put(ordinary(b"a"))
        store.put(ordinary(b"b"))
    (segment,) = (tmp_path / "commitlog").iterdir()
    size = int.from_bytes(segment.read_bytes()[:4], "big")
    segment.write_bytes(segment.read_bytes()[:size].ljust(16_384, b"\0"))

    assert ("loss", "log end") in told(look(tmp_path).findings)


def test_beside_a_running_broker_only_what_is_found_again_counts(data: Path) -> None:
    """A file that is replaced while it is looked for is back when it is looked for again."""
    (copy, *_) = sorted((data / "store").glob("checkpoint*"))
    content = copy.read_bytes()
    copy.unlink()

    def put_back(what: str, done: int, total: int) -> None:
        copy.write_bytes(content)

    found = audit(data, files=FILES, is_running=True, progress=put_back)

    assert (found.exit_code, found.is_running) == (0, True)
