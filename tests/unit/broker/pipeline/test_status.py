from dueline.broker.pipeline import PipelineReport, PipelineStatus
from dueline.testing import ManualClock


def made() -> tuple[PipelineStatus, list[PipelineReport]]:
    told: list[PipelineReport] = []
    return PipelineStatus(ManualClock(1_000), on_change=told.append), told


def test_a_pipeline_elsewhere_stays_off_and_is_heard() -> None:
    status, told = made()

    status.asked()
    status.failed("KeyError")

    assert status.report() == PipelineReport(
        status="off", asked_ms=1_000, error="KeyError", error_ms=1_000
    )
    status.committed()
    assert status.report() == PipelineReport(status="off", asked_ms=1_000)
    assert told == [], "nothing has changed for those who watch it"


def test_a_pipeline_is_ready_with_its_first_batch_of_each_start() -> None:
    status, told = made()

    status.starting(7)
    status.asked()
    status.committed()
    status.committed()
    status.waiting("it was killed")
    status.starting(8)

    assert [report.status for report in told] == ["starting", "ready", "waiting", "starting"]
    assert [report.pid for report in told] == [7, 7, None, 8]
    assert [report.start_count for report in told] == [1, 1, 1, 2]
    assert status.has_committed


def test_why_it_ended_is_known_until_it_is_ready_again() -> None:
    status, _ = made()
    status.starting(7)
    status.waiting("no Java here")
    status.starting(8)

    assert status.report().reason == "no Java here"
    status.committed()
    assert status.report().reason == ""
    status.stopped()
    assert (status.report().status, status.report().pid) == ("stopped", None)


def test_an_error_is_kept_short() -> None:
    status, _ = made()

    status.failed("x" * 10_000)

    assert status.report().error == "x" * 500
