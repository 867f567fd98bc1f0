"""Fixtures of the interop tests: one server for the folder, and names nobody else uses."""

from __future__ import annotations

import uuid
import zlib
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Final

import pytest
from tests.interop.clients import Client
from tests.interop.live import Live, live_broker
from tests.interop.servers import SELECTED, STARTERS, Server

CLIENT_KINDS: Final[Mapping[str, tuple[str, ...]]] = {
    "client": ("java49", "java5", "go"),
    "java": ("java49", "java5"),
}


@pytest.hookimpl(tryfirst=True)  # before those who skip what is marked `soak`
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        if Path(__file__).parent in item.path.parents:
            item.add_marker(pytest.mark.slow)
            if not _is_chosen(item):
                item.add_marker(pytest.mark.soak)


def _is_chosen(item: pytest.Item) -> bool:
    """Of a test with several kinds of clients a normal run takes one; each kind has its tests."""
    assert isinstance(item, pytest.Function)
    params = item.callspec.params if hasattr(item, "callspec") else {}
    for name, kinds in CLIENT_KINDS.items():
        if name in params:
            rest = sorted((key, str(value)) for key, value in params.items() if key != name)
            number = zlib.crc32(repr((item.originalname, rest)).encode())
            return bool(params[name] == kinds[number % len(kinds)])
    return True


@pytest.fixture(scope="package", params=SELECTED)
def server(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Server]:
    with STARTERS[request.param](tmp_path_factory.mktemp(request.param)) as running:
        yield running


@pytest.fixture(scope="package")
def live(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Live]:
    """A real `dueline serve` with Spark, for clients of both protocols."""
    with live_broker(tmp_path_factory.mktemp("live") / "data") as running:
        yield running


@pytest.fixture(params=CLIENT_KINDS["client"])
def client(request: pytest.FixtureRequest, server: Server, tmp_path: Path) -> Client:
    """Each kind of client in turn."""
    return Client(kind=request.param, name_server=server.name_server, folder=tmp_path)


@pytest.fixture(params=CLIENT_KINDS["java"])
def java(request: pytest.FixtureRequest, server: Server, tmp_path: Path) -> Client:
    """Each kind of Java client, for what only they can do."""
    return Client(kind=request.param, name_server=server.name_server, folder=tmp_path)


@pytest.fixture
def java5(server: Server, tmp_path: Path) -> Client:
    """The 5.x client, for timers and recall."""
    if not server.is_5x:
        pytest.skip(f"{server.name} has no arbitrary delivery times")
    return Client(kind="java5", name_server=server.name_server, folder=tmp_path)


@pytest.fixture
def topic(server: Server) -> str:
    """A new topic with four queues."""
    name = f"topic-{uuid.uuid4().hex[:12]}"
    server.create_topic(name)
    return name


@pytest.fixture
def group() -> str:
    """A consumer group that nobody has used."""
    return f"group-{uuid.uuid4().hex[:12]}"
