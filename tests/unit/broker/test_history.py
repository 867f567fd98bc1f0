import numpy as np
import pytest

from dueline.broker.history import LATENESS_BOUNDS_MS, MINUTE_COUNT_MAX, MINUTE_MS, History
from dueline.clock import Clock

START_MS = 1_000 * MINUTE_MS


class Time:
    now_ms = START_MS


@pytest.fixture
def time() -> Time:
    return Time()


@pytest.fixture
def history(time: Time) -> History:
    return History(Clock(lambda: time.now_ms))


def show(history: History, now_ms: int, *late_ms: int) -> None:
    history.shown(np.array([now_ms - each for each in late_ms], dtype=np.int64), now_ms)


def test_a_minute_says_what_was_sent_and_shown_in_it(time: Time, history: History) -> None:
    history.accepted(10, 4, 0)
    show(history, START_MS + 100, *([3] * 98), 40, 1_234)
    time.now_ms = START_MS + MINUTE_MS
    history.accepted(1, 1, 2)

    first, second = history.minutes()

    assert (first.start_ms, first.sent_count, first.delayed_count) == (START_MS, 10, 4)
    assert (first.shown_count, first.p50_ms, first.max_ms) == (100, 3, 1_234)
    assert first.p99_ms == min(each for each in LATENESS_BOUNDS_MS if each >= 40)
    assert (second.start_ms, second.sent_count) == (START_MS + MINUTE_MS, 1)
    assert (second.shown_count, second.p50_ms, second.p99_ms, second.max_ms) == (0,) + (None,) * 3


def test_a_percentile_is_never_above_the_maximum(history: History) -> None:
    show(history, START_MS, 41)

    (minute,) = history.minutes()

    assert (minute.p50_ms, minute.p99_ms, minute.max_ms) == (41, 41, 41)


def test_a_lateness_beyond_the_last_class_is_the_maximum(history: History) -> None:
    year_ms = 365 * 86_400_000
    show(history, START_MS, year_ms)

    assert history.minutes()[0].p99_ms == year_ms


def test_a_day_is_kept_and_no_more(time: Time, history: History) -> None:
    for _ in range(MINUTE_COUNT_MAX + 10):
        time.now_ms += MINUTE_MS
        history.accepted(1, 0, 0)

    assert len(history.minutes()) == MINUTE_COUNT_MAX
    time.now_ms += 2 * MINUTE_COUNT_MAX * MINUTE_MS
    assert history.minutes() == []


def test_batches_and_the_disk_are_counted(time: Time, history: History) -> None:
    for count in range(100):
        time.now_ms += 1
        history.delivered(count=count, skipped_count=1, dropped_count=2)
    history.synced(0.003)
    history.accepted(0, 0, 5)

    batches = history.batches()

    assert [each.row_count for each in batches] == list(range(40, 100))
    assert (batches[-1].skipped_count, batches[-1].dropped_count) == (1, 2)
    assert history.batch_rows.counts.sum() == 100
    assert (history.sync_s.counts.sum(), history.sync_s.total) == (1, 0.003)
    assert history.group_rows.counts.sum() == 0
