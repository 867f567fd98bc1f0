"""Opening a store again: what was promised before holds after."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pyarrow as pa
import pytest
from tests.unit.store.making import (
    SMALL,
    START_MS,
    Wall,
    bodies,
    carry_over,
    delayed,
    int64s,
    open_store,
    ordinary,
    read_all,
    take_window,
)

from dueline.message import Message
from dueline.store import Answer, Store, restore
from dueline.store.thresholds import Thresholds

FORGETTING = replace(SMALL, thresholds=Thresholds(forget_states_min=1))
NAMES = ("checkpoint.json", "checkpoint.json.mirror", "timeline.states", "timeline.states.mirror")


@pytest.fixture
def wall() -> Wall:
    return Wall()


def crashed(store: Store, to: Path) -> Path:
    """The store's files as they are at this moment, as a crash of the process would leave them."""
    shutil.copytree(store.path, to)
    return to


def test_fresh_store_is_empty(tmp_path: Path, wall: Wall) -> None:
    with open_store(tmp_path / "new" / "store", wall) as store:
        assert (store.pending_count(), store.queues(), store.gate_next_ms) == (0, [], None)
        assert store.report.damage == []
        assert store.report.rebuilt == []


@pytest.mark.parametrize("is_clean", [True, False])
def test_group_that_waits_at_the_gate_is_kept(tmp_path: Path, wall: Wall, is_clean: bool) -> None:
    """Part of the group is visible: reading starts in its middle, which is no torn group."""
    store = open_store(tmp_path / "a", wall)
    store.put_all([delayed(1000 * (number + 1), b"%d" % number) for number in range(5)])
    carry_over(store)
    wall.advance(2500)
    store.open_gate()
    store.checkpoint()
    path = store.path if is_clean else crashed(store, tmp_path / "b")
    store.close()

    with open_store(path, wall) as again:
        assert again.gate_row_count == 3
        wall.advance(5000)
        again.open_gate()
        assert bodies(again) == [b"%d" % number for number in range(5)]


def test_replayed_window_is_skipped_when_nothing_is_left(tmp_path: Path, wall: Wall) -> None:
    """Nothing pending, so no run is left; the numbers that were given out are still known."""
    store = open_store(tmp_path, wall)
    store.put_all([delayed(5), delayed(6)])
    batch = restore.deliveries(take_window(store))
    store.deliver([batch])
    wall.advance(10)
    store.close()

    with open_store(tmp_path, wall) as again:
        result = again.deliver([batch])

        assert (result.delivered_count, result.skipped_count) == (0, 2)
        assert again.put(delayed(5)).seq == 2


def test_everything_is_where_it_was(tmp_path: Path, wall: Wall) -> None:
    store = open_store(tmp_path / "a", wall)
    for number in range(30):
        store.put(ordinary(b"o%d" % number, KEYS=f"k{number}"))
        store.put(delayed(10 * number + 10, b"d%d" % number, KEYS=f"k{number}", TAGS="g"))
        if number % 7 == 0:
            carry_over(store, ahead_ms=30)
            wall.advance(15)
            store.open_gate()
        if number == 17:
            store.checkpoint()
    store.cancel("k29")
    store.reschedule("k28", START_MS + 9999)
    expected = describe(store)
    path = crashed(store, tmp_path / "b")
    store.close()

    for folder in (path, store.path):
        with open_store(folder, wall) as again:
            again_expected = describe(again)
        assert again_expected == expected


def describe(store: Store) -> dict[str, object]:
    store.open_gate()
    return {
        "visible": [(r.body, r.queue_offset, r.store_ms, r.position) for r in read_all(store)],
        "pending": take_window(store).select(["origin", "due_ms", "topic"]).to_pylist(),
        "by topic": store.survey().pending_by_topic(),
        "gate": (store.gate_row_count, store.gate_next_ms),
        "keys": [len(store.query("orders", f"k{number}")) for number in range(30)],
        "cancelled": store.find_delayed("k29")[0].state,
    }


@pytest.mark.parametrize("lost", [NAMES[:1], NAMES[:2], NAMES[2:3], NAMES[2:], NAMES])
def test_lost_snapshots_are_made_again_from_the_logs(
    tmp_path: Path, wall: Wall, lost: tuple[str, ...]
) -> None:
    store = open_store(tmp_path / "a", wall)
    store.put_all(
        [delayed(10, b"a"), delayed(20, b"b", KEYS="k"), delayed(30, b"c"), ordinary(b"d")]
    )
    carry_over(store, ahead_ms=10)
    store.cancel("k")
    wall.advance(15)
    store.open_gate()
    store.close()
    for name in lost:
        (tmp_path / "a" / name).unlink()

    with open_store(tmp_path / "a", wall) as again:
        assert bodies(again) == [b"d", b"a"]
        assert again.pending_count() == 1
        assert again.cancel("k") is Answer.CANCELLED
        assert again.put(delayed(5)).seq == 3


