"""More queues than a broker may have files open: `make bench-queues` in small."""

from __future__ import annotations

from pathlib import Path

import pytest
from benchmarks.queues import run

TOPICS = 50
QUEUES = 8
FILES = 256


@pytest.mark.slow
def test_any_number_of_queues_needs_few_files(tmp_path: Path) -> None:
    """Each queue gets a message; killed or stopped, the broker starts and has every one of them."""
    assert TOPICS * QUEUES > FILES

    steps = run(tmp_path / "data", topics=TOPICS, queues=QUEUES, files=FILES)

    assert len(steps) == 10
    assert max(step.file_count for step in steps) < FILES // 2
