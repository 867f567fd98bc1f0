from tests.unit.flight.test_operators import NOW_MS, reported
from tests.unit.web.test_metrics import measured

from dueline.flight.attention import notices
from dueline.flight.console import MeasuredPlace
from dueline.flight.operators import DriverReport, OverdueMessage
from dueline.flight.waiting import Crowd, Forecast

NOTHING = Forecast(crowds=())


def test_a_broker_that_is_well_is_said_to_be() -> None:
    assert [each.tone for each in notices(reported(), measured(), NOTHING)] == ["good"]


def test_the_worst_comes_first() -> None:
    oldest = OverdueMessage(topic="t", queue_id=0, unique_id="u", keys="", due_ms=NOW_MS - 60_000)
    slow = MeasuredPlace(
        group="g", topic="t", lag=5, lag_ms=3_600_000, in_flight_count=0, client_count=0
    )
    report = reported(
        overdue=3,
        oldest_overdue=oldest,
        driver=DriverReport(status="stopped", reason="no Java"),
        clock_ahead_ms=1_000,
    )
    found = notices(
        report,
        measured(places=(slow, slow), undecided_count=2, disk_used_bytes=90, disk_free_bytes=10),
        NOTHING,
    )

    assert [each.tone for each in found] == ["bad"] * 3 + ["warn"] * 3
    texts = " ".join(each.text for each in found)
    for said in (
        "3 messages are overdue",
        "no Java",
        "set back",
        "90 %",
        "1 more",
        "2 transactions",
    ):
        assert said in texts
    assert found[0].path == "/pending?due_before=now"


def test_a_complaint_of_a_pipeline_that_works_is_a_warning() -> None:
    report = reported(driver=DriverReport(status="ready", error="slow disk"))

    assert [each.text for each in notices(report, measured(), NOTHING)] == [
        "The pipeline complained: slow disk"
    ]


def test_a_pipeline_that_is_stood_in_for_is_a_warning() -> None:
    report = reported(driver=DriverReport(status="waiting", reason="killed", is_stood_in=True))

    (found,) = notices(report, measured(), NOTHING)

    assert found.tone == "warn"
    assert found.text == "The pipeline is waiting (killed). The broker delivers in its place."


def test_a_crowd_ahead_is_told_before_it_comes() -> None:
    crowd = Crowd(
        topic="t",
        limit="rate",
        per_minute=600,
        start_ms=NOW_MS + 3_600_000,
        end_ms=NOW_MS + 3_660_000,
        peak_count=9_000,
        wait_ms=840_000,
    )

    (found,) = notices(reported(), measured(), Forecast(crowds=(crowd,)))

    assert found.tone == "warn"
    assert "9,000 a minute for t, where its release rate carries 600" in found.text
    assert "topic=t" in found.path
