import msgspec
import pytest

from dueline.flight.operators import DriverReport, Reported

NOW_MS = 1_000_000


def reported(**fields: object) -> Reported:
    numbers = dict.fromkeys(
        (
            *("pid", "clock_ahead_ms", "started_ms", "sent", "sent_delayed", "refused"),
            *("delivered", "dropped", "skipped", "cancelled", "rescheduled", "pending"),
            *("at_gate", "waiting_readers", "commit_log_bytes", "delay_log_bytes"),
        ),
        0,
    )
    lateness = {"count": 0, "p50_ms": None, "p99_ms": None, "max_ms": None, "late_ms_max": 0}
    words = {"version": "1", "shard": "s", "folder": "f", "next_due_ms": None}
    driver = DriverReport(status="ready").to_json()
    plain = {**numbers, **words, "now_ms": NOW_MS, "lateness": lateness, "driver": driver}
    return msgspec.structs.replace(Reported.from_json(plain), **fields)


@pytest.mark.parametrize(
    ("driver", "expected"),
    [
        (DriverReport(status="ready"), True),
        (DriverReport(status="starting"), False),
        (DriverReport(status="waiting", reason="no memory"), False),
        (DriverReport(status="off"), False),
        (DriverReport(status="off", asked_ms=NOW_MS - 1_000), True),
        (DriverReport(status="off", asked_ms=NOW_MS - 100_000), False),
    ],
)
def test_a_pipeline_delivers_here_or_elsewhere(driver: DriverReport, expected: bool) -> None:
    assert reported(driver=driver).is_delivering == expected
