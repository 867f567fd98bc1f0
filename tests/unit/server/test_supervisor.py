import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from tests.descriptors import no_descriptors
from tests.unit.server.watched import Watched
from tests.waiting import wait_until

from dueline.errors import Unavailable
from dueline.server import supervisor as supervisors
from dueline.server.child import ChildReport, Restarts

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


Supervise = Callable[..., Watched]


@pytest.fixture
def supervise(tmp_path: Path) -> Iterator[Supervise]:
    """Start supervisors that do not wait long; they are stopped at the end."""
    started: list[Watched] = []

    def start(script: str, **changes: Any) -> Watched:
        watched = Watched(tmp_path, script, **changes)
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


def test_a_child_is_ready_when_somebody_says_so(supervise: Supervise) -> None:
    watched = supervise(UNTIL_TOLD)
    pid = watched.wait_for_pid()

    watched.supervisor.ready()
    watched.supervisor.ready()

    assert watched.report == ChildReport(status="ready", pid=pid, start_count=1)
    assert watched.statuses == ["starting", "ready"]


def test_a_killed_child_is_started_again(supervise: Supervise) -> None:
    watched = supervise(UNTIL_TOLD)
    first = watched.wait_for_pid()

    os.kill(first, signal.SIGKILL)
    wait_until(lambda: watched.report.start_count == 2, "another start")
    second = watched.wait_for_pid()

    assert second != first
    assert watched.statuses == ["starting", "waiting", "starting"]
    assert "ended with status -9" in watched.told[1].reason


def test_a_child_that_fails_at_once_is_tried_again_and_again(supervise: Supervise) -> None:
    watched = supervise("print('2026-01-01 00:00:00,000 CRITICAL no Java here'); exit(1)")

    wait_until(lambda: watched.report.start_count >= 3, "three starts")

    waiting = [report for report in watched.told if report.status == "waiting"]
    assert waiting[0].reason == "no Java here"
    assert watched.log().count("no Java here") >= 2


def test_a_complaint_is_told_while_the_child_goes_on(supervise: Supervise) -> None:
    watched = supervise(
        f"print('2026-01-01 00:00:00,000 WARNING 1 / 0 failed', flush=True); {UNTIL_TOLD}"
    )

    wait_until(lambda: watched.complaints == ["1 / 0 failed"], "the complaint")

    assert is_alive(watched.wait_for_pid())


REFUSING = "print('2026-01-01 00:00:00,000 CRITICAL transform: no such', flush=True); exit(2)"


def test_a_child_whose_arguments_are_wrong_is_not_started_again(supervise: Supervise) -> None:
    watched = supervise(REFUSING)

    wait_until(lambda: watched.given_up, "the refusal")

    assert watched.given_up == [("transform: no such", 2)]
    assert watched.report == ChildReport(
        status="stopped", start_count=1, reason="transform: no such"
    )


def test_a_child_that_never_becomes_ready_is_given_up_if_there_is_a_bound(
    supervise: Supervise,
) -> None:
    watched = supervise("exit(3)", restarts=Restarts(pause_s_min=0.01, failure_count_max=3))

    wait_until(lambda: watched.given_up, "the end of patience")

    assert watched.given_up[0][1] == 3
    assert watched.statuses.count("starting") == 3


def test_starts_that_became_ready_are_no_failures(supervise: Supervise) -> None:
    watched = supervise(
        UNTIL_TOLD, restarts=Restarts(pause_s_min=0.001, pause_s_max=0.002, failure_count_max=2)
    )
    for count in range(1, 6):
        wait_until(lambda count=count: watched.report.start_count == count, "a start")  # type: ignore[misc]
        pid = watched.wait_for_pid()
        watched.supervisor.ready()
        os.kill(pid, signal.SIGKILL)

    wait_until(lambda: watched.report.start_count == 6, "the next start")
    assert watched.given_up == []


def test_a_child_that_has_been_ready_is_started_again_whatever_it_says(
    supervise: Supervise,
) -> None:
    watched = supervise(
        "import signal, sys; signal.signal(signal.SIGTERM, lambda *_: sys.exit(2)); "
        "print('started', flush=True); sys.stdin.read()"
    )
    wait_until(lambda: "started" in watched.log(), "the child's start")
    watched.supervisor.ready()
    os.kill(watched.wait_for_pid(), signal.SIGTERM)

    wait_until(lambda: watched.report.start_count >= 2, "another start")


