"""`dueline log`: any store of this format, sound or damaged, in use or not."""

from __future__ import annotations

import base64
import json
import os
import shutil
import threading
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from tests.golden.layout import SEGMENT, STORE, all_records
from tests.unit.commands.conftest import Run
from tests.unit.store.making import (
    START_MS,
    Wall,
    carry_over,
    delayed,
    int64s,
    open_store,
    ordinary,
)

from dueline.commands import log as command
from dueline.message import Message
from dueline.store import Store


@pytest.fixture(autouse=True)
def _impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nobody writes to these stores: a torn tail need not be looked at again."""
    monkeypatch.setattr(command, "WRITER_PATIENCE_S", 0.0)


@pytest.fixture
def wall() -> Wall:
    return Wall()


@pytest.fixture
def store(tmp_path: Path, wall: Wall) -> Store:
    """A store in use, with one of everything."""
    store = open_store(tmp_path / "store", wall)
    store.put(Message(topic="plain", body=b"hello", queue_id=3, properties={"TAGS": "g"}))
    store.put_all([delayed(100, b"%d" % number, KEYS=f"k{number}") for number in range(4)])
    store.put(ordinary(b"level", DELAY="2"))
    carry_over(store, ahead_ms=100, row_count_max=2)
    store.deliver([], dropped=int64s(2))
    store.cancel("k1")
    return store


def objects(out: str) -> list[dict[str, Any]]:
    return [json.loads(line) for line in out.splitlines()]


def test_golden_store_is_printed(run: Run) -> None:
    for path in (STORE, STORE / "commitlog", SEGMENT):
        ran = run("log", str(path), "--json")

        assert ran.code == 0
        found = objects(ran.out)
        golden = all_records()
        assert [one["position"] for one in found] == [one["position"] for one in golden]
        for one, other in zip(found, golden, strict=True):
            assert one["topic"] == other["topic"].decode()
            assert (one["queue_id"], one["queue_offset"]) == (
                other["queue_id"],
                other["queue_offset"],
            )
            assert base64.b64decode(one["body_base64"]) == other["body"]
            assert one["properties"] == other["map"]
            assert one["store_host"] == "127.0.0.1:10911"
        dues = {one["position"]: one["due_ms"] for one in found if "due_ms" in one}
        assert dues == {197: 1_794_769_658_725, 443: 1_794_776_853_729, 2414: 1_794_769_665_014}


def test_golden_store_for_people(run: Run) -> None:
    ran = run("log", str(STORE))

    assert ran.code == 0
    assert ran.lines[0] == "commit log: 1 segment"
    assert ran.lines[-1] == "17 records, no damage"
    assert "TopicT/1 @0" in ran.lines[1]
    assert "for TopicT/2, due 2026-11-15" in ran.out
    assert "body, 11 bytes: hello world" in ran.out
    assert "(compressed)" in ran.out


def test_our_store_is_printed_while_it_is_in_use(run: Run, store: Store) -> None:
    ran = run("log", str(store.path), "--json")

    assert (ran.code, ran.err) == (0, "")
    found = objects(ran.out)
    delays = [one for one in found if one["log"] == "delay" and one["kind"] == "record"]
    assert [one["seq"] for one in delays] == [0, 1, 2, 3, 4]
    assert [one["state"] for one in delays] == [
        "delivered",
        "cancelled",
        "dropped",
        "pending",
        "pending",
    ]
    assert [one["due_ms"] - START_MS for one in delays] == [100, 100, 100, 100, 5000]
    assert {one["real_topic"] for one in delays} == {"orders"}
    controls = [one for one in found if one["kind"] == "control"]
    assert [(one["log"], one["control"], one["numbers"]) for one in controls] == [
        ("commit", "end", []),
        ("commit", "end", [2]),
        ("delay", "end", []),  # of the four that were put together
        ("delay", "cancel", [1]),
    ]
    assert [
        one["topic"] for one in found if one["log"] == "commit" and one["kind"] == "record"
    ] == [
        "plain",
        "orders",
        "orders",
    ]
    assert store.put(ordinary()).position > 0, "the store is not locked and not closed"


def test_our_store_for_people(run: Run, store: Store) -> None:
    ran = run("log", str(store.path))

    assert ran.code == 0
    assert "plain/3 @0" in ran.out
    assert "number 3, pending" in ran.out
    assert "control: cancelled 1" in ran.out
    assert "control: end of a group of 2 records" in ran.out
    assert "done without a delivery: 2" in ran.out
    assert [line for line in ran.lines if "damage" in line] == [
        "5 records, no damage",
        "7 records, no damage",
    ]


def test_nothing_is_changed_and_nothing_is_locked(run: Run, store: Store) -> None:
    def listing() -> dict[str, tuple[int, int]]:
        return {
            str(path): (path.stat().st_mtime_ns, path.stat().st_size)
            for path in store.path.rglob("*")
        }

    before = listing()
    run("log", str(store.path))

    assert listing() == before


def test_read_only_copy_is_enough(run: Run, store: Store, tmp_path: Path) -> None:
    copy = Path(shutil.copytree(store.path, tmp_path / "copy"))
    for path in [copy, *copy.rglob("*")]:
        path.chmod(0o555 if path.is_dir() else 0o444)
    try:
        assert run("log", str(copy)).code == 0
    finally:
        for path in [copy, *copy.rglob("*")]:
            path.chmod(0o755)


@pytest.mark.parametrize(
    ("words", "positions"),
    [
        (("--limit", "2"), [0, 197]),
        (("--limit", "0"), []),
        (("--from", "3454"), [3454, 3687]),
        (("--from", "3455"), [3687]),
        (("--from", "99999"), []),
        (("--topic", "%RETRY%CG"), [2414, 3687]),
        (("--topic", "SCHEDULE_TOPIC_XXXX", "--limit", "2"), [197, 443]),
        (("--topic", "nobody's"), []),
    ],
)
def test_part_of_a_log(run: Run, words: tuple[str, ...], positions: list[int]) -> None:
    ran = run("log", str(STORE), "--json", *words)

    assert ran.code == 0
    assert [one["position"] for one in objects(ran.out)] == positions


def test_one_log_of_a_store(run: Run, store: Store) -> None:
    ran = run("log", str(store.path), "--json", "--log", "delay", "--topic", "orders")

    assert {one["log"] for one in objects(ran.out)} == {"delay"}
    assert run("log", str(STORE), "--log", "delay").code == 2


def test_blanks_and_gaps_are_shown_on_request(run: Run, store: Store) -> None:
    store.put_all([ordinary(bytes(10_000)), ordinary(bytes(10_000))])

    assert "blank" not in run("log", str(store.path)).out
    assert "blank: goes on in the next segment" in run("log", str(store.path), "--gaps").out
    kinds = [one["kind"] for one in objects(run("log", str(store.path), "--gaps", "--json").out)]
    assert kinds.count("blank") == 1


def damaged_copy(tmp_path: Path, position: int) -> Path:
    copy = Path(shutil.copytree(STORE, tmp_path / "damaged"))
    path = copy / "commitlog" / SEGMENT.name
    data = bytearray(path.read_bytes())
    data[position] ^= 1
    path.write_bytes(data)
    return copy


def test_damage_is_reported_with_its_range(run: Run, tmp_path: Path) -> None:
    copy = damaged_copy(tmp_path, 697 + 90)

    ran = run("log", str(copy))

    assert ran.code == 1
    assert ran.lines[-1] == "16 records, 1 damaged ranges"
    (line,) = (line for line in ran.lines if "DAMAGE" in line)
    assert line.split()[:4] == ["697", "DAMAGE", "up", "to"]
    assert "903 (206 bytes)" in line
    assert "body CRC" in line


def test_damage_in_json(run: Run, tmp_path: Path) -> None:
    ran = run("log", str(damaged_copy(tmp_path, 697 + 90)), "--json", "--topic", "nobody's")

    assert ran.code == 1
    (one,) = objects(ran.out)
    assert (one["kind"], one["position"], one["size"]) == ("damage", 697, 206)
    assert one["reason"]


def test_torn_tail_is_reported(run: Run, tmp_path: Path) -> None:
    copy = Path(shutil.copytree(STORE, tmp_path / "torn"))
    path = copy / "commitlog" / SEGMENT.name
    data = path.read_bytes()
    path.write_bytes(data[:3770].ljust(len(data), b"\0"))

    ran = run("log", str(copy))

    assert ran.code == 1
    assert "3687  DAMAGE up to 37" in ran.out
    assert "torn" in ran.out


@pytest.mark.parametrize("kind", ["missing", "empty folder", "text", "empty file"])
def test_what_cannot_be_read_is_an_error(run: Run, tmp_path: Path, kind: str) -> None:
    path = tmp_path / "x"
    if kind == "empty folder":
        path.mkdir()
    elif kind == "text":
        path.write_text("hello " * 50)
    elif kind == "empty file":
        path.write_bytes(b"")

    ran = run("log", str(path))

    assert ran.code == 2
    assert ran.out == ""
    assert ran.err.startswith(f"dueline log: {path}: expected")
    assert len(ran.err.splitlines()) == 1


@pytest.mark.skipif(os.geteuid() == 0, reason="root may read everything")
def test_what_must_not_be_read_is_an_error(run: Run, tmp_path: Path) -> None:
    copy = Path(shutil.copytree(STORE, tmp_path / "secret"))
    (copy / "commitlog" / SEGMENT.name).chmod(0)

    ran = run("log", str(copy))

    assert ran.code == 2
    assert "cannot read" in ran.err


def test_fresh_store_is_empty_and_sound(run: Run, tmp_path: Path, wall: Wall) -> None:
    open_store(tmp_path / "new", wall).close()

    ran = run("log", str(tmp_path / "new"))

    assert ran.code == 0
    assert ran.lines == [
        "commit log: 0 segments",
        "0 records, no damage",
        "delay log: 0 segments",
        "0 records, no damage",
    ]


@pytest.mark.parametrize("words", [("--limit", "-1"), ("--from", "-5")])
def test_negative_numbers_are_refused(run: Run, words: tuple[str, ...]) -> None:
    ran = run("log", str(STORE), *words)

    assert ran.code == 2
    assert "expected 0 or more" in ran.err


def test_control_characters_do_not_reach_the_terminal(run: Run, tmp_path: Path, wall: Wall) -> None:
    with open_store(tmp_path / "s", wall) as store:
        store.put(ordinary(b"\x1b[31mred\n", KEYS="\x1b]0;title\x07", own="\udc80"))
        store.put(ordinary(b"\xff\xfe", own="x"))

    ran = run("log", str(tmp_path / "s"))

    assert ran.code == 0
    assert "\x1b" not in ran.out
    assert r"\x1b[31mred\n" in ran.out
    assert "body, 2 bytes: fffe" in ran.out
    assert run("log", str(tmp_path / "s"), "--json").code == 0


def test_record_at_the_gate_says_so(run: Run, tmp_path: Path) -> None:
    """Seen with the real clock: due in the year 2200."""
    wall = Wall(7_258_118_400_000)
    with open_store(tmp_path / "s", wall) as store:
        store.put(delayed(5_000, b"x"))
        carry_over(store)

    assert "waits at the gate for another" in run("log", str(tmp_path / "s")).out


def test_log_that_is_being_written_is_sound(
    run: Run, tmp_path: Path, wall: Wall, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Beside a writer that never rests no record is seen half."""
    monkeypatch.setattr(command, "WRITER_PATIENCE_S", 30.0)
    is_over = threading.Event()
    with open_store(tmp_path / "s", wall) as store:

        def write() -> None:
            while not is_over.is_set():
                store.put_all([ordinary(bytes(3000)), delayed(5, bytes(3000))])
                store.put_many(
                    pa.table({"topic": ["t"] * 5, "body": [bytes(2000)] * 5, "delay_ms": [1] * 5})
                )
                carry_over(store, ahead_ms=5)

        writer = threading.Thread(target=write)
        writer.start()
        try:
            codes = [run("log", str(store.path)).code for _ in range(6)]
        finally:
            is_over.set()
            writer.join()

    assert codes == [0] * 6
