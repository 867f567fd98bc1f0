from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest

from dueline.broker.figures import Meter
from dueline.broker.watches import Watches
from dueline.clock import Clock
from dueline.message import Message
from dueline.store import Store, StoreOptions
from dueline.store.restore import deliveries
from dueline.store.schema import SCHEDULE_SCHEMA

OPTIONS = StoreOptions(commit_segment_size_bytes=1 << 18, delay_segment_size_bytes=1 << 18)


class Time:
    now_ms = 1_000_000


@pytest.fixture
def time() -> Time:
    return Time()


@pytest.fixture
def store(tmp_path: Path, time: Time) -> Iterator[Store]:
    with Store.open(tmp_path, OPTIONS, clock=Clock(lambda: time.now_ms)) as store:
        yield store


@pytest.fixture
def meter(store: Store) -> Meter:
    return Meter(store, Watches())


def put(store: Store, *delays_ms: int) -> None:
    for number, delay_ms in enumerate(delays_ms):
        properties = {"TIMER_DELAY_MS": str(delay_ms), "KEYS": f"k{number}"}
        store.put(Message(topic="t", body=b"x", properties=properties))


def window(store: Store, ahead_ms: int) -> pa.RecordBatch:
    until_ms = store.clock.now_ms() + ahead_ms
    corner = store.next_corner(until_ms=until_ms, row_count_max=1000)
    return deliveries(store.read_window(store.window(corner)))


def counts(meter: Meter) -> dict[str, int]:
    """Those that are not zero."""
    counters = vars(meter.counters).items()
    return {
        name.removesuffix("_count"): count for name, count in counters if count and name[0] != "_"
    }


def test_what_is_accepted_is_counted_however_it_comes(store: Store, meter: Meter) -> None:
    put(store, 1_000)
    store.put_all([Message(topic="t", body=b""), Message(topic="bad topic", body=b"")])
    row = {"topic": "t", "body": b"x", "delay_ms": 5_000}
    store.put_many(pa.Table.from_pylist([row], schema=SCHEDULE_SCHEMA))

    assert counts(meter) == {"sent": 3, "sent_delayed": 2, "refused": 1}


def test_what_becomes_of_messages_is_counted(store: Store, meter: Meter) -> None:
    put(store, 1_000, 1_000, 1_000, 90_000, 90_000)
    rows = window(store, 5_000)
    store.deliver([rows.slice(0, 2)], dropped=np.array([2], dtype=np.int64))
    store.deliver([rows.slice(0, 2)])
    store.cancel_many(["k3", "unknown"])
    store.reschedule_many([("k4", store.clock.now_ms() + 50_000)])

    assert counts(meter) == {
        "sent": 5,
        "sent_delayed": 5,
        "delivered": 2,
        "skipped": 2,
        "dropped": 1,
        "cancelled": 1,
        "rescheduled": 1,
    }


def test_lateness_is_from_due_to_visible(store: Store, meter: Meter, time: Time) -> None:
    put(store, 1_000, 2_000)
    store.deliver([window(store, 5_000)])
    time.now_ms += 1_007
    store.open_gate()
    time.now_ms += 1_000
    store.put(Message(topic="t", body=b"an append opens the gate too"))

    figures = meter.lateness.figures(time.now_ms)

    assert (figures.count, figures.p50_ms, figures.max_ms) == (2, 7, 7)


def test_what_is_carried_over_too_late_is_late_by_that(
    store: Store, meter: Meter, time: Time
) -> None:
    put(store, 1_000)
    time.now_ms += 31_000
    store.deliver([window(store, 0)])

    assert meter.lateness.figures(time.now_ms).max_ms == 30_000
    assert meter.lateness.late_ms_max == 30_000


def test_a_repeated_delivery_is_not_measured_again(store: Store, meter: Meter, time: Time) -> None:
    put(store, 1_000)
    rows = window(store, 5_000)
    time.now_ms += 2_000
    store.deliver([rows])
    store.deliver([rows])

    assert meter.lateness.figures(time.now_ms).count == 1


def test_what_is_new_in_a_partly_repeated_delivery_is_measured(
    store: Store, meter: Meter, time: Time
) -> None:
    put(store, 1_000, 1_500)
    rows = window(store, 5_000)
    time.now_ms += 2_000
    store.deliver([rows.slice(0, 1)])
    store.deliver([rows])

    assert meter.lateness.figures(time.now_ms).count == 2


def test_what_is_held_back_for_an_earlier_one_is_late_by_its_wait(
    store: Store, meter: Meter, time: Time
) -> None:
    put(store, 2_000)
    store.deliver([window(store, 5_000)])
    put(store, 1_000)  # due earlier, and nobody carries it over in time
    time.now_ms += 2_000
    store.open_gate()
    assert meter.lateness.figures(time.now_ms).count == 0

    time.now_ms += 1_500
    store.deliver([window(store, 0)])

    figures = meter.lateness.figures(time.now_ms)
    assert (figures.count, figures.p50_ms, figures.max_ms) == (2, 1_500, 2_500)


def test_a_message_that_is_cancelled_at_the_gate_is_not_late(
    store: Store, meter: Meter, time: Time
) -> None:
    put(store, 1_000)
    store.deliver([window(store, 5_000)])
    store.cancel("k0")
    time.now_ms += 9_000
    store.open_gate()

    assert meter.lateness.figures(time.now_ms).count == 0


def test_the_next_due_may_be_at_the_gate_already(store: Store, meter: Meter) -> None:
    put(store, 1_000)
    store.deliver([window(store, 5_000)])
    put(store, 2_000)

    figures = meter.figures()

    assert (figures.next_due_ms, figures.pending_count, figures.at_gate_count) == (1_001_000, 1, 1)