ECHO = """
import sys
print("# from a library", flush=True)
print("to the log", file=sys.stderr, flush=True)
for line in sys.stdin:
    print("heard", line, end="", flush=True)
"""


def test_orders_go_in_and_what_it_tells_comes_out(supervise: Supervise) -> None:
    watched = supervise(ECHO, tells=True)
    watched.wait_for_pid()

    assert watched.supervisor.order(b"one\n")

    wait_until(lambda: b"heard one\n" in watched.lines, "the answer")
    wait_until(lambda: "to the log" in watched.log(), "the log")
    assert "# from a library" in watched.log(), "what means nothing is kept for people"
    assert "heard" not in watched.log()


def test_an_order_for_a_child_that_is_gone_is_not_given(supervise: Supervise) -> None:
    watched = supervise(ECHO, tells=True, restarts=Restarts(pause_s_min=60, pause_s_max=60))
    pid = watched.wait_for_pid()

    os.kill(pid, signal.SIGKILL)

    wait_until(lambda: watched.report.status == "waiting", "its end")
    assert not watched.supervisor.order(b"one\n")
    assert watched.report.reason == "killed by signal 9"


def test_a_child_that_may_be_killed_is_not_waited_for(supervise: Supervise) -> None:
    watched = supervise(STUBBORN, is_killed=True)
    pid = watched.wait_for_pid()
    wait_until(lambda: "started" in watched.log(), "the child to ignore signals")

    watched.supervisor.stop()

    assert not is_alive(pid)


SCRATCH = """
import os, sys, tempfile
folder = tempfile.mkdtemp()
open(os.path.join(folder, "file"), "w").close()
print(os.environ["TMPDIR"], folder, flush=True)
sys.stdin.read()
"""


def test_temporary_files_of_a_killed_child_are_removed(supervise: Supervise) -> None:
    watched = supervise(SCRATCH, has_scratch=True, is_killed=True)
    given, used = wait_until(lambda: watched.log().split(), "the folders")
    assert Path(used).parent == Path(given)
    assert Path(used, "file").exists()

    watched.supervisor.stop()

    assert not Path(given).exists()


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
    wait_until(lambda: watched.report.start_count >= 3, "three starts")

    reasons = [report.reason for report in watched.told if report.status == "waiting"]
    assert reasons[0] == "old trouble"
    assert "ended with status -9" in reasons[1]


def test_pauses_double_up_to_a_bound(
    supervise: Supervise, caplog: pytest.LogCaptureFixture
) -> None:
    watched = supervise("exit(3)")

    wait_until(lambda: watched.report.start_count >= 5, "five starts")

    pauses = [record.args[2] for record in caplog.records if "starting it again" in record.msg]  # type: ignore[index]
    assert pauses[:4] == [0.01, 0.02, 0.04, 0.04]


def test_stopping_ends_the_child_and_does_not_start_another(supervise: Supervise) -> None:
    watched = supervise(UNTIL_TOLD)
    pid = watched.wait_for_pid()

    watched.supervisor.stop()

    assert not is_alive(pid)
    assert watched.report.status == "stopped"
    assert watched.statuses.count("starting") == 1


def test_a_child_that_does_not_want_to_end_is_ended(supervise: Supervise) -> None:
    watched = supervise(STUBBORN)
    pid = watched.wait_for_pid()
    wait_until(lambda: "started" in watched.log(), "the child to ignore signals")

    watched.supervisor.ask_to_end()
    watched.supervisor.wait(0.1)

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
import sys, threading
sys.path[:0] = {sys.path!r}
from pathlib import Path
from tests.unit.server.test_supervisor import Watched
watched = Watched(Path(), {UNTIL_TOLD!r})
watched.supervisor.start()
print(watched.wait_for_pid(), flush=True)
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
        wait_until(lambda: "could not be started" in watched.report.reason, "a reason")

    assert is_alive(watched.wait_for_pid())


@pytest.fixture
def spare_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(supervisors, "SPARE_AFTER_S", 0.0)


def spare_of(watched: Watched) -> int:
    def found() -> int | None:
        spare = watched.supervisor._spare
        return spare.pid if spare is not None else None

    return wait_until(found, "a spare")


