"""Fixtures of the remoting tests: a broker in this process and a connection to it."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.remoting.peer import Peer
from tests.remoting.serving import Broker

from dueline.messaging import MessagingOptions
from dueline.messaging.transactions import TransactionOptions

# Asked for after a moment instead of after seconds.
EAGER = MessagingOptions(transactions=TransactionOptions(first_ask_ms=100, ask_interval_ms=500))


@pytest.fixture
def broker(tmp_path: Path) -> Iterator[Broker]:
    with Broker(tmp_path, messaging=EAGER) as running:
        yield running


@pytest.fixture
def peer(broker: Broker) -> Iterator[Peer]:
    with Peer(broker.address) as connected:
        yield connected
