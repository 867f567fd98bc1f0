"""The process that Spark's Python processes are forked from."""

import os
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.waiting import PATIENCE_S, wait_until

from dueline.spark.zygote import Zygote

pytestmark = pytest.mark.slow

# In a process of its own, since this one has loaded and started much else.
COUNT_THREADS = """
import os, importlib
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
from dueline.spark.zygote import PRELOADED
for name in PRELOADED:
    importlib.import_module(name)
folder = "/proc/self/task"
tasks = (open(f"{folder}/{each}/comm").read().strip() for each in os.listdir(folder))
print(*sorted(name for name in tasks if not name.startswith("python")))
"""


def test_what_is_loaded_before_a_fork_starts_no_thread_that_a_fork_would_break() -> None:
    result = subprocess.run(
        [sys.executable, "-c", COUNT_THREADS], capture_output=True, text=True, check=True
    )

    # The allocator's own thread: it takes care of forks itself.
    assert set(result.stdout.split()) <= {"jemalloc_bg_thd"}


@pytest.fixture(scope="module")
def zygote() -> Iterator[Zygote]:
    zygote = Zygote()
    yield zygote
    zygote.stop()


@pytest.fixture
def modules(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder that zygotes find modules in: the current one of what is asked for."""
    monkeypatch.chdir(tmp_path)
    return tmp_path


def is_alive(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


def asked(zygote: Zygote, *words: str, **environ: str) -> "subprocess.Popen[str]":
    return subprocess.Popen(
        [str(zygote.python), *words],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env={**os.environ, **environ},
    )


ECHO = """
import os, sys
print(os.getppid(), os.environ["WORD"], os.getcwd(), sys.argv[1:], "pyarrow" in sys.modules)
print(sys.stdin.read(), file=sys.stderr)
sys.exit(int(sys.argv[1]))
"""


def test_a_process_has_its_arguments_environment_folder_and_files(
    zygote: Zygote, modules: Path
) -> None:
    (modules / "echo_it.py").write_text(ECHO)
    with asked(zygote, "-m", "echo_it", "7", "b c", WORD="x y") as process:
        out, err = process.communicate("told", timeout=PATIENCE_S)

    assert process.returncode == 7
    assert out.strip() == f"{zygote.pid} x y {modules} ['7', 'b c'] True"
    assert err.strip() == "told"


def test_an_error_is_printed_and_is_the_status(zygote: Zygote, modules: Path) -> None:
    (modules / "fail_it.py").write_text("raise ValueError('no')")
    with asked(zygote, "-m", "fail_it") as process:
        _, err = process.communicate(timeout=PATIENCE_S)

    assert process.returncode == 1
    assert "ValueError: no" in err


WAIT = "import os, time; print(os.getpid(), flush=True); time.sleep(600)"


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGKILL])
def test_who_ends_what_was_started_ends_what_was_forked(
    zygote: Zygote, modules: Path, number: signal.Signals
) -> None:
    (modules / "wait_it.py").write_text(WAIT)
    with asked(zygote, "-m", "wait_it") as process:
        assert process.stdout is not None
        pid = int(process.stdout.readline())
        process.send_signal(number)

    wait_until(lambda: not is_alive(pid), "the end of what was forked")


def test_a_killed_process_is_a_failed_one(zygote: Zygote, modules: Path) -> None:
    (modules / "wait_it.py").write_text(WAIT)
    with asked(zygote, "-m", "wait_it") as process:
        assert process.stdout is not None
        os.kill(int(process.stdout.readline()), signal.SIGKILL)

        assert process.wait(PATIENCE_S) == 128 + 9


def test_without_a_zygote_it_is_the_ordinary_python(modules: Path) -> None:
    (modules / "echo_it.py").write_text(ECHO)
    zygote = Zygote()
    zygote.stop()

    with asked(zygote, "-m", "echo_it", "0", WORD="x") as process:
        out, err = process.communicate("told", timeout=PATIENCE_S)

    assert process.returncode == 0
    assert f"x {modules}" in out
    assert "started without the zygote" in err


def test_other_uses_of_python_work_too(zygote: Zygote) -> None:
    with asked(zygote, "-c", "print(6 * 7)") as process:
        out, _ = process.communicate(timeout=PATIENCE_S)

    assert out == "42\n"


def test_it_ends_with_the_process_that_started_it() -> None:
    script = (
        "import time; from dueline.spark.zygote import Zygote\n"
        "print(Zygote().pid, flush=True)\ntime.sleep(600)"
    )
    with subprocess.Popen(
        [sys.executable, "-c", script], stdout=subprocess.PIPE, text=True
    ) as process:
        assert process.stdout is not None
        pid = int(process.stdout.readline())
        assert is_alive(pid)

        process.kill()

    wait_until(lambda: not is_alive(pid), "the orphan's end")


def test_garbage_on_its_socket_is_passed_over(zygote: Zygote, modules: Path) -> None:
    path = zygote.python.parent / "socket"
    for words in (b"", b"\xff\xff\xff\xff", b"\0\0\0\x05ab"):
        with socket.socket(socket.AF_UNIX) as stranger:
            stranger.connect(str(path))
            stranger.sendall(words)

    with asked(zygote, "-m", "platform") as process:
        out, _ = process.communicate(timeout=PATIENCE_S)
    assert out
