"""Every level, arbitrary times and two months ahead, through Spark, on a clock that is moved."""

import pytest
from tests.spark.conftest import START_MS, Broker
from tests.spark.test_delivery_process import StartDriver, start_driver
from tests.waiting import wait_until

from dueline.message import Message
from dueline.store import Answer

pytestmark = [pytest.mark.spark, pytest.mark.slow]

__all__ = ["start_driver"]

SECOND, MINUTE, HOUR, DAY = 1_000, 60_000, 3_600_000, 86_400_000
LEVELS_MS = [
    *(1 * SECOND, 5 * SECOND, 10 * SECOND, 30 * SECOND),
    *(minutes * MINUTE for minutes in (1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 20, 30)),
    *(1 * HOUR, 2 * HOUR),
]
"""RocketMQ's table, written out."""


def put(broker: Broker, body: str, **properties: str) -> None:
    broker.store.put(Message(topic="orders", body=body.encode(), properties=properties))


def test_every_delay_is_kept_to_the_millisecond(broker: Broker, start_driver: StartDriver) -> None:
    expected: list[tuple[int, str]] = []
    for level, delay_ms in enumerate(LEVELS_MS, start=1):
        put(broker, f"level {level}", DELAY=str(level))
        expected.append((START_MS + delay_ms, f"level {level}"))
    put(broker, "beyond the last level", DELAY="99")
    expected.append((START_MS + 2 * HOUR, "beyond the last level"))
    put(broker, "odd", TIMER_DELAY_MS="12345")
    expected.append((START_MS + 12_345, "odd"))
    put(broker, "a date", TIMER_DELIVER_MS=str(START_MS + 90 * MINUTE + 7))
    expected.append((START_MS + 90 * MINUTE + 7, "a date"))
    put(broker, "two months", TIMER_DELAY_SEC=str(60 * DAY // SECOND))
    expected.append((START_MS + 60 * DAY, "two months"))
    put(broker, "level 0", DELAY="0")
    put(broker, "the past", TIMER_DELIVER_MS=str(START_MS - 1))
    put(broker, "cancelled while it waits", TIMER_DELAY_MS=str(2 * DAY), KEYS="waiting")
    put(broker, "cancelled at the gate", TIMER_DELAY_MS=str(HOUR + 1_000), KEYS="gate")
    at_once = [b"level 0", b"the past"]
    assert broker.bodies() == at_once
    assert broker.store.cancel("waiting") is Answer.CANCELLED
    start_driver(broker)

    for due_ms in sorted({due_ms for due_ms, _ in expected}):
        broker.now_ms = due_ms - 1
        wait_until(lambda due_ms=due_ms: is_carried(broker, due_ms), f"what is due at {due_ms}")  # type: ignore[misc]
        if due_ms == START_MS + HOUR:
            wait_until(lambda: broker.store.cancel("gate") is Answer.CANCELLED, "its cancelling")
        before = [body.encode() for due, body in sorted_by_due(expected) if due < due_ms]
        assert broker.bodies() == at_once + before
        broker.now_ms = due_ms
        now = [body.encode() for due, body in sorted_by_due(expected) if due <= due_ms]
        assert broker.bodies() == at_once + now

    assert broker.store.pending_count() == 0
    assert broker.store.cancel("gate") is Answer.CANCELLED


def is_carried(broker: Broker, due_ms: int) -> bool:
    next_due_ms = broker.store.next_due_ms()
    return next_due_ms is None or next_due_ms > due_ms


def sorted_by_due(expected: list[tuple[int, str]]) -> list[tuple[int, str]]:
    return sorted(expected, key=lambda entry: entry[0])
