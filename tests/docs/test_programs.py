"""The Python programs on the pages run as they stand there, against a broker."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator

import pytest
from tests.docs import pages
from tests.docs.pages import DOCS
from tests.remoting.serving import RunningBroker
from tests.waiting import PATIENCE_S

PAGES = [
    "start.md",
    "python.md",
    *sorted(f"how-to/{page.name}" for page in (DOCS / "how-to").iterdir()),
]


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningBroker]:
    with RunningBroker(tmp_path_factory.mktemp("broker")) as running:
        yield running


def programs() -> Iterator[tuple[str, str]]:
    for page in PAGES:
        for number, program in enumerate(pages.programs(pages.section(page))):
            yield f"{page}-{number}", program


@pytest.mark.slow
@pytest.mark.parametrize("program", [pytest.param(text, id=name) for name, text in programs()])
def test_program_runs(program: str, broker: RunningBroker) -> None:
    """In a process of its own, as a reader would."""
    text = program.replace("127.0.0.1:9876", broker.name_server)

    result = subprocess.run(
        [sys.executable, "-W", "error", "-c", text],
        capture_output=True,
        text=True,
        timeout=PATIENCE_S,
        check=False,
    )

    assert result.returncode == 0, result.stderr


def test_every_page_has_a_program() -> None:
    found = {name.rpartition("-")[0] for name, _ in programs()}

    assert found == set(PAGES)
