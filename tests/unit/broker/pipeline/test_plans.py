"""Plans are bounded in rows, bytes and names, whatever a peer asks for."""

from pathlib import Path

import pytest
from tests.unit.store.making import Wall, delayed, open_store

from dueline.broker.pipeline.plans import PLAN_OVERHEAD_BYTES, UNIT_SIZE_BYTES, Plan, Plans
from dueline.broker.pipeline.staging import Staging
from dueline.errors import InvalidRequest, LimitExceeded, NotFound
from dueline.store import Corner, Store

ALL = Corner(due_ms=1 << 60, seq=1 << 40, end=1 << 40)


@pytest.fixture
def store(tmp_path: Path) -> Store:
    store = open_store(tmp_path, Wall())
    for number in range(10):
        store.put(delayed(1_000 + number))
    return store


def plans(store: Store, size_bytes_max: int) -> Plans:
    return Plans(store, Staging(store.clock), size_bytes_max=size_bytes_max)


def planned(plans: Plans, slice_count_max: int = 1) -> Plan:
    return plans.plan(ALL, slice_count_max=slice_count_max, slice_row_count_min=1)


def read(plans: Plans, plan: str, run: str = "run") -> int:
    return len(plans.read(plan, 0, run=run, batch=0))


def test_a_plan_has_a_bounded_number_of_rows(store: Store) -> None:
    small = plans(store, 2 * UNIT_SIZE_BYTES * 9)

    with pytest.raises(LimitExceeded) as caught:
        planned(small)

    assert caught.value.limit == 9
    assert len(small) == 0


def test_plans_beyond_the_bytes_push_out_the_oldest(store: Store) -> None:
    some = plans(store, 3 * (PLAN_OVERHEAD_BYTES + UNIT_SIZE_BYTES * 10 + 320))

    names = [planned(some).name for _ in range(5)]

    assert len(some) == 3
    assert [read(some, name) for name in names[2:]] == [10, 10, 10]
    with pytest.raises(NotFound):
        read(some, names[1])


def test_the_newest_plan_is_kept_however_large_its_cuts(store: Store) -> None:
    tight = plans(store, 2 * UNIT_SIZE_BYTES * 10)

    plan = planned(tight, slice_count_max=10)

    assert (len(plan.slices), read(tight, plan.name)) == (10, 1)
    planned(tight)
    assert len(tight) == 1


def test_a_run_has_a_bounded_name(store: Store) -> None:
    some = plans(store, 1 << 20)
    plan = planned(some).name

    with pytest.raises(InvalidRequest, match="run: expected at most 256"):
        read(some, plan, run="x" * 257)
    assert read(some, plan, run="x" * 256) == 10
