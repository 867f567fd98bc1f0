"""Rows of a DataFrame, checked without Spark."""

from datetime import UTC, datetime, timedelta

import pyarrow as pa

from dueline.flight.protocol import PROTOCOL_VERSION, Description
from dueline.spark.schedule_rows import checked

NOW_MS = 1_800_000_000_000
LIMITS = Description(
    protocol=PROTOCOL_VERSION,
    shard="s",
    now_ms=NOW_MS,
    body_size_bytes_max=1000,
    delay_ms_max=86_400_000,
)
NOW = datetime.fromtimestamp(NOW_MS / 1000, UTC)


def faults(**columns: pa.Array) -> list[str | None]:
    count = len(next(iter(columns.values())))
    given = {"topic": pa.array(["t"] * count), "body": pa.array([b"b"] * count), **columns}
    found: list[str | None] = checked(pa.RecordBatch.from_pydict(given), LIMITS).faults.to_pylist()
    return found


def test_times_that_are_over_are_faults_but_for_a_minute() -> None:
    times = [NOW - timedelta(hours=2), NOW - timedelta(seconds=59), NOW + timedelta(hours=1)]

    past, just_now, to_come = faults(deliver_at=pa.array(times, pa.timestamp("us", "UTC")))

    assert past is not None
    assert past.startswith("deliver_at: expected a time to come, found the past")
    assert (just_now, to_come) == (None, None)


def test_limits_are_told_in_units_that_people_use() -> None:
    (too_far,) = faults(delay=pa.array(["90000d"]))
    (too_late,) = faults(
        deliver_at=pa.array([NOW + timedelta(days=400)], pa.timestamp("us", "UTC"))
    )

    assert too_far == "delay: expected at most 1 d (the broker's store.delay_max), found more"
    assert too_late is not None
    assert "at most 1 d (the broker's store.delay_max) from now" in too_late


def test_delays_are_read_as_everywhere() -> None:
    assert faults(delay=pa.array(["1h 30m", "1.5h", "PT30M"])) == [None, None, None]
