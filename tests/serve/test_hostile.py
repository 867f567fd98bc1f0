"""Eight hostile peers at once: nothing of the others is lost, early or twice; the broker stays.

A short run of `make bench-hostile`, which measures how late the others become.
"""

from pathlib import Path

import pytest
from benchmarks.hostile.campaign import Served, campaign
from benchmarks.hostile.peers import PEERS

pytestmark = [pytest.mark.slow, pytest.mark.spark, pytest.mark.timeout(600)]

MEMORY_MIB_MAX = 1_500
"""Without bounds each of several peers alone had the broker use more within seconds."""


def test_promises_hold_beside_eight_hostile_peers(tmp_path: Path) -> None:
    with Served(tmp_path) as served:
        stage = campaign(served, list(PEERS), seconds=5, rate=100, seed=7)

        assert stage.is_alive
        assert stage.seen.acknowledged > 0
        assert (stage.seen.lost, stage.seen.early, stage.seen.twice) == (0, 0, 0)
        assert stage.peak_mib < MEMORY_MIB_MAX
