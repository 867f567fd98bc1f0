"""Delivering: once per origin, never early, in order, all or nothing."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa
import pytest
from tests.unit.store.making import (
    START_MS,
    Wall,
    bodies,
    carry_over,
    delayed,
    int64s,
    open_store,
    ordinary,
    read_all,
    take_window,
)

from dueline.errors import InvalidRequest
from dueline.store import Observer, Store, restore


@pytest.fixture
def wall() -> Wall:
    return Wall()


@pytest.fixture
def store(tmp_path: Path, wall: Wall) -> Iterator[Store]:
    with open_store(tmp_path, wall) as store:
        yield store


def test_record_is_visible_at_its_millisecond(store: Store, wall: Wall) -> None:
    store.put_all([delayed(10, b"a"), delayed(12, b"b")])
    result = carry_over(store)
    assert (result.delivered_count, result.late_ms_max) == (2, 0)
    assert (store.gate_row_count, store.gate_next_ms) == (2, START_MS + 10)

    wall.advance(9)
    assert store.open_gate() == 0
    assert bodies(store) == []

    wall.advance(1)
    assert store.open_gate() == 1
    assert bodies(store) == [b"a"]

    wall.advance(2)
    assert store.open_gate() == 1
    assert [(record.body, record.store_ms, record.seq) for record in read_all(store)] == [
        (b"a", START_MS + 10, 0),
        (b"b", START_MS + 12, 1),
    ]


def test_late_record_is_visible_at_once_and_counted(store: Store, wall: Wall) -> None:
    store.put(delayed(10))
    wall.advance(60)

    result = carry_over(store)

    assert result.late_ms_max == 50
    (record,) = read_all(store)
    assert record.store_ms == START_MS + 60, "when it became visible, so that time can be searched"


def test_replayed_delivery_is_skipped(store: Store, wall: Wall) -> None:
    store.put_all([delayed(5), delayed(6)])
    batch = restore.deliveries(take_window(store))
    store.deliver([batch])

    result = store.deliver([batch])

    assert (result.delivered_count, result.skipped_count) == (0, 2)
    wall.advance(10)
    store.open_gate()
    assert store.offset_range("orders", 0) == (0, 2)


def test_partly_delivered_window_delivers_the_rest(store: Store) -> None:
    store.put_all([delayed(5), delayed(6), delayed(7)])
    batch = restore.deliveries(take_window(store))
    store.deliver([batch.slice(1, 1)])

    result = store.deliver([batch])

    assert (result.delivered_count, result.skipped_count) == (2, 1)
    assert store.pending_count() == 0


def test_rows_in_any_order_become_visible_in_order(store: Store, wall: Wall) -> None:
    store.put_all([delayed(5, b"%d" % number) for number in range(6)])
    batch = restore.deliveries(take_window(store))

    store.deliver([batch.take(pa.array([5, 0, 3])), batch.take(pa.array([4, 2, 1]))])

    wall.advance(5)
    store.open_gate()
    assert bodies(store) == [b"%d" % number for number in range(6)]


def test_windows_delivered_one_after_the_other_keep_the_order(store: Store, wall: Wall) -> None:
    """Cut within one millisecond: acceptance decides."""
    store.put_all([delayed(5, b"%d" % number) for number in range(7)])

    for _ in range(4):
        carry_over(store, row_count_max=2)

    wall.advance(5)
    store.open_gate()
    assert bodies(store) == [b"%d" % number for number in range(7)]


def test_delayed_and_ordinary_messages_share_a_queue_by_time(store: Store, wall: Wall) -> None:
    store.put(delayed(10, b"due at 10"))
    carry_over(store)
    store.put(ordinary(b"put at 0"))
    wall.advance(10)
    store.put(ordinary(b"put at 10"))
    wall.advance(1)
    store.put(ordinary(b"put at 11"))

    assert bodies(store) == [b"put at 0", b"due at 10", b"put at 10", b"put at 11"]


def test_dropped_origins_are_done(store: Store, wall: Wall) -> None:
    store.put_all([delayed(5, b"keep"), delayed(6, b"drop")])
    batch = restore.deliveries(take_window(store))

    result = store.deliver([batch.slice(0, 1)], dropped=int64s(1, 1))

    assert (result.delivered_count, result.dropped_count) == (1, 1)
    assert store.pending_count() == 0
    wall.advance(10)
    store.open_gate()
    assert bodies(store) == [b"keep"]
    again = store.deliver([batch], dropped=int64s(1))
    assert (again.delivered_count, again.skipped_count, again.dropped_count) == (0, 2, 0)


def test_origin_both_delivered_and_dropped_is_delivered(store: Store) -> None:
    store.put(delayed(5))

    result = store.deliver([restore.deliveries(take_window(store))], dropped=int64s(0))

    assert (result.delivered_count, result.dropped_count) == (1, 0)


def test_dropped_origins_survive_a_restart(store: Store, wall: Wall) -> None:
    store.put_all([delayed(5), delayed(6)])
    store.deliver([], dropped=int64s(0))
    path = store.path
    store.close()
    for name in ("timeline.states", "timeline.states.mirror"):
        (path / name).unlink()

    with open_store(path, wall) as again:
        assert again.pending_count() == 1


@pytest.mark.parametrize("origin", [-1, 2, 99])
def test_origins_that_were_never_accepted_are_refused(store: Store, origin: int) -> None:
    store.put_all([delayed(5), delayed(6)])
    batch = restore.deliveries(take_window(store))
    at = batch.schema.get_field_index("origin")
    made_up = batch.set_column(at, batch.schema.field("origin"), pa.array([0, origin], pa.int64()))

    with pytest.raises(InvalidRequest) as caught:
        store.deliver([made_up])
    with pytest.raises(InvalidRequest):
        store.deliver([], dropped=int64s(origin))

    assert caught.value.field == "origin"
    assert store.pending_count() == 2


def test_rows_of_another_schema_are_refused(store: Store) -> None:
    with pytest.raises(InvalidRequest, match="columns") as caught:
        store.deliver([pa.record_batch({"origin": [1]})])

    assert caught.value.field == "schema"


@pytest.mark.parametrize("queue_id", [-1, 65_536])
def test_queue_that_cannot_be_is_refused(store: Store, queue_id: int) -> None:
    store.put(delayed(5))
    batch = restore.deliveries(take_window(store))
    at = batch.schema.get_field_index("queue_id")
    wrong = batch.set_column(at, batch.schema.field("queue_id"), pa.array([queue_id], pa.int32()))

    with pytest.raises(InvalidRequest, match="queue id"):
        store.deliver([wrong])

    assert carry_over(store).delivered_count == 1


def test_delivery_of_nothing_changes_nothing(store: Store) -> None:
    end = store.stats()["commit_log"]["end"]

    result = store.deliver([])

    assert (result.delivered_count, result.skipped_count, result.dropped_count) == (0, 0, 0)
    assert store.stats()["commit_log"]["end"] == end


def test_those_who_wait_are_told(store: Store, wall: Wall) -> None:
    class Waiting(Observer):
        def grown(self, queues: list[tuple[str, int]]) -> None:
            seen.append(queues)

    seen: list[list[tuple[str, int]]] = []
    store.observe(Waiting())

    store.put(ordinary(topic="a"))
    store.put(delayed(5, topic="b"))
    carry_over(store)
    assert seen == [[("a", 0)]]

    wall.advance(5)
    store.open_gate()
    assert seen == [[("a", 0)], [("b", 0)]]


def test_listener_that_fails_stops_nothing(
    store: Store, wall: Wall, caplog: pytest.LogCaptureFixture
) -> None:
    class Failing(Observer):
        def grown(self, queues: list[tuple[str, int]]) -> None:
            raise ValueError("a mistake")

    store.observe(Failing())

    store.put(ordinary(b"a"))
    store.put(delayed(5, b"b"))
    carry_over(store)
    wall.advance(5)
    store.open_gate()

    assert bodies(store) == [b"a", b"b"]
    assert [record.exc_info is not None for record in caplog.records] == [True, True]
