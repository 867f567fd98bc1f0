"""One broker for all tests of this folder, and names that nobody else uses."""

from __future__ import annotations

import uuid
from collections.abc import Iterator

import pytest
from tests.grpc.broker import TestBroker
from tests.grpc.calls import Caller

from dueline.broker import BrokerOptions
from dueline.broker.retries import RetryOptions
from dueline.server.grpc.options import GrpcOptions


@pytest.fixture(scope="package")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[TestBroker]:
    options = GrpcOptions(address="127.0.0.1:0", invisible_ms_min=100, gone_after_ms=200)
    rules = BrokerOptions(retries=RetryOptions(attempt_count_max=2))
    with TestBroker(tmp_path_factory.mktemp("broker"), options, rules=rules) as running:
        yield running


@pytest.fixture
def caller(broker: TestBroker) -> Iterator[Caller]:
    with Caller(broker.endpoint) as made:
        yield made


@pytest.fixture
def topic() -> str:
    return f"topic-{uuid.uuid4().hex[:12]}"
