from tests.unit.flight.test_operators import NOW_MS, reported

from dueline.flight.operators import DriverReport, OverdueMessage
from dueline.web.health import health_of


def test_what_keeps_it_from_delivering_is_said() -> None:
    oldest = OverdueMessage(
        topic="t", queue_id=0, unique_id="u", keys="", due_ms=NOW_MS - 3_600_000
    )
    report = reported(
        driver=DriverReport(status="waiting", reason="no memory"),
        overdue=1_234,
        oldest_overdue=oldest,
        clock_ahead_ms=5_000,
    )

    health = health_of(report)

    assert health.status == "not ready"
    assert health.reasons[0] == "the pipeline is waiting: no memory"
    assert "1,234 messages are overdue" in health.reasons[1]
    assert "time stands still" in health.reasons[2]


def test_a_broker_that_stands_in_for_its_pipeline_is_ready() -> None:
    driver = DriverReport(status="starting", is_stood_in=True)

    assert health_of(reported(driver=driver)).status == "ready"


def test_a_message_that_is_a_little_late_is_no_reason() -> None:
    oldest = OverdueMessage(topic="t", queue_id=0, unique_id="u", keys="", due_ms=NOW_MS - 2_000)

    assert health_of(reported(overdue=1, oldest_overdue=oldest)).status == "ready"
