"""Programs of tests end with the tests, however these end."""

import subprocess
import sys
from pathlib import Path

import pytest
from tests.waiting import wait_until

ROOT = Path(__file__).resolve().parents[2]
KILLED_RUN = """
import sys
from pathlib import Path
from tests.interop.processes import Process
print(Process(["sleep", "600"], cwd=Path.cwd()).pid, flush=True)
sys.stdin.read()
"""


def is_gone(pid: int) -> bool:
    try:
        return (Path("/proc") / str(pid) / "stat").read_text().rpartition(")")[2].split()[0] == "Z"
    except FileNotFoundError:
        return True


@pytest.mark.skipif(sys.platform != "linux", reason="Linux tells children of their parent's end")
def test_a_program_does_not_outlive_a_test_run_that_is_killed() -> None:
    run = subprocess.Popen(
        [sys.executable, "-c", KILLED_RUN],
        cwd=ROOT,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    assert run.stdout is not None
    pid = int(run.stdout.readline())
    assert not is_gone(pid)

    run.kill()
    run.communicate()

    wait_until(lambda: is_gone(pid), what="the program to end")
