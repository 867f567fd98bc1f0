"""Plans are bounded in rows, bytes and names, whatever a peer asks for."""

from pathlib import Path

import pytest
from tests.unit.store.making import Wall, delayed, open_store

from dueline.errors import InvalidRequest, LimitExceeded, NotFound
from dueline.flight.protocol import Corner, PlanWindow, ReadSlice, WindowPlan
from dueline.server.staging import Staging
from dueline.server.windows import PLAN_OVERHEAD_BYTES, UNIT_SIZE_BYTES, Windows
from dueline.store import Store

ALL = Corner(due_ms=1 << 60, seq=1 << 40, end=1 << 40)


@pytest.fixture
def store(tmp_path: Path) -> Store:
    store = open_store(tmp_path, Wall())
    for number in range(10):
        store.put(delayed(1_000 + number))
    return store


def windows(store: Store, size_bytes_max: int) -> Windows:
    return Windows(store, Staging(store.clock), size_bytes_max=size_bytes_max)


def planned(windows: Windows, slice_count_max: int = 1) -> WindowPlan:
    request = PlanWindow(end=ALL, slice_count_max=slice_count_max, slice_row_count_min=1)
    return windows.plan(request)


def read(windows: Windows, plan: str, run: str = "run") -> int:
    request = ReadSlice(plan=plan, index=0, run=run, batch=0, is_mapped=True)
    return len(windows.read(request))


def test_a_plan_has_a_bounded_number_of_rows(store: Store) -> None:
    small = windows(store, 2 * UNIT_SIZE_BYTES * 9)

    with pytest.raises(LimitExceeded) as caught:
        planned(small)

    assert caught.value.limit == 9
    assert len(small) == 0


def test_plans_beyond_the_bytes_push_out_the_oldest(store: Store) -> None:
    some = windows(store, 3 * (PLAN_OVERHEAD_BYTES + UNIT_SIZE_BYTES * 10 + 320))

    names = [planned(some).plan for _ in range(5)]

    assert len(some) == 3
    assert [read(some, name) for name in names[2:]] == [10, 10, 10]
    with pytest.raises(NotFound):
        read(some, names[1])


def test_the_newest_plan_is_kept_however_large_its_cuts(store: Store) -> None:
    tight = windows(store, 2 * UNIT_SIZE_BYTES * 10)

    plan = planned(tight, slice_count_max=10)

    assert (len(plan.slices), read(tight, plan.plan)) == (10, 1)
    planned(tight)
    assert len(tight) == 1


def test_a_run_has_a_bounded_name(store: Store) -> None:
    some = windows(store, 1 << 20)
    plan = planned(some).plan

    with pytest.raises(InvalidRequest, match="run: expected at most 256"):
        read(some, plan, run="x" * 257)
    assert read(some, plan, run="x" * 256) == 10
