"""Builds the programs of this folder once, and says what is missing where it cannot.

A build goes to `.build/<project>-<hash>`, where the hash covers every source file that can change
its outcome; a folder that is there is a build that succeeded. Two test runs may build at the same
time: each builds into a folder of its own and the first to finish gives it its name.
"""

from __future__ import annotations

import hashlib
import os
import shutil
import subprocess
import tempfile
from functools import cache
from pathlib import Path

import pytest

HERE = Path(__file__).resolve().parent
BUILD = HERE / ".build"
BUILD_SECONDS_MAX = 1500

# A project's sources: its own folder, and what it compiles from elsewhere.
SOURCES = {
    "java49": ("java49", "java"),
    "java5": ("java5", "java"),
    "apache49": ("apache49",),
    "apache5": ("apache5",),
    "proxy5": ("proxy5",),
    "go": ("go",),
}


def require(*tools: str) -> None:
    """Skip the test if a program is not installed."""
    for tool in tools:
        if shutil.which(tool) is None:
            pytest.skip(f"needs `{tool}`, which is not installed")


@cache
def build(project: str) -> Path:
    """The folder with a project's build; skips where the tools for it are absent."""
    require(*(("go",) if project == "go" else ("java", "javac", "mvn")))
    folder = BUILD / f"{project}-{_digest(project)}"
    if folder.is_dir():
        return folder
    BUILD.mkdir(exist_ok=True)
    temporary = Path(tempfile.mkdtemp(prefix=f"{project}-", dir=BUILD))
    _run(_command(project, temporary), cwd=HERE / project)
    try:
        temporary.rename(folder)
    except OSError:
        # Somebody else was faster; theirs is the same.
        shutil.rmtree(temporary)
    return folder


def class_path(project: str) -> str:
    """What `java -cp` needs to run a Maven project's classes."""
    folder = build(project)
    return os.pathsep.join(str(path) for path in (folder / "client.jar", folder / "dependency/*"))


def _command(project: str, folder: Path) -> list[str]:
    if project == "go":
        return ["go", "build", "-o", str(folder / "client"), "."]
    goals = ["dependency:copy-dependencies"]
    if project.startswith("java"):
        goals.insert(0, "package")
    return ["mvn", "-B", "-q", f"-Doutput.directory={folder}", *goals]


def _run(command: list[str], cwd: Path) -> None:
    result = subprocess.run(
        command,
        cwd=cwd,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        timeout=BUILD_SECONDS_MAX,
        check=False,
    )
    assert result.returncode == 0, f"{' '.join(command)} failed:\n{result.stdout[-4000:]}"


def _digest(project: str) -> str:
    digest = hashlib.sha256()
    for source in SOURCES[project]:
        for path in sorted((HERE / source).rglob("*")):
            if path.is_file():
                digest.update(path.relative_to(HERE).as_posix().encode())
                digest.update(path.read_bytes())
    return digest.hexdigest()[:16]
