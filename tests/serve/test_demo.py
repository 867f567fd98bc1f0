"""`make demo` in short."""

import re
import subprocess
import sys
from pathlib import Path

import pytest
from tests.serve.conftest import clean_environment
from tests.waiting import PATIENCE_S

pytestmark = [pytest.mark.slow, pytest.mark.spark]


def test_it_shows_messages_arriving_and_leaves_nothing_behind(tmp_path: Path) -> None:
    ran = subprocess.run(
        [
            *(sys.executable, "-m", "dueline", "demo"),
            *("--count", "60", "--within", "6s", "--patience", f"{PATIENCE_S:.0f}s"),
        ],
        capture_output=True,
        text=True,
        timeout=PATIENCE_S + 90,
        cwd=tmp_path,
        env=clean_environment(TMPDIR=str(tmp_path)),
        check=False,
    )

    assert ran.returncode == 0, ran.stdout + ran.stderr
    assert (
        len(re.findall(r"^\d\d:\d\d:\d\d\.\d{3} UTC  late by .* message \d+", ran.stdout, re.M))
        == 60
    )
    assert "60 messages arrived" in ran.stdout
    assert re.search(r"late: p50 \d+ ms, p99 \d+ ms, max \d+ ms", ran.stdout)
    assert "early: 0, lost: 0, twice: 0" in ran.stdout
    assert list(tmp_path.glob("dueline-demo-*")) == []
