"""The chores of a broker: seen by what is on disk and in the log afterwards."""

from __future__ import annotations

import json
import logging
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.unit.store.making import Wall, delayed, open_store, ordinary

from dueline.broker.consumer_offsets import ConsumerOffsets
from dueline.broker.housekeeping import Housekeeping
from dueline.store import Files, Store


@pytest.fixture
def wall() -> Wall:
    return Wall()


@pytest.fixture
def store(tmp_path: Path, wall: Wall) -> Iterator[Store]:
    store = open_store(tmp_path / "store", wall)
    yield store
    store.close()


@pytest.fixture
def chores(store: Store, tmp_path: Path) -> Housekeeping:
    return Housekeeping(store, ConsumerOffsets(tmp_path / "offsets.json", Files()))


def checkpoint_files(store: Store) -> set[tuple[str, int, int]]:
    """Each writing of a checkpoint makes new files."""
    found = [(path.name, path.stat()) for path in store.path.glob("checkpoint*")]
    return {(name, stat.st_ino, stat.st_mtime_ns) for name, stat in found}


def test_a_checkpoint_is_written_after_a_change_and_not_without_one(
    store: Store, chores: Housekeeping
) -> None:
    files = checkpoint_files(store)
    chores.checkpoint()
    assert checkpoint_files(store) == files

    for message in (ordinary(), delayed(5_000)):
        store.put(message)
        chores.checkpoint()
        assert not checkpoint_files(store) & files
        files = checkpoint_files(store)
        assert files
        chores.checkpoint()
        assert checkpoint_files(store) == files


def test_offsets_are_saved(tmp_path: Path, store: Store) -> None:
    path = tmp_path / "offsets.json"
    offsets = ConsumerOffsets(path, Files())
    chores = Housekeeping(store, offsets)
    chores.save_offsets()
    assert not path.exists()

    offsets.set("billing", "orders", {0: 17})
    chores.save_offsets()

    assert json.loads(path.read_bytes()) == {"offsetTable": {"orders@billing": {"0": 17}}}


def test_what_retention_has_deleted_is_logged(
    store: Store, chores: Housekeeping, wall: Wall, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO)
    for _ in range(12):
        store.put(ordinary(bytes(4_000)))
    chores.retain()
    assert caplog.messages == []

    store.checkpoint()
    wall.advance(365 * 86_400_000)
    chores.retain()

    (text,) = caplog.messages
    assert "retention" in text
    assert store.offset_range("orders", 0)[0] > 0


def test_a_clock_that_was_set_far_back_is_warned_of(
    store: Store, chores: Housekeeping, wall: Wall, caplog: pytest.LogCaptureFixture
) -> None:
    store.clock.now_ms()
    wall.advance(-5_000)
    chores.look_at_clock()
    assert caplog.messages == []

    wall.advance(-60_000)
    chores.look_at_clock()

    assert "time stands still for 65 s" in caplog.text
