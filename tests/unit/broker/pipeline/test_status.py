from dueline.broker.pipeline import PipelineReport, PipelineStatus
from dueline.broker.pipeline.status import TRANSFORM_MS
from dueline.clock import Clock
from dueline.testing import ManualClock


def made() -> tuple[PipelineStatus, list[PipelineReport]]:
    told: list[PipelineReport] = []
    status = PipelineStatus(ManualClock(1_000))
    status.on_change(told.append)
    return status, told


def starting(status: PipelineStatus, pid: int, start_count: int) -> None:
    status.follow(status="starting", pid=pid, start_count=start_count, reason="")


def waiting(status: PipelineStatus, start_count: int, reason: str) -> None:
    status.follow(status="waiting", pid=None, start_count=start_count, reason=reason)


def test_a_pipeline_elsewhere_stays_off_and_is_heard() -> None:
    status, told = made()

    status.asked(is_transformed=False)
    status.failed("KeyError")

    assert status.report() == PipelineReport(
        status="off", asked_ms=1_000, error="KeyError", error_ms=1_000
    )
    status.committed()
    assert status.report() == PipelineReport(status="off", asked_ms=1_000)
    assert told == [], "nothing has changed for those who watch it"


def test_a_pipeline_is_ready_with_its_first_batch_of_each_start() -> None:
    status, told = made()

    assert not status.is_missed()
    starting(status, 7, 1)
    status.asked(is_transformed=False)
    assert status.is_missed()
    status.committed()
    status.committed()
    assert not status.is_missed()
    waiting(status, 1, "it was killed")
    assert status.is_missed()
    starting(status, 8, 2)
    assert status.is_missed()

    assert [report.status for report in told] == ["starting", "ready", "waiting", "starting"]
    assert [report.pid for report in told] == [7, 7, None, 8]
    assert [report.start_count for report in told] == [1, 1, 1, 2]


def test_one_that_was_there_before_the_broker_is_ready_when_it_has_found_it() -> None:
    status, told = made()

    starting(status, 7, 3)
    assert status.report().status == "starting"
    status.committed()

    assert (told[-1].status, told[-1].pid, told[-1].start_count) == ("ready", 7, 3)


def test_why_it_ended_is_known_until_it_is_ready_again() -> None:
    status, _ = made()
    starting(status, 7, 1)
    waiting(status, 1, "no Java here")
    starting(status, 8, 2)

    assert status.report().reason == "no Java here"
    status.committed()
    assert status.report().reason == ""
    status.follow(status="stopped", pid=None, start_count=2, reason="")
    assert (status.report().status, status.report().pid) == ("stopped", None)
    assert not status.is_missed(), "nobody starts it again"


def test_an_error_is_kept_short() -> None:
    status, _ = made()

    status.failed("x" * 10_000)

    assert status.report().error == "x" * 500


def test_a_transform_is_expected_until_a_pipeline_has_said_that_there_is_none() -> None:
    now_ms = [1_000]
    clock = Clock(lambda: now_ms[0])
    elsewhere, ours = PipelineStatus(clock), PipelineStatus(clock, is_transformed=False)
    assert (elsewhere.may_decide(), ours.may_decide()) == (True, False)

    elsewhere.asked(is_transformed=False)
    assert not elsewhere.may_decide()

    elsewhere.asked(is_transformed=True)
    elsewhere.asked(is_transformed=False)
    assert elsewhere.may_decide(), "two pipelines, and one of them decides"
    now_ms[0] += TRANSFORM_MS
    assert elsewhere.may_decide()
    now_ms[0] += 1
    assert not elsewhere.may_decide()


def test_a_pipeline_of_ours_without_a_transform_is_stood_in_for_until_it_is_ready() -> None:
    ours = PipelineStatus(ManualClock(1_000), is_transformed=False)
    assert not ours.is_stood_in()
    starting(ours, 1, 1)
    assert ours.is_stood_in()
    ours.committed()
    assert not ours.is_stood_in()
    waiting(ours, 1, "killed")
    assert ours.is_stood_in()

    deciding = PipelineStatus(ManualClock(1_000), is_transformed=True)
    starting(deciding, 1, 1)
    assert not deciding.is_stood_in()
