import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from tests.descriptors import no_descriptors
from tests.unit.server.local import wait_until

from dueline.broker.pipeline import PipelineReport, PipelineStatus
from dueline.clock import Clock
from dueline.server import supervisor as supervisors
from dueline.server.supervisor import Supervisor

pytestmark = pytest.mark.slow

UNTIL_TOLD = """
import sys
print("started", flush=True)
sys.stdin.read()
"""
"""Like the pipeline: runs until its standard input is closed."""

STUBBORN = """
import signal, sys, time
signal.signal(signal.SIGTERM, signal.SIG_IGN)
print("started", flush=True)
while True:
    time.sleep(60)
"""

WITH_CHILD = """
import subprocess, sys
child = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(600)"])
print("child", child.pid, flush=True)
sys.stdin.read()
"""


class Watched:
    """A supervisor, what it told, and its log."""

    def __init__(self, folder: Path, script: str) -> None:
        self.told: list[PipelineReport] = []
        self.failures: list[BaseException] = []
        self.log_path = folder / "child.log"
        self.status = PipelineStatus(Clock(), on_change=self.told.append)
        self.supervisor = Supervisor(
            [sys.executable, "-c", script],
            os.environ,
            log_path=self.log_path,
            status=self.status,
            on_failure=self.failures.append,
        )

    @property
    def statuses(self) -> list[str]:
        return [report.status for report in self.told]

    def log(self) -> str:
        return self.log_path.read_text() if self.log_path.exists() else ""

    def wait_for_pid(self) -> int:
        return wait_until(lambda: self.status.report().pid, "the child's start")


Supervise = Callable[[str], Watched]


@pytest.fixture
def supervise(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Supervise]:
    """Start supervisors that do not wait long; they are stopped at the end."""
    monkeypatch.setattr(supervisors, "BACKOFF_S_MIN", 0.01)
    started: list[Watched] = []

    def start(script: str) -> Watched:
        watched = Watched(tmp_path, script)
        started.append(watched)
        watched.supervisor.start()
        return watched

    yield start
    for watched in started:
        watched.supervisor.stop()
        assert watched.failures == []


def is_alive(pid: int) -> bool:
    """Not gone, and not a zombie that nobody has looked after yet."""
    try:
        state = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except FileNotFoundError:
        return False
    return state != "Z"


def test_a_child_is_ready_when_it_has_finished_a_batch(supervise: Supervise) -> None:
    watched = supervise(UNTIL_TOLD)
    pid = watched.wait_for_pid()

    watched.status.asked()
    assert watched.status.report().status == "starting", "nothing can be delivered yet"
    watched.status.committed()
    watched.status.committed()

    report = watched.status.report()
    assert (report.status, report.pid, report.start_count) == ("ready", pid, 1)
    assert report.asked_ms is not None
    assert watched.statuses == ["starting", "ready"]


def test_a_killed_child_is_started_again(supervise: Supervise) -> None:
    watched = supervise(UNTIL_TOLD)
    first = watched.wait_for_pid()

    os.kill(first, signal.SIGKILL)
    wait_until(lambda: watched.status.report().start_count == 2, "another start")
    second = watched.wait_for_pid()

    assert second != first
    assert watched.statuses == ["starting", "waiting", "starting"]
    assert "ended with status -9" in watched.told[1].reason


def test_a_child_that_fails_at_once_is_tried_again_and_again(supervise: Supervise) -> None:
    watched = supervise("print('2026-01-01 00:00:00,000 CRITICAL no Java here'); exit(1)")

    wait_until(lambda: watched.status.report().start_count >= 3, "three starts")

    waiting = [report for report in watched.told if report.status == "waiting"]
    assert waiting[0].reason == "no Java here"
    assert watched.log().count("no Java here") >= 2


def test_an_error_is_known_while_the_child_goes_on_and_gone_after_a_batch(
    supervise: Supervise,
) -> None:
    watched = supervise(
        f"print('2026-01-01 00:00:00,000 WARNING 1 / 0 failed', flush=True); {UNTIL_TOLD}"
    )

    wait_until(lambda: watched.status.report().error == "1 / 0 failed", "the error")
    assert watched.status.report().error_ms is not None
    watched.status.committed()

    assert (watched.status.report().error, watched.status.report().error_ms) == ("", None)


REFUSING = "print('2026-01-01 00:00:00,000 CRITICAL transform: no such', flush=True); exit(2)"


def test_a_child_whose_arguments_are_wrong_is_not_started_again(tmp_path: Path) -> None:
    watched = Watched(tmp_path, REFUSING)
    watched.supervisor.start()
    wait_until(lambda: watched.failures, "the refusal")
    watched.supervisor.stop()

    (failure,) = watched.failures
    assert isinstance(failure, supervisors.PipelineRefused)
    assert failure.message.endswith("set up: transform: no such")
    assert watched.status.report().start_count == 1


