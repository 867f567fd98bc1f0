"""The tour: one program per official 5.x client that uses everything once and tells what it saw.

The programs are in `grpc_python`, `grpc_node`, `grpc_java` and `grpc_go`. Each is given an endpoint
and a prefix for its topics and groups, prints events (see `processes`), and ends by itself:

    plain   5 messages now, 5 delayed, one at a time, one delayed and recalled; a push consumer
    half    three transactions: committed, rolled back, and one left to be asked about
    again   a simple consumer that does not acknowledge, then keeps it longer, then does
    order   two message groups, alternately; a simple consumer in batches
    dead    a push consumer that refuses its message, and a reader of the dead letters

Java and Go encrypt, Python and Node.js do not; all four use one port at the same time.
"""

from __future__ import annotations

import fcntl
import hashlib
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Final

from tests.interop import toolchain
from tests.interop.processes import Process

HERE: Final = Path(__file__).resolve().parent
PYTHON_CLIENT: Final = "rocketmq-python-client==5.1.2"
LANGUAGES: Final = ("python", "node", "java", "go")


def start(language: str, endpoint: str, prefix: str, folder: Path, **environ: str) -> Process:
    """Start a tour; its files and logs go to `folder`."""
    folder.mkdir(parents=True, exist_ok=True)
    command = [*program(language, folder), endpoint, prefix]
    return Process(command, cwd=folder, environment={"HOME": str(folder), **environ})


def program(language: str, folder: Path) -> list[str]:
    """What to run; skips the test where the tools for it are absent."""
    if language == "python":
        return [str(python_client()), str(HERE / "grpc_python" / "tour.py")]
    built = build(f"grpc_{language}")
    if language == "node":
        return ["node", str(built / "tour.js")]
    if language == "go":
        return [str(built / "client")]
    class_path = f"{built / 'client.jar'}:{built / 'dependency'}/*"
    return [*java(folder), "-cp", class_path, "dueline.interop.Tour"]


def java(folder: Path) -> list[str]:
    """A Java that leaves room for others."""
    small = ("-Xmx160m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1")
    return ["java", *small, f"-Duser.home={folder}"]


@cache
def python_client() -> Path:
    """An interpreter with the official Python client, apart from ours and its versions."""

    def make(folder: Path) -> list[list[str]]:
        return [
            [sys.executable, "-m", "venv", str(folder)],
            [str(folder / "bin" / "python"), "-m", "pip", "install", "-q", PYTHON_CLIENT],
        ]

    # Beside our own packages and not under `tests`, whose modules have rules of their own. Scripts
    # of a virtual environment know their path, so the folder cannot be renamed.
    folder = HERE.parents[1] / ".venv" / "clients" / PYTHON_CLIENT
    interpreter = folder / "bin" / "python"
    folder.parent.mkdir(parents=True, exist_ok=True)
    with (folder.parent / "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)  # test processes run side by side
        if not (folder / "ready").exists():
            shutil.rmtree(folder, ignore_errors=True)
            _run_all(make(folder), cwd=folder.parent)
            (folder / "ready").touch()
    return interpreter


@cache
def build(project: str) -> Path:
    """The folder with a project's build, made once for each state of its sources."""
    toolchain.require(*_TOOLS[project])
    folder = toolchain.BUILD / f"{project}-{_digest(HERE / project)}"
    if folder.is_dir():
        return folder
    toolchain.BUILD.mkdir(exist_ok=True)
    temporary = Path(tempfile.mkdtemp(prefix=f"{project}-", dir=toolchain.BUILD))
    source = HERE / project
    if project == "grpc_node":
        shutil.copytree(source, temporary, dirs_exist_ok=True)
        source = temporary
    _run_all(_COMMANDS[project](temporary), cwd=source)
    try:
        temporary.rename(folder)
    except OSError:
        shutil.rmtree(temporary)  # somebody else was faster; theirs is the same
    return folder


_TOOLS: Final = {
    "grpc_node": ("node", "npm"),
    "grpc_java": ("java", "javac", "mvn"),
    "grpc_go": ("go",),
}
_COMMANDS: Final[dict[str, Callable[[Path], list[list[str]]]]] = {
    "grpc_node": lambda folder: [["npm", "install", "--no-audit", "--no-fund", "--silent"]],
    "grpc_java": lambda folder: [
        [
            "mvn",
            "-B",
            "-q",
            f"-Doutput.directory={folder}",
            "package",
            "dependency:copy-dependencies",
        ]
    ],
    "grpc_go": lambda folder: [["go", "build", "-o", str(folder / "client"), "."]],
}


def _run_all(commands: list[list[str]], *, cwd: Path) -> None:
    for command in commands:
        result = subprocess.run(
            command,
            cwd=cwd,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            timeout=toolchain.BUILD_SECONDS_MAX,
            check=False,
        )
        assert result.returncode == 0, f"{' '.join(command)} failed:\n{result.stdout[-4000:]}"


def _digest(folder: Path) -> str:
    digest = hashlib.sha256()
    for path in sorted(folder.rglob("*")):
        if path.is_file():
            digest.update(path.relative_to(folder).as_posix().encode())
            digest.update(path.read_bytes())
    return digest.hexdigest()[:16]
