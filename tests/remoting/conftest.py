"""Fixtures of the remoting tests: a broker in this process and a connection to it."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.remoting.peer import Peer
from tests.remoting.serving import RunningBroker

from dueline.broker import BrokerOptions
from dueline.broker.transactions import TransactionOptions

# Asked for after a moment instead of after seconds.
EAGER = BrokerOptions(transactions=TransactionOptions(first_ask_ms=100, ask_interval_ms=500))


@pytest.fixture
def broker(tmp_path: Path) -> Iterator[RunningBroker]:
    with RunningBroker(tmp_path, rules=EAGER) as running:
        yield running


@pytest.fixture
def peer(broker: RunningBroker) -> Iterator[Peer]:
    with Peer(broker.address) as connected:
        yield connected
