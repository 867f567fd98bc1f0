"""RocketMQ's own Java clients with TLS, on ports that take nothing else."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.interop.clients import Client
from tests.remoting.serving import RunningBroker

from dueline.server.tls import TlsOptions

pytestmark = pytest.mark.slow

WITH_TLS = ("-Dtls.enable=true",)


@pytest.mark.parametrize("kind", ["java49", "java5"])
def test_java_clients_send_and_receive_over_tls(tmp_path: Path, kind: str) -> None:
    with RunningBroker(tmp_path / "broker", tls=TlsOptions(mode="enforcing")) as broker:
        client = Client(
            kind=kind, name_server=broker.name_server, folder=tmp_path, java_options=WITH_TLS
        )
        with client.start("consume", topic="Letters", group="Readers") as consumer:
            consumer.wait_events("ready")
            assert len(client.send(topic="Letters", count=3)) == 3
            consumer.wait_events("received", 3)

        counts = [hub.entrance.counts for hub in broker.service.hubs]
        assert all(each.secured and not each.plain for each in counts)
