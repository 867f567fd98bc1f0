"""No file descriptor is free: what needs one is refused, and the store goes on."""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from pathlib import Path

import pytest
from tests.descriptors import no_descriptors

from dueline.errors import Unavailable
from dueline.message import Message
from dueline.store import Files, Store, StoreOptions, restore
from dueline.testing import ManualClock

OPTIONS = StoreOptions(
    commit_segment_size_bytes=16 << 10, delay_segment_size_bytes=16 << 10, queue_file_units=10
)


def message(uid: str, queue_id: int = 0, **properties: str) -> Message:
    return Message(
        topic="t",
        queue_id=queue_id,
        body=uid.encode() * 100,
        properties={"UNIQ_KEY": uid, **properties},
    )


def bodies(store: Store) -> list[str]:
    found = []
    for topic, queue_id in store.queues():
        offset = 0
        while (result := store.read(topic, queue_id, offset)).records:
            found += [bytes(view).split(b"UNIQ_KEY\x01")[1] for view in result.records]
            offset = result.next_offset
    return sorted(text.split(b"\x02")[0].decode() for text in found)


def deliver_all(store: Store) -> None:
    corner = store.next_corner(until_ms=1 << 60, row_count_max=1_000)
    store.deliver([restore.deliveries(store.read_window(store.window(corner)))])


def test_opening_a_file_says_what_to_do(tmp_path: Path) -> None:
    (tmp_path / "file").write_bytes(b"x")
    steps: list[Callable[[Files], object]] = [
        lambda files: files.open(tmp_path / "file"),
        lambda files: files.read(tmp_path / "file"),
        lambda files: files.new(tmp_path / "other"),
        lambda files: files.all_names(tmp_path),
        lambda files: files.sync_folder(tmp_path),
    ]

    for step in steps:
        with no_descriptors(), pytest.raises(Unavailable, match="ulimit -n"):
            step(Files())


def test_a_map_needs_a_descriptor_too(tmp_path: Path) -> None:
    (tmp_path / "file").write_bytes(b"x")
    file = Files().open(tmp_path / "file")

    with no_descriptors(), pytest.raises(Unavailable, match="ulimit -n"):
        file.view()

    assert file.view().tobytes() == b"x"
    file.close()


def test_a_store_refuses_what_needs_a_descriptor_and_goes_on(tmp_path: Path) -> None:
    clock = ManualClock()
    accepted = {"first"}
    store = Store.open(tmp_path / "store", OPTIONS, clock=clock)
    store.put(message("first"))

    refused = 0
    for number in range(300):
        with no_descriptors():
            kinds: dict[str, dict[str, str]] = {"o": {}, "d": {"TIMER_DELAY_MS": "1000"}}
            for kind, properties in kinds.items():
                uid = f"{kind}{number}"
                try:
                    store.put(message(uid, number % 7, **properties))
                except Unavailable:
                    refused += 1
                else:
                    accepted.add(uid)
            for work in (store.checkpoint, store.open_gate, store.retain):
                with contextlib.suppress(Unavailable):
                    work()
        if number % 10 == 0:
            deliver_all(store)
            clock.advance(500)
        if number % 3 == 0:
            store.put(message(f"between{number}", number % 7))
            accepted.add(f"between{number}")

    assert refused
    deliver_all(store)
    clock.advance(10_000)
    store.open_gate()
    assert bodies(store) == sorted(accepted)
    store.close()
    with Store.open(tmp_path / "store", OPTIONS, clock=clock) as store:
        assert bodies(store) == sorted(accepted)
