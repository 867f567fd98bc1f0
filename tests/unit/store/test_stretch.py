"""Compiled reads beside interpreted ones: the same records, and the same place to go on from."""

import random
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from tests.unit.store.making import Wall, open_store

from dueline import compiled
from dueline.message import Message, pack_host
from dueline.store import Store
from dueline.store.reading import ReadResult
from dueline.store.stretch import READ_KERNELS

pytest.importorskip("numba")

RED = [-1, 112785]  # the hash of "red", and one that no tag here has
SEGMENT_COUNT_MIN = 2


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Store:
    """Two queues whose records alternate over many segments; some are unusual or damaged."""
    assert compiled.load([READ_KERNELS])
    folder = tmp_path_factory.mktemp("store")
    store = open_store(folder, Wall())
    rng = random.Random(7)
    for number in range(600):
        tag = rng.choice(["red", "green", ""])
        store.put(
            Message(
                topic="orders",
                body=rng.randbytes(rng.choice([0, 1, 60, 900])),
                queue_id=number % 2,
                properties={"TAGS": tag} if tag else {},
                born_host=pack_host("::1" if rng.random() < 0.05 else "10.1.2.3", 99),
            )
        )
    assert len(list((folder / "commitlog").iterdir())) >= SEGMENT_COUNT_MIN
    for offset in rng.sample(range(300), 12):
        damage(store, offset, rng)
    return store


def damage(store: Store, offset: int, rng: random.Random) -> None:
    """Flip a bit of the record at an offset of queue 0, where the store has mapped it."""
    core = store._core
    queue = core.queues.get("orders", 0)
    assert queue is not None
    unit = queue.read(offset, 1)[0]
    position, size = int(unit["position"]), int(unit["size"])
    base = core.commit.base_of(position)
    path = core.commit.path_of(base)
    with path.open("r+b") as file:
        file.seek(position - base + rng.randrange(size))
        byte = file.read(1)[0]
        file.seek(-1, 1)
        file.write(bytes([byte ^ 1 << rng.randrange(8)]))


def told(result: ReadResult) -> tuple[Any, ...]:
    return (
        *(result.status, result.next_offset, result.start, result.end, result.damaged),
        [bytes(view) for view in result.records],
    )


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None)
@given(
    queue_id=st.integers(0, 1),
    offset=st.integers(-1, 301),
    count_max=st.integers(1, 64),
    size_bytes_max=st.one_of(st.integers(1, 2_000), st.just(1 << 20)),
    tags=st.one_of(st.none(), st.lists(st.sampled_from(RED), max_size=2)),
)
def test_a_read_is_the_same(  # noqa: PLR0913 - a place and its limits
    store: Store,
    queue_id: int,
    offset: int,
    count_max: int,
    size_bytes_max: int,
    tags: list[int] | None,
) -> None:
    def read() -> tuple[Any, ...]:
        accept = None if tags is None else (lambda codes: np.isin(codes, tags))
        limits = {"count_max": count_max, "size_bytes_max": size_bytes_max}
        return told(store.read("orders", queue_id, offset, accept=accept, **limits))

    found = read()
    with compiled.switched_off():
        assert found == read()


def test_most_records_come_in_one_piece(store: Store) -> None:
    pieces = [len(store.read("orders", 1, offset).chunks) for offset in range(0, 300, 32)]

    assert sum(pieces) < 100  # of 300 records, some of them wide, over several segments
