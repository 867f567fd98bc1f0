"""Tables are read in bounded parts, whatever waits and whatever is asked."""

from pathlib import Path

import pytest
from tests.unit.store.making import START_MS, Wall, carry_over, delayed, open_store

from dueline.broker.pipeline import views
from dueline.broker.pipeline.views import Views
from dueline.errors import InvalidRequest
from dueline.store import Store


@pytest.fixture
def store(tmp_path: Path) -> Store:
    """Ten messages: half of them due in the same millisecond, half of them of another topic."""
    store = open_store(tmp_path, Wall())
    for number in range(10):
        topic = "orders" if number % 2 else "bills"
        store.put(delayed(1_000 + number // 5, body=b"%d" % number, topic=topic))
    return store


def origins(
    store: Store,
    *,
    start_ms: int = 0,
    end_ms: int = START_MS + 10_000,
    topics: tuple[str, ...] | None = None,
    row_count_max: int | None = None,
) -> list[int]:
    batches = Views(store).pending(start_ms, end_ms, topics=topics, row_count_max=row_count_max)
    return [origin for batch in batches for origin in batch["origin"].to_pylist()]


@pytest.mark.parametrize("scan_rows", [1, 2, 3, 10, 100])
def test_what_waits_is_read_whole_in_parts_of_any_size(
    store: Store, monkeypatch: pytest.MonkeyPatch, scan_rows: int
) -> None:
    monkeypatch.setattr(views, "SCAN_ROWS", scan_rows)

    assert origins(store) == list(range(10))
    assert origins(store, topics=("orders",)) == [1, 3, 5, 7, 9]
    assert origins(store, start_ms=START_MS + 1_001) == [5, 6, 7, 8, 9]
    assert origins(store, end_ms=START_MS + 1_001) == [0, 1, 2, 3, 4]
    assert origins(store, row_count_max=4) == [0, 1, 2, 3]
    assert origins(store, topics=("orders",), row_count_max=3) == [1, 3, 5]
    assert origins(store, row_count_max=0) == []


@pytest.mark.parametrize(("slices", "rows"), [(0, 1), (1, 0), (-1, 1)])
def test_slices_of_nothing_are_refused(store: Store, slices: int, rows: int) -> None:
    with pytest.raises(InvalidRequest, match="slices"):
        Views(store).plan_pending(0, 1 << 60, slice_count_max=slices, slice_row_count_min=rows)


def test_what_stands_at_the_gate_waits_too_and_says_so(tmp_path: Path) -> None:
    with open_store(tmp_path, Wall()) as store:
        for number in range(4):
            store.put(delayed(1_000 * (number + 1), body=b"%d" % number, KEYS=f"k{number}"))
        carry_over(store, ahead_ms=2_000)
        tables = Views(store)

        rows = [row for part in tables.pending(0, START_MS + 10_000) for row in part.to_pylist()]
        plan = tables.plan_pending(0, START_MS + 2_001, slice_count_max=1, slice_row_count_min=1)
        (found,) = tables.found("k1")

    assert [(row["origin"], row["state"]) for row in rows] == [
        (0, "carried over"),
        (1, "carried over"),
        (2, "pending"),
        (3, "pending"),
    ]
    assert len(plan) == 1
    assert found["state"].to_pylist() == ["carried over"]
