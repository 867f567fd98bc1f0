"""A broker without Spark, and its web process."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.unit.server.local import running, small_config
from tests.unit.web.local import Site, site_of

from dueline.server.process import BrokerProcess


@pytest.fixture
def broker(tmp_path: Path) -> Iterator[BrokerProcess]:
    with running(small_config(tmp_path)) as broker:
        yield broker


@pytest.fixture
def site(broker: BrokerProcess) -> Iterator[Site]:
    with site_of(broker.address) as site:
        yield site
