"""The reserve and the marks at which sends and deliveries are refused, on a real small disk."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest
from tests.small_disk import SmallDisk, mounted

from dueline.errors import Unavailable
from dueline.message import Message
from dueline.store import Files, Store, StoreOptions, restore
from dueline.store.room import RESERVE_FILE
from dueline.testing import ManualClock

DISK_SIZE_BYTES = 4 << 20
RESERVE_SIZE_BYTES = 128 << 10
OPTIONS = StoreOptions(
    commit_segment_size_bytes=64 << 10,
    delay_segment_size_bytes=64 << 10,
    queue_file_units=100,
    disk_used_ratio_max=1.0,
    reserve_size_bytes=RESERVE_SIZE_BYTES,
)


@pytest.fixture
def disk(tmp_path: Path) -> Iterator[SmallDisk]:
    with mounted(tmp_path / "disk", DISK_SIZE_BYTES) as disk:
        yield disk


def opened(disk: SmallDisk, **changes: object) -> Store:
    options = replace(OPTIONS, **changes)  # type: ignore[arg-type]
    return Store.open(disk.path / "store", options, clock=ManualClock())


def message(uid: str, **properties: str) -> Message:
    return Message(topic="t", body=uid.encode() * 50, properties={"UNIQ_KEY": uid, **properties})


def reserve_bytes(disk: SmallDisk) -> int:
    return (disk.path / "store" / RESERVE_FILE).stat().st_size


def fill_logs(store: Store) -> None:
    """Until the logs have no allocated space left, and the disk no other."""
    for number in range(10_000):
        try:
            store.put_all([message(f"x{number}"), message(f"y{number}", TIMER_DELAY_MS="600000")])
            store.put(message(f"x{number}"))
        except Unavailable:
            return
    raise AssertionError("the disk never became full")


def test_a_cancel_is_written_on_a_full_disk(disk: SmallDisk) -> None:
    store = opened(disk)
    store.put(message("far", TIMER_DELAY_MS="600000"))
    disk.fill(but_bytes=64 << 10)
    fill_logs(store)
    disk.fill()

    answers = [store.cancel("far").value for _ in range(2)]

    assert answers == ["cancelled", "cancelled"]
    store.close()
    with opened(disk) as store:
        assert store.cancel("far").value == "cancelled"


def test_checkpoint_and_offsets_take_the_reserve_and_give_it_back(disk: SmallDisk) -> None:
    files = Files()
    store = Store.open(disk.path / "store", OPTIONS, clock=ManualClock(), files=files)
    disk.fill(but_bytes=200 << 10)
    fill_logs(store)
    disk.fill()

    store.checkpoint()
    files.replace(disk.path / "offsets", [b"x" * 10_000])

    assert reserve_bytes(disk) < RESERVE_SIZE_BYTES
    with pytest.raises(Unavailable, match="free disk space"):
        store.put(message("refused"))
    disk.free()
    (disk.path / "offsets").unlink()
    store.put(message("accepted"))
    assert reserve_bytes(disk) == RESERVE_SIZE_BYTES
    store.close()


def test_a_delivery_leaves_the_reserve_alone(disk: SmallDisk) -> None:
    store = opened(disk)
    for number in range(100):
        store.put(message(f"d{number}", TIMER_DELAY_MS="1000"))
    corner = store.next_corner(until_ms=1 << 60, row_count_max=1_000)
    rows = restore.deliveries(store.read_window(store.window(corner)))
    disk.fill()

    assert store.delivery_room_bytes() == 0
    with pytest.raises(Unavailable, match="disk full"):
        store.deliver([rows])

    assert reserve_bytes(disk) == RESERVE_SIZE_BYTES
    disk.free()
    assert store.deliver([rows]).delivered_count == 100
    store.close()


def test_a_nearly_full_disk_takes_deliveries_in_portions(disk: SmallDisk) -> None:
    """What is carried over is up to three times as long as what waits, in small messages."""
    store = opened(disk)
    due = {"TIMER_DELIVER_MS": "1900000000000"}
    count = 3_000
    store.put_all(
        [
            Message(topic="t", body=b"", properties={"UNIQ_KEY": f"{n:04X}", **due})
            for n in range(count)
        ]
    )
    disk.fill(but_bytes=200 << 10)

    portions = []
    while room_bytes := store.delivery_room_bytes():
        corner = store.next_corner(until_ms=1 << 60, row_count_max=count, size_bytes_max=room_bytes)
        window = store.window(corner)
        rows = restore.deliveries(store.read_window(window))
        assert len(rows) > 1
        assert rows.column("record").nbytes > 2.5 * int(window.units.size.sum())
        portions.append(store.deliver([rows]).delivered_count)

    assert len(portions) > 2
    assert sum(portions) < store.pending_count() + sum(portions) == count
    disk.free()
    corner = store.next_corner(until_ms=1 << 60, row_count_max=count)
    rows = restore.deliveries(store.read_window(store.window(corner)))
    assert store.deliver([rows]).delivered_count == count - sum(portions)
    store.close()


def test_a_store_opens_on_a_full_disk_and_reads(disk: SmallDisk) -> None:
    store = opened(disk)
    store.put(message("first"))
    disk.fill(but_bytes=200 << 10)
    fill_logs(store)
    disk.fill()
    store.close()
    (disk.path / "store" / RESERVE_FILE).unlink()
    disk.fill()

    with opened(disk) as store:
        assert len(store.read("t", 0, 0).records) > 0
        with pytest.raises(Unavailable, match="disk full"):
            store.put(message("refused"))
        disk.free()
        store.put(message("accepted"))


def test_above_the_mark_sends_are_refused_and_nothing_is_deleted(
    disk: SmallDisk, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.WARNING)
    store = opened(disk, disk_used_ratio_max=0.5, retention_ms=1 << 40)
    for number in range(500):
        store.put(message(f"m{number}"))
    store.checkpoint()
    disk.fill(but_bytes=1 << 20)
    store.look_at_disk()

    with pytest.raises(Unavailable, match="disk_used_ratio_max"):
        store.put(message("refused"))

    assert store.retain().commit_segments == 0
    assert store.read("t", 0, 0).records
    assert "sends are refused" in caplog.text
    disk.free()
    store.put(message("accepted"))
    assert "accepted" in caplog.text
    store.close()


def test_old_messages_go_early_if_the_operator_chose_so(
    disk: SmallDisk, caplog: pytest.LogCaptureFixture
) -> None:
    store = opened(disk, disk_used_ratio_max=0.5, retention_ms=1 << 40, delete_early=True)
    for number in range(1_000):
        store.put(message(f"m{number}"))
    store.checkpoint()
    disk.fill(but_bytes=1 << 20)
    store.look_at_disk()

    store.put(message("accepted"))

    assert store.retain().commit_segments == 1
    assert "deleted before their time" in caplog.text
    store.close()


def test_no_reserve_is_made_where_none_is_asked_for(disk: SmallDisk) -> None:
    with opened(disk, reserve_size_bytes=0):
        assert not (disk.path / "store" / RESERVE_FILE).exists()


def test_the_reserve_is_at_most_a_sixteenth_of_the_disk(disk: SmallDisk) -> None:
    with opened(disk, reserve_size_bytes=1 << 40):
        assert reserve_bytes(disk) == DISK_SIZE_BYTES // 16