@pytest.mark.parametrize("name", ["timeline", "index/delaylog", "index/commitlog"])
@pytest.mark.parametrize("kind", ["missing", "damaged"])
def test_derived_files_are_made_again_from_the_logs(
    tmp_path: Path, wall: Wall, name: str, kind: str
) -> None:
    store = open_store(tmp_path, wall)
    store.put_all([delayed(10, b"a", KEYS="k"), delayed(20, b"b"), ordinary(b"c", KEYS="k")])
    store.close()
    (path,) = (path for path in (tmp_path / name).iterdir() if path.is_file())
    if kind == "missing":
        path.unlink()
    else:
        data = bytearray(path.read_bytes())
        data[0] ^= 1
        path.write_bytes(data)

    with open_store(tmp_path, wall) as again:
        assert len(again.report.rebuilt) == 1
        assert again.pending_count() == 2
        assert len(again.query("orders", "k")) == 1
        assert [message.seq for message in again.find_delayed("k")] == [0]
        carry_over(again)
        wall.advance(20)
        again.open_gate()
        assert bodies(again) == [b"c", b"a", b"b"]


def torn(path: Path, log: str, cut: Callable[[bytes], bytes]) -> None:
    """Change what is written in the first segment of a log, as before it was synced."""
    (path / "synced").unlink(missing_ok=True)
    segment = path / log / ("0" * 20)
    data = segment.read_bytes()
    written = data.rstrip(b"\0")
    segment.write_bytes(cut(written).ljust(len(data), b"\0"))


def test_torn_record_is_cut(tmp_path: Path, wall: Wall) -> None:
    store = open_store(tmp_path / "a", wall)
    store.put_all([ordinary(b"whole"), delayed(5, b"whole")])
    store.put_all([ordinary(b"torn"), delayed(5, b"torn")])
    path = crashed(store, tmp_path / "b")
    store.close()
    for log in ("commitlog", "delaylog"):
        torn(path, log, lambda data: data[:-20])

    with open_store(path, wall) as again:
        assert again.report.cut_bytes > 0
        assert bodies(again) == [b"whole"]
        assert again.pending_count() == 1
        assert again.put(delayed(5)).seq == 1
        assert again.put(ordinary(b"next")).queue_offset == 1


@pytest.mark.parametrize("cut_size", [1, 135, 136, 300])
def test_table_is_there_as_a_whole_or_not_at_all(tmp_path: Path, wall: Wall, cut_size: int) -> None:
    store = open_store(tmp_path / "a", wall)
    store.put(delayed(5, b"before"))
    table = pa.table({"topic": ["t"] * 5, "body": [b"x"] * 5, "delay_ms": [5] * 5})
    store.put_many(table)
    path = crashed(store, tmp_path / "b")
    store.close()
    torn(path, "delaylog", lambda data: data[:-cut_size])

    with open_store(path, wall) as again:
        assert again.pending_count() == 1
        assert again.put_many(table).first_seq == 1
        assert again.survey().pending_by_topic() == {"orders": 1, "t": 5}


def test_torn_delivery_is_made_again(tmp_path: Path, wall: Wall) -> None:
    store = open_store(tmp_path / "a", wall)
    store.put_all([delayed(5, b"%d" % number) for number in range(4)])
    batch = restore.deliveries(take_window(store))
    store.deliver([batch])
    path = crashed(store, tmp_path / "b")
    store.close()
    torn(path, "commitlog", lambda data: data[:-1])

    with open_store(path, wall) as again:
        assert again.pending_count() == 4
        assert again.deliver([batch]).delivered_count == 4
        wall.advance(5)
        again.open_gate()
        assert bodies(again) == [b"%d" % number for number in range(4)]


def test_damaged_record_in_the_middle_is_reported(tmp_path: Path, wall: Wall) -> None:
    store = open_store(tmp_path / "a", wall)
    results = [store.put(ordinary(b"%d" % number)) for number in range(3)]
    path = crashed(store, tmp_path / "b")
    store.close()
    at = results[1].position + 89

    def flip(data: bytes) -> bytes:
        return data[:at] + bytes([data[at] ^ 1]) + data[at + 1 :]

    torn(path, "commitlog", flip)

    with open_store(path, wall) as again:
        ((name, damage),) = again.report.damage
        assert name == "commit log"
        assert damage.start == results[1].position
        assert again.offset_range("orders", 0) == (0, 3)
        found = again.read("orders", 0, 0, count_max=10)
        assert len(found.records) == 2
        assert found.damaged == [1]


