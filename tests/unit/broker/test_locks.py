"""A queue belongs to one client at a time, until it lets go or falls silent."""

from __future__ import annotations

from dueline.broker.locks import LOCK_MS_MAX, QueueLocks
from dueline.testing import ManualClock

QUEUES = [("t", 0), ("t", 1)]


def test_second_client_gets_what_is_left() -> None:
    locks = QueueLocks(ManualClock(0))
    assert locks.lock("g", "a", [("t", 0)]) == [("t", 0)]

    assert locks.lock("g", "b", QUEUES) == [("t", 1)]
    assert locks.lock("other", "b", QUEUES) == QUEUES


def test_renewal_keeps_a_lock_and_silence_loses_it() -> None:
    clock = ManualClock(0)
    locks = QueueLocks(clock)
    locks.lock("g", "a", QUEUES)
    clock.advance(LOCK_MS_MAX)
    locks.lock("g", "a", [("t", 0)])
    clock.advance(1)

    assert locks.lock("g", "b", QUEUES) == [("t", 1)]

    clock.advance(LOCK_MS_MAX)
    assert locks.lock("g", "c", QUEUES) == [("t", 0)]


def test_only_the_holder_can_unlock() -> None:
    locks = QueueLocks(ManualClock(0))
    locks.lock("g", "a", QUEUES)

    locks.unlock("g", "b", QUEUES)
    assert locks.lock("g", "b", QUEUES) == []

    locks.unlock("g", "a", QUEUES)
    assert locks.lock("g", "b", QUEUES) == QUEUES