def test_a_child_that_has_been_ready_is_started_again_whatever_it_says(
    supervise: Supervise,
) -> None:
    watched = supervise(
        "import signal, sys; signal.signal(signal.SIGTERM, lambda *_: sys.exit(2)); "
        "print('started', flush=True); sys.stdin.read()"
    )
    wait_until(lambda: "started" in watched.log(), "the child's start")
    watched.status.committed()
    os.kill(watched.wait_for_pid(), signal.SIGTERM)

    wait_until(lambda: watched.status.report().start_count >= 2, "another start")


def test_a_warning_of_an_earlier_run_is_not_the_reason_of_a_later_end(
    supervise: Supervise, tmp_path: Path
) -> None:
    script = """
import os, signal
if not os.path.exists("{0}"):
    open("{0}", "w").close()
    print("2026-01-01 00:00:00,000 WARNING old trouble", flush=True)
    exit(1)
os.kill(os.getpid(), signal.SIGKILL)
"""
    watched = supervise(script.format(tmp_path / "mark"))
    wait_until(lambda: watched.status.report().start_count >= 3, "three starts")

    reasons = [report.reason for report in watched.told if report.status == "waiting"]
    assert reasons[0] == "old trouble"
    assert "ended with status -9" in reasons[1]


def test_pauses_double_up_to_a_bound(
    supervise: Supervise, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(supervisors, "BACKOFF_S_MAX", 0.04)
    watched = supervise("exit(3)")

    wait_until(lambda: watched.status.report().start_count >= 5, "five starts")

    pauses = [record.args[1] for record in caplog.records if "starting it again" in record.msg]  # type: ignore[index]
    assert pauses[:4] == [0.01, 0.02, 0.04, 0.04]


def test_stopping_ends_the_child_and_does_not_start_another(supervise: Supervise) -> None:
    watched = supervise(UNTIL_TOLD)
    pid = watched.wait_for_pid()

    watched.supervisor.stop()

    assert not is_alive(pid)
    assert watched.status.report().status == "stopped"
    assert watched.statuses.count("starting") == 1


def test_a_child_that_does_not_want_to_end_is_ended(
    supervise: Supervise, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(supervisors, "STOP_S_MAX", 0.1)
    watched = supervise(STUBBORN)
    pid = watched.wait_for_pid()
    wait_until(lambda: "started" in watched.log(), "the child to ignore signals")

    watched.supervisor.stop()

    assert not is_alive(pid)


def test_what_a_child_leaves_behind_is_ended_too(
    supervise: Supervise, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(supervisors, "_GROUP_S_MAX", 0.1)
    watched = supervise(WITH_CHILD)
    pid = watched.wait_for_pid()
    grandchild = int(wait_until(lambda: watched.log().split()[1:2], "the grandchild")[0])

    os.kill(pid, signal.SIGKILL)

    wait_until(lambda: not is_alive(grandchild), "the grandchild's end")


def test_a_child_ends_when_the_supervisors_process_is_killed(tmp_path: Path) -> None:
    script = f"""
import os, sys, threading
from pathlib import Path
from dueline.broker.pipeline import PipelineStatus
from dueline.clock import Clock
from dueline.server.supervisor import Supervisor
status = PipelineStatus(Clock(), on_change=lambda report: print(report.pid, flush=True))
supervisor = Supervisor(
    [sys.executable, "-c", {UNTIL_TOLD!r}], os.environ, log_path=Path("child.log"),
    status=status, on_failure=print,
)
supervisor.start()
threading.Event().wait()
"""
    with subprocess.Popen(
        [sys.executable, "-c", script], cwd=tmp_path, stdout=subprocess.PIPE, text=True
    ) as process:
        assert process.stdout is not None
        pid = int(process.stdout.readline())
        assert is_alive(pid)

        process.kill()

    wait_until(lambda: not is_alive(pid), "the orphan's end")


def test_a_log_that_cannot_be_written_does_not_stop_the_child(
    supervise: Supervise, tmp_path: Path
) -> None:
    (tmp_path / "child.log").mkdir()
    talkative = "for _ in range(10_000): print('x' * 100, flush=True)"
    marker = tmp_path / "has said all"

    watched = supervise(f"{talkative}\nopen({str(marker)!r}, 'w').close()\n{UNTIL_TOLD}")

    pid = watched.wait_for_pid()
    wait_until(marker.exists, "more output than a pipe holds")
    assert is_alive(pid)
    watched.supervisor.stop()
    assert not is_alive(pid)
    (tmp_path / "child.log").rmdir()


def test_a_child_that_cannot_be_started_is_tried_again(
    supervise: Supervise,
) -> None:
    with no_descriptors():
        watched = supervise(UNTIL_TOLD)
        wait_until(lambda: "could not be started" in watched.status.report().reason, "a reason")

    assert is_alive(watched.wait_for_pid())