@pytest.mark.usefixtures("spare_at_once")
def test_a_spare_takes_the_place_of_a_child_that_was_killed(supervise: Supervise) -> None:
    watched = supervise(UNTIL_TOLD, has_spare=True)
    first = watched.wait_for_pid()
    spare = spare_of(watched)
    assert spare != first
    wait_until(lambda: watched.log().count("started") == 1, "its log")

    os.kill(first, signal.SIGKILL)
    wait_until(lambda: watched.report.pid == spare, "the spare at work")

    assert watched.report.start_count == 2
    wait_until(lambda: watched.log().count("started") == 2, "what the spare has said")
    assert spare_of(watched) != spare


@pytest.mark.usefixtures("spare_at_once")
def test_a_spare_that_has_died_is_not_used(supervise: Supervise) -> None:
    watched = supervise(UNTIL_TOLD, has_spare=True)
    first = watched.wait_for_pid()
    spare = spare_of(watched)
    os.kill(spare, signal.SIGKILL)
    wait_until(lambda: not is_alive(spare), "the spare's end")

    os.kill(first, signal.SIGKILL)
    wait_until(lambda: watched.report.start_count == 2, "another start")

    assert watched.wait_for_pid() not in (first, spare)


@pytest.mark.usefixtures("spare_at_once")
def test_at_the_end_no_spare_is_left(supervise: Supervise) -> None:
    watched = supervise(UNTIL_TOLD, has_spare=True)
    spare = spare_of(watched)

    watched.supervisor.stop()

    assert not is_alive(spare)


def test_a_spare_that_cannot_be_started_is_done_without(
    supervise: Supervise, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(supervisors, "SPARE_AFTER_S", 0.2)
    watched = supervise(UNTIL_TOLD, has_spare=True)
    pid = watched.wait_for_pid()

    with no_descriptors():
        wait_until(lambda: "has no spare" in caplog.text, "a warning")

    assert (watched.report.pid, watched.report.start_count) == (pid, 1)


def test_what_a_child_that_may_be_killed_leaves_behind_is_killed_at_once(
    supervise: Supervise, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(supervisors, "_GROUP_S_MAX", 3_600.0)
    watched = supervise(WITH_CHILD, is_killed=True)
    wait_until(lambda: "child" in watched.log(), "the child's child")
    left = int(watched.log().split()[1])

    os.kill(watched.wait_for_pid(), signal.SIGKILL)
    wait_until(lambda: watched.report.start_count == 2, "another start")

    wait_until(lambda: not is_alive(left), "its end")


PREPARING = """
import sys
for line in sys.stdin:
    if line == "end\\n":
        break
    print("heard", line, end="", flush=True)
"""


def test_a_prepared_process_takes_the_place_of_a_child_that_is_told_to_end(
    supervise: Supervise,
) -> None:
    watched = supervise(PREPARING, tells=True)
    first = watched.wait_for_pid()

    watched.supervisor.prepared(b"load\n", b"heard load\n")
    assert watched.report.pid == first, "it goes on meanwhile"
    assert watched.supervisor.switch(b"end\n")

    wait_until(lambda: watched.report.start_count == 2, "the other one")
    assert watched.wait_for_pid() != first
    assert watched.statuses == ["starting", "starting"], "it was no failure"
    assert watched.supervisor.order(b"one\n")
    wait_until(lambda: b"heard one\n" in watched.lines, "its answer")


def test_a_process_that_cannot_be_prepared_changes_nothing(
    supervise: Supervise, tmp_path: Path
) -> None:
    broken = tmp_path / "broken"
    script = f"import os; assert not os.path.exists({str(broken)!r}), 'half of it'\n{PREPARING}"
    watched = supervise(script, tells=True)
    first = watched.wait_for_pid()
    assert watched.supervisor.order(b"one\n")
    wait_until(lambda: b"heard one\n" in watched.lines, "its start")
    broken.touch()

    with pytest.raises(Unavailable, match="half of it"):
        watched.supervisor.prepared(b"load\n", b"heard load\n")

    assert not watched.supervisor.switch(b"end\n")
    assert (watched.report.pid, watched.report.start_count) == (first, 1)


def test_a_child_is_renewed_at_once(supervise: Supervise) -> None:
    watched = supervise(UNTIL_TOLD, restarts=Restarts(pause_s_min=3_600.0))
    first = watched.wait_for_pid()

    watched.supervisor.renew()

    wait_until(lambda: watched.report.start_count == 2, "another one")
    assert watched.wait_for_pid() != first
