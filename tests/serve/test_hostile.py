"""Eight hostile peers at once: nothing of the others is lost, early or twice; the broker stays.

A short run of `make bench-hostile`, which measures how late the others become.
"""

from pathlib import Path

import pytest
from benchmarks.hostile.campaign import Served, campaign
from benchmarks.hostile.floods import ENVIRONMENT, FLOODS, SETTINGS, add_greedy
from benchmarks.hostile.peers import PEERS

pytestmark = [pytest.mark.slow, pytest.mark.spark]

MEMORY_MIB_MAX = 1_500
"""Without bounds each of several peers alone had the broker use more within seconds."""


def test_promises_hold_beside_eight_hostile_peers(tmp_path: Path) -> None:
    with Served(tmp_path) as served:
        stage = campaign(served, list(PEERS), seconds=5, rate=100, seed=7)

        assert stage.is_alive
        assert stage.seen.acknowledged > 0
        assert (stage.seen.lost, stage.seen.early, stage.seen.twice) == (0, 0, 0)
        assert stage.peak_mib < MEMORY_MIB_MAX


@pytest.mark.soak
def test_promises_hold_beside_floods(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in ENVIRONMENT.items():
        monkeypatch.setenv(name, value)
    with Served(tmp_path, *SETTINGS) as served:
        add_greedy(served.addresses)
        stage = campaign(served, list(FLOODS), seconds=5, rate=100, seed=7)

        assert stage.is_alive
        assert stage.seen.acknowledged > 0
        assert (stage.seen.lost, stage.seen.early, stage.seen.twice) == (0, 0, 0)
        assert stage.peak_mib < MEMORY_MIB_MAX
