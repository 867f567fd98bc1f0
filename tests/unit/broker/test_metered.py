from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest

from dueline.broker.metered import Counters, MeteredStore
from dueline.clock import Clock
from dueline.message import Message
from dueline.store import StoreOptions
from dueline.store.restore import deliveries
from dueline.store.schema import SCHEDULE_SCHEMA

OPTIONS = StoreOptions(commit_segment_size_bytes=1 << 18, delay_segment_size_bytes=1 << 18)


class Time:
    now_ms = 1_000_000


@pytest.fixture
def time() -> Time:
    return Time()


@pytest.fixture
def store(tmp_path: Path, time: Time) -> Iterator[MeteredStore]:
    with MeteredStore.open(tmp_path, OPTIONS, clock=Clock(lambda: time.now_ms)) as store:
        yield store


def put(store: MeteredStore, *delays_ms: int) -> None:
    for number, delay_ms in enumerate(delays_ms):
        properties = {"TIMER_DELAY_MS": str(delay_ms), "KEYS": f"k{number}"}
        store.put(Message(topic="t", body=b"x", properties=properties))


def window(store: MeteredStore, ahead_ms: int) -> pa.RecordBatch:
    until_ms = store.clock.now_ms() + ahead_ms
    corner = store.next_corner(until_ms=until_ms, row_count_max=1000)
    return deliveries(store.read_window(store.window(corner)))


def counts(counters: Counters) -> dict[str, int]:
    return {name: count for name, count in vars(counters).items() if name[0] != "_" and count}


def test_what_is_accepted_is_counted_however_it_comes(store: MeteredStore) -> None:
    put(store, 1_000)
    store.put_all([Message(topic="t", body=b""), Message(topic="bad topic", body=b"")])
    row = {"topic": "t", "body": b"x", "delay_ms": 5_000}
    store.put_many(pa.Table.from_pylist([row], schema=SCHEDULE_SCHEMA))

    assert counts(store.counters) == {"sent": 3, "sent_delayed": 2, "refused": 1}


def test_what_becomes_of_messages_is_counted(store: MeteredStore) -> None:
    put(store, 1_000, 1_000, 1_000, 90_000, 90_000)
    rows = window(store, 5_000)
    store.deliver([rows.slice(0, 2)], dropped=np.array([2], dtype=np.int64))
    store.deliver([rows.slice(0, 2)])
    store.cancel_many(["k3", "unknown"])
    store.reschedule_many([("k4", store.clock.now_ms() + 50_000)])

    assert counts(store.counters) == {
        "sent": 5,
        "sent_delayed": 5,
        "delivered": 2,
        "skipped": 2,
        "dropped": 1,
        "cancelled": 1,
        "rescheduled": 1,
    }


def test_lateness_is_from_due_to_visible(store: MeteredStore, time: Time) -> None:
    put(store, 1_000, 2_000)
    store.deliver([window(store, 5_000)])
    time.now_ms += 1_007
    store.open_gate()
    time.now_ms += 1_000
    store.put(Message(topic="t", body=b"an append opens the gate too"))

    figures = store.lateness.figures(time.now_ms)

    assert (figures.count, figures.p50_ms, figures.max_ms) == (2, 7, 7)


def test_what_is_carried_over_too_late_is_late_by_that(store: MeteredStore, time: Time) -> None:
    put(store, 1_000)
    time.now_ms += 31_000
    store.deliver([window(store, 0)])

    assert store.lateness.figures(time.now_ms).max_ms == 30_000
    assert store.lateness.late_ms_max == 30_000


def test_a_repeated_delivery_is_not_measured_again(store: MeteredStore, time: Time) -> None:
    put(store, 1_000)
    rows = window(store, 5_000)
    time.now_ms += 2_000
    store.deliver([rows])
    store.deliver([rows])

    assert store.lateness.seen_count == 1


def test_the_gate_is_announced_when_something_new_waits_there(store: MeteredStore) -> None:
    announced: list[int | None] = []
    store.on_gate = lambda: announced.append(store.gate_next_ms)
    put(store, 1_000)
    rows = window(store, 5_000)

    store.deliver([rows])
    store.deliver([rows])

    assert announced == [1_001_000]


def test_listeners_hear_which_queues_grew(store: MeteredStore) -> None:
    heard: list[tuple[str, int]] = []
    store.on_visible(heard.extend)

    store.put(Message(topic="t", body=b"", queue_id=3))

    assert heard == [("t", 3)]
