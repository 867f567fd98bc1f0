"""The programs on the pages in `docs/clients`, run as they stand there."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest
from tests.interop import grpc_tour
from tests.interop.live import Live
from tests.waiting import PATIENCE_S

PAGES = Path(__file__).resolve().parents[2] / "docs" / "clients"
ADDRESS = "127.0.0.1:8081"


def program_of(page: str) -> str:
    """The one program on a page."""
    (found,) = re.findall(r"^```\w+\n(.*?)^```$", (PAGES / page).read_text(), re.M | re.S)
    assert found.count(ADDRESS) == 1
    return str(found)


def python(source: str, folder: Path) -> list[str]:
    (folder / "reminder.py").write_text(source)
    return [str(grpc_tour.python_client()), "reminder.py"]


def node(source: str, folder: Path) -> list[str]:
    (folder / "node_modules").symlink_to(grpc_tour.build("grpc_node") / "node_modules")
    (folder / "reminder.js").write_text(source)
    return ["node", "reminder.js"]


def java(source: str, folder: Path) -> list[str]:
    (folder / "Reminder.java").write_text(source)
    class_path = f"{grpc_tour.build('grpc_java') / 'dependency'}/*"
    return [*grpc_tour.java(folder), "-cp", class_path, "Reminder.java"]


def go(source: str, folder: Path) -> list[str]:
    grpc_tour.build("grpc_go")  # skips, if Go is missing
    for name in ("go.mod", "go.sum"):
        shutil.copy(grpc_tour.HERE / "grpc_go" / name, folder)
    (folder / "main.go").write_text(source)
    subprocess.run(
        ["go", "build", "-o", "reminder", "."], cwd=folder, check=True, timeout=PATIENCE_S
    )
    return [str(folder / "reminder")]


@pytest.mark.parametrize(
    ("page", "prepare"),
    [("python.md", python), ("nodejs.md", node), ("java.md", java), ("go.md", go)],
)
def test_program_on_the_page_receives_its_delayed_message(
    live: Live, page: str, prepare: Callable[[str, Path], list[str]], tmp_path: Path
) -> None:
    command = prepare(program_of(page).replace(ADDRESS, live.endpoint), tmp_path)
    result = subprocess.run(
        command,
        cwd=tmp_path,
        env={**os.environ, "HOME": str(tmp_path)},
        capture_output=True,
        text=True,
        timeout=PATIENCE_S,
        check=False,
    )

    match = re.search(r"received: the order is not paid yet, (-?\d+) ms after", result.stdout)
    assert match is not None, (result.stdout[-2000:], result.stderr[-2000:])
    assert int(match.group(1)) >= 0
