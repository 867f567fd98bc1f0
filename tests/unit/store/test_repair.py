"""Queue files that are made again from the log."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.golden.layout import java_hash
from tests.unit.store.making import Wall, bodies, carry_over, delayed, open_store, ordinary

from dueline.store import Store


@pytest.fixture
def store(tmp_path: Path) -> Iterator[Store]:
    """Twenty visible messages in one queue, half of them delayed, and others elsewhere."""
    wall = Wall()
    with open_store(tmp_path, wall) as store:
        for number in range(10):
            store.put_all([ordinary(b"o%d" % number, TAGS="o"), ordinary(topic="x")])
            store.put(delayed(5, b"d%d" % number, TAGS="d"))
        carry_over(store)
        wall.advance(5)
        store.open_gate()
        yield store


@pytest.mark.parametrize("kind", ["missing", "flipped", "zeros"])
def test_damaged_queue_file_is_made_again(store: Store, tmp_path: Path, kind: str) -> None:
    expected = bodies(store)
    assert len(expected) == 20
    store.close()
    path = tmp_path / "consumequeue" / "orders" / "0" / f"{7 * 20:020d}"
    sound = path.read_bytes()
    if kind == "missing":
        path.unlink()
    elif kind == "zeros":
        path.write_bytes(bytes(len(sound)))
    else:
        path.write_bytes(sound[:7] + bytes([sound[7] ^ 1]) + sound[8:])

    with open_store(tmp_path, Wall()) as again:
        assert bodies(again) == expected
        wanted = java_hash("d")
        result = again.read("orders", 0, 14, count_max=9, accept=lambda codes: codes == wanted)
        assert len(result.records) == 6

    assert path.read_bytes() == sound
