"""What a release consists of: built from this tree, looked into, installed and run.

The packages are installed without their dependencies, which are those of the environment that runs
the tests: what is checked is what we ship.
"""

from __future__ import annotations

import os
import subprocess
import sys
import sysconfig
import tarfile
import venv
import zipfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from dueline import __version__

pytestmark = [pytest.mark.slow]

ROOT = Path(__file__).resolve().parents[2]
SIZE_BYTES_MAX = 6 << 20
NOT_SHIPPED = (".ci/", ".github/", ".gitignore", ".pre-commit-config.yaml")
SDIST_EXTRA = {"PKG-INFO", ".gitignore"}


@pytest.fixture(scope="module")
def packages(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """Both packages, by kind."""
    folder = tmp_path_factory.mktemp("packages")
    command = [sys.executable, "-m", "hatchling", "build", "-d", str(folder)]
    subprocess.run(command, cwd=ROOT, check=True, capture_output=True)
    name = f"dueline-{__version__}"
    return {"sdist": folder / f"{name}.tar.gz", "wheel": folder / f"{name}-py3-none-any.whl"}


def tracked(*folders: str) -> Iterator[str]:
    """The files that are part of the project, in a checkout."""
    command = ["git", "ls-files", "--cached", "--others", "--exclude-standard", *folders]
    result = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    if result.returncode:
        pytest.skip("this is no checkout, so nobody knows which files belong to it")
    for name in result.stdout.splitlines():
        if (ROOT / name).exists() and not name.startswith(NOT_SHIPPED):
            yield name


def test_the_source_package_has_every_file_and_no_other(packages: dict[str, Path]) -> None:
    with tarfile.open(packages["sdist"]) as archive:
        names = {name.partition("/")[2] for name in archive.getnames()}

    expected = {name for name in tracked() if not name.endswith("/.gitignore")}
    assert {name for name in names if not name.endswith("/.gitignore")} - SDIST_EXTRA == expected
    assert packages["sdist"].stat().st_size < SIZE_BYTES_MAX


def test_the_wheel_has_the_package_alone(packages: dict[str, Path]) -> None:
    with zipfile.ZipFile(packages["wheel"]) as archive:
        names = {name for name in archive.namelist() if ".dist-info/" not in name}

    assert names == {name.removeprefix("src/") for name in tracked("src")}
    assert packages["wheel"].stat().st_size < SIZE_BYTES_MAX


def installed(package: Path, folder: Path) -> Path:
    """The programs of a new environment with this package."""
    home = folder / "venv"
    venv.create(home, with_pip=True)
    site = sysconfig.get_path("purelib", "venv", {"base": str(home)})
    # The dependencies, but not the project itself: .pth files of that folder do not count here.
    others = [path for path in sys.path if path.endswith("site-packages")]
    (Path(site) / "dependencies.pth").write_text("\n".join(others))
    options = ["--quiet", "--no-deps", "--no-build-isolation"]
    run(home / "bin" / "python", "-m", "pip", "install", *options, str(package), folder=folder)
    where = run(
        home / "bin" / "python", "-c", "import dueline; print(dueline.__file__)", folder=folder
    )
    assert where.startswith(site), "the installed one, not the checkout's"
    return home / "bin"


def test_the_source_package_installs(packages: dict[str, Path], tmp_path: Path) -> None:
    programs = installed(packages["sdist"], tmp_path)

    assert __version__ in run(programs / "dueline", "--version", folder=tmp_path)


@pytest.mark.spark
def test_the_wheel_runs_the_demo_in_an_empty_folder(
    packages: dict[str, Path], tmp_path: Path
) -> None:
    programs = installed(packages["wheel"], tmp_path)
    empty = tmp_path / "empty"
    empty.mkdir()
    options = ["--count", "20", "--within", "3s", "--patience", "300s"]

    output = run(programs / "dueline", "demo", *options, folder=empty)

    assert "20 messages arrived" in output
    assert "early: 0, lost: 0, twice: 0" in output
    assert list(empty.iterdir()) == []


def run(*command: str | Path, folder: Path) -> str:
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    result = subprocess.run(
        list(map(str, command)),
        cwd=folder,
        env=environment,
        capture_output=True,
        text=True,
        check=False,
    )
    assert result.returncode == 0, f"{result.stdout}\n{result.stderr}"
    return result.stdout
