"""The reference server itself: its broker can be stopped, killed and started on the same store."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.interop.apache import Apache
from tests.interop.clients import Client


@pytest.mark.soak  # whether the reference can be started again
@pytest.mark.parametrize("release", ["apache49", "apache5"])
def test_broker_starts_again_on_its_store(release: str, tmp_path: Path) -> None:
    with Apache.start(release, tmp_path) as apache:
        client = Client(kind="java49", name_server=apache.name_server, folder=tmp_path)
        sent = client.send(topic="again", body="before", count=4)

        apache.stop_broker()
        apache.start_broker()
        sent += client.send(topic="again", body="between", count=4)
        apache.kill_broker()
        apache.start_broker()

        with client.start("consume", topic="again", group="again") as consumer:
            received = consumer.wait_events("received", 8)

    assert sorted(e["id"] for e in received) == sorted(e["id"] for e in sent)
    assert (apache.store / "commitlog").is_dir()