@pytest.mark.parametrize("lost", [NAMES[:2], NAMES[2:]])
def test_levels_of_the_past_stay_what_they_were(
    tmp_path: Path, wall: Wall, lost: tuple[str, ...]
) -> None:
    with open_store(tmp_path, wall) as store:
        store.put(ordinary(b"a", DELAY="2", KEYS="a"))
    with open_store(tmp_path, wall, replace(SMALL, levels="1s 77s")) as store:
        store.put(ordinary(b"b", DELAY="2", KEYS="b"))
        assert store.find_delayed("a")[0].due_ms == START_MS + 5_000
    for name in lost:
        (tmp_path / name).unlink()
    for path in (tmp_path / "timeline").iterdir():
        path.unlink()

    with open_store(tmp_path, wall, replace(SMALL, levels="1s 99s")) as store:
        dues = [row["due_ms"] - START_MS for row in take_window(store).to_pylist()]
        assert dues == [5_000, 77_000]
        assert store.find_delayed("b")[0].due_ms == START_MS + 77_000


def test_retried_message_is_due_as_promised_after_a_restart(tmp_path: Path, wall: Wall) -> None:
    """It brings the TIMER_OUT_MS of its first delivery, which must not be taken for the promise."""
    store = open_store(tmp_path / "a", wall)
    store.put(ordinary(b"retry", DELAY="2", TIMER_OUT_MS=str(START_MS - 5)))
    assert store.next_due_ms() == START_MS + 5_000
    path = crashed(store, tmp_path / "b")
    store.close()

    with open_store(path, wall) as again:
        assert again.next_due_ms() == START_MS + 5_000


def test_clock_never_shows_an_earlier_time(tmp_path: Path, wall: Wall) -> None:
    store = open_store(tmp_path / "a", wall)
    wall.advance(10_000)
    store.put(ordinary(b"first"))
    path = crashed(store, tmp_path / "b")
    store.close()
    wall.advance(-60_000)

    with open_store(path, wall) as again:
        result = again.put(ordinary(b"second"))
        assert result.store_ms == START_MS + 10_000
        assert again.put(delayed(5)).due_ms == START_MS + 10_005


def test_numbers_go_on_after_everything_was_forgotten(tmp_path: Path, wall: Wall) -> None:
    with open_store(tmp_path, wall, FORGETTING) as store:
        store.put_all([delayed(1), delayed(2)])
        carry_over(store)
        wall.advance(5)
        store.open_gate()

    for _ in range(2):
        with open_store(tmp_path, wall, FORGETTING) as store:
            assert store.cancel_seqs(int64s(0, 1)).tolist() == []
            assert store.pending_count() == 0
    with open_store(tmp_path, wall, FORGETTING) as store:
        assert store.put(delayed(5)).seq == 2


@pytest.mark.parametrize("lost", [("index",), NAMES[:2]])
def test_cancelled_at_the_gate_stays_so_when_it_was_forgotten(
    tmp_path: Path, wall: Wall, lost: tuple[str, ...]
) -> None:
    """The whole log is read again, and the states no longer say that it was cancelled."""
    with open_store(tmp_path, wall, FORGETTING) as store:
        store.put_all([delayed(1, b"seen"), delayed(1000, b"cancelled", KEYS="k")])
        carry_over(store)
        wall.advance(1)
        assert store.cancel("k") is Answer.CANCELLED
    for name in lost:
        path = tmp_path / name
        shutil.rmtree(path) if path.is_dir() else path.unlink()

    with open_store(tmp_path, wall, FORGETTING) as store:
        assert store.cancel_seqs(int64s(0, 1)).tolist() == []
        wall.advance(5000)
        store.open_gate()
        assert bodies(store) == [b"seen"]


def test_store_is_for_one_process(tmp_path: Path, wall: Wall) -> None:
    program = (
        "import sys; from dueline.store import Store, StoreOptions\n"
        "from dueline.errors import StoreLocked\n"
        "try: Store.open(sys.argv[1])\n"
        "except StoreLocked as error: print(error)\n"
    )
    with open_store(tmp_path, wall):
        command = [sys.executable, "-c", program, str(tmp_path)]
        output = subprocess.run(command, capture_output=True, text=True, check=True).stdout

    assert f"in use by process {os.getpid()}" in output


def test_message_with_every_field_survives(tmp_path: Path, wall: Wall) -> None:
    message = Message(
        topic="orders",
        body=bytes(range(256)),
        queue_id=3,
        properties={"own": "ü", "TIMER_DELAY_MS": "5"},
        flag=-1,
        sys_flag=1,
        born_ms=77,
        born_host=bytes(19) + b"\5",
        reconsume_times=4,
    )
    with open_store(tmp_path, wall) as store:
        store.put(message)

    with open_store(tmp_path, wall) as store:
        (row,) = restore.messages(take_window(store)).to_pylist()

    assert (row["body"], row["flag"], row["born_ms"]) == (message.body, -1, 77)
    assert (row["born_host"], row["reconsume_times"]) == (message.born_host, 4)
    assert dict(row["properties"])["own"] == "ü"
