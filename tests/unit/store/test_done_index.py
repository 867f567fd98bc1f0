"""What is remembered of messages whose records are gone, and for how long."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.unit.store.making import SMALL, Wall, carry_over, delayed, int64s, open_store

from dueline.store import Answer, Files, Store, StoreOptions
from dueline.store.done_index import DoneIndex
from dueline.store.states import CANCELLED, DROPPED
from dueline.store.thresholds import Thresholds

OPTIONS = StoreOptions(
    thresholds=Thresholds(forget_states_min=1),
    commit_segment_size_bytes=16_384,
    delay_segment_size_bytes=65_536,
    levels=SMALL.levels,
    retention_ms=60_000,
    compact_live_ratio=0.9,
    disk_used_ratio_max=1.0,
)
PAD = b"x" * 6_000


@pytest.fixture
def index(tmp_path: Path) -> Iterator[DoneIndex]:
    index = DoneIndex(Files(), tmp_path / "done")
    yield index
    index.close()


@pytest.fixture
def wall() -> Wall:
    return Wall()


@pytest.fixture
def store(tmp_path: Path, wall: Wall) -> Iterator[Store]:
    with open_store(tmp_path / "store", wall, OPTIONS) as store:
        yield store


def test_a_message_is_found_by_its_names_and_no_other(index: DoneIndex) -> None:
    messages = [("t", "u1", "k1 k2", CANCELLED), ("other", "u2", "", DROPPED)]

    index.add(index.write(messages, base=0, made_ms=5))

    assert index.find("u1", "t") == CANCELLED
    assert [index.find(word, None) for word in ("u1", "k1", "k2")] == [CANCELLED] * 3
    assert index.find("u2", "other") == index.find("u2", None) == DROPPED
    unknown = [("u2", "t"), ("u1", "other"), ("k1", "t"), ("k3", None), ("", None), ("", "t")]
    assert [index.find(text, topic) for text, topic in unknown] == [None] * 6


def test_files_are_found_again_and_the_last_word_counts(index: DoneIndex, tmp_path: Path) -> None:
    index.add(index.write([("t", "u", "", DROPPED)], base=1 << 14, made_ms=5))
    index.add(index.write([("t", "u", "", CANCELLED)], base=0, made_ms=6))
    assert index.write([], base=7, made_ms=7) is None

    again = DoneIndex(Files(), tmp_path / "done")
    assert again.load() == []

    assert index.find("u", "t") == again.find("u", "t") == CANCELLED
    assert len(again.drop_before(6)) == 1
    assert again.find("u", "t") == CANCELLED
    again.drop_before(7)
    assert again.find("u", "t") is None


def test_a_damaged_file_is_named_and_left_out(index: DoneIndex, tmp_path: Path) -> None:
    first = index.write([("t", "u1", "", CANCELLED)], base=0, made_ms=5)
    second = index.write([("t", "u2", "", CANCELLED)], base=0, made_ms=6)
    assert first is not None
    assert second is not None
    data = bytearray(first.read_bytes())
    data[3] ^= 1
    first.write_bytes(data)

    (fault,) = index.load()

    assert first.name in fault
    assert index.find("u1", "t") is None
    assert index.find("u2", "t") == CANCELLED


def put_some(store: Store) -> None:
    """Messages that fill segments, by what will become of them."""
    for name in ("cancelled", "delivered", "dropped", "late-cancelled"):
        store.put(delayed(1_000, PAD, UNIQ_KEY=name, KEYS=f"k-{name}"))


def answers(store: Store) -> list[Answer]:
    names = ("cancelled", "delivered", "dropped", "late-cancelled")
    exact = [store.recall("orders", name) for name in names]
    assert [store.cancel(f"k-{name}") for name in names] == exact
    assert [store.recall("other", name) for name in names] == [Answer.UNKNOWN] * 4
    return exact


DONE = [Answer.CANCELLED, Answer.DELIVERED, Answer.DELIVERED, Answer.CANCELLED]


def finish(store: Store, wall: Wall) -> None:
    assert store.recall("orders", "cancelled") == Answer.CANCELLED
    (dropped,) = store.find_delayed("dropped")
    store.deliver([], dropped=int64s(dropped.seq))
    carry_over(store, ahead_ms=5_000)
    assert store.recall("orders", "late-cancelled") == Answer.CANCELLED  # it was at the gate
    wall.advance(1_000)
    store.open_gate()


@pytest.mark.parametrize("survivors", [0, 1], ids=["deleted", "compacted"])
def test_answers_are_remembered_for_the_retention(survivors: int, store: Store, wall: Wall) -> None:
    put_some(store)
    for number in range(survivors):
        store.put(delayed(10_000_000, UNIQ_KEY=f"far-{number}"))
    for _ in range(10):
        store.put(delayed(500, PAD))  # on to the next segment
    finish(store, wall)
    assert answers(store) == DONE

    store.checkpoint()
    kept = store.retain()
    store.checkpoint()

    assert (kept.delay_segments, kept.compacted_segments) == (1 - survivors, survivors)
    assert store.find_delayed("cancelled") == []
    for _ in range(6):
        assert answers(store) == DONE
        wall.advance(9_000)
        store.checkpoint()
        store.retain()
    reopened = open_store(store.path.parent / "copy", wall, OPTIONS)  # another store knows nothing
    assert answers(reopened) == [Answer.UNKNOWN] * 4
    reopened.close()


def test_answers_outlive_a_restart_and_end_with_the_retention(
    tmp_path: Path, store: Store, wall: Wall
) -> None:
    put_some(store)
    for _ in range(10):
        store.put(delayed(500, PAD))
    finish(store, wall)
    store.checkpoint()
    assert store.retain().delay_segments > 0
    store.close()

    with open_store(tmp_path / "store", wall, OPTIONS) as again:
        assert answers(again) == DONE
        wall.advance(2 * 60_000)
        again.retain()
        assert again.recall("orders", "cancelled") == Answer.UNKNOWN
        assert list((tmp_path / "store" / "done").iterdir()) == []
