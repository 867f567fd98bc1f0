"""A usual read beside one record by record: the same, or nothing."""

from __future__ import annotations

import random
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from tests.unit.store.making import Wall, open_store
from tests.unit.store.test_stretch import damage

from dueline import compiled
from dueline.message import Message, pack_host
from dueline.store import ReadStatus, Store
from dueline.store.files import File
from dueline.store.stretch import READ_KERNELS
from dueline.store.usual_reader import HEAD_SIZE_MAX, SIZE_BYTES_MAX

pytest.importorskip("numba")

FAR = 1 << 40


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Store:
    """Two queues over many segments, some units in files; few records are unusual or damaged."""
    assert compiled.load([READ_KERNELS])
    store = open_store(tmp_path_factory.mktemp("store"), Wall())
    generator = random.Random(9)
    for number in range(400):
        is_wide = generator.random() < 0.02
        store.put(
            Message(
                topic="orders",
                body=generator.randbytes(generator.choice([0, 1, 60, 900])),
                queue_id=number % 2,
                properties={},
                born_host=pack_host("::1" if is_wide else "10.1.2.3", 99),
            )
        )
        if number == 250:
            store.checkpoint()
    for offset in (30, 111):
        damage(store, offset, generator)
    return store


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None)
@given(
    queue_id=st.integers(0, 2),
    offset=st.integers(-1, 201),
    count_max=st.integers(1, 64),
    size_bytes_max=st.one_of(st.integers(1, 2_000), st.just(1 << 20)),
)
def test_what_is_read_is_what_a_read_gives(
    store: Store, queue_id: int, offset: int, count_max: int, size_bytes_max: int
) -> None:
    reader = store.usual_reader()
    limits: dict[str, Any] = {"count_max": count_max, "size_bytes_max": size_bytes_max}
    with compiled.switched_off():
        expected = store.read("orders", queue_id, offset, **limits)
        assert reader.read("orders", queue_id, offset, count_max, size_bytes_max, FAR) is None

    found = reader.read("orders", queue_id, offset, count_max, size_bytes_max, FAR)

    if found is None:
        return
    data = b"".join(expected.chunks)
    assert (expected.status, expected.damaged) == (ReadStatus.FOUND, [])
    assert found == (len(data), expected.next_offset, expected.start, expected.end)
    assert reader.behind(b"head", found.size_bytes) == b"head" + data
    assert reader.behind(b"h" * HEAD_SIZE_MAX, 1) == b"h" * HEAD_SIZE_MAX + data[:1]


def test_most_reads_are_usual(store: Store) -> None:
    reader = store.usual_reader()
    for offset in range(200):  # what is in files is at hand then
        store.read("orders", 1, offset, count_max=1)

    found = [reader.read("orders", 1, offset, 1, 1 << 20, FAR) for offset in range(200)]

    assert sum(each is not None for each in found) > 180


@pytest.mark.parametrize("is_cached", [True, False])
def test_far_from_the_end_it_reads_what_is_in_memory(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, is_cached: bool
) -> None:
    asked: list[Any] = []

    def answer(file: File, start: int, end: int) -> bool:
        asked.append((start, end))
        return is_cached

    monkeypatch.setattr(File, "is_cached", answer)
    assert compiled.load([READ_KERNELS])
    with open_store(tmp_path, Wall()) as store:
        for number in range(9):
            store.put(Message(topic="t", body=b"%d" % number))
        reader = store.usual_reader()

        assert reader.read("t", 0, 5, 2, 1 << 20, 4) is not None
        assert not asked, "near the end"
        assert (reader.read("t", 0, 4, 2, 1 << 20, 4) is not None) == is_cached
        assert asked
        store.checkpoint()
        assert reader.read("t", 0, 4, 2, 1 << 20, 4) is None, "its units are in a file"
        store.read("t", 0, 4, count_max=2)
        assert (reader.read("t", 0, 4, 2, 1 << 20, 4) is not None) == is_cached


def test_a_record_that_is_too_large_is_for_others(tmp_path: Path) -> None:
    assert compiled.load([READ_KERNELS])
    with Store.open(tmp_path / "store") as store:
        store.put(Message(topic="t", body=bytes(SIZE_BYTES_MAX)))

        assert store.usual_reader().read("t", 0, 0, 32, SIZE_BYTES_MAX, FAR) is None
