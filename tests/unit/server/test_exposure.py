"""A broker that other machines can reach is one that an operator has thought of."""

from __future__ import annotations

from dataclasses import replace

import pytest

from dueline.config import Config, load
from dueline.errors import InvalidRequest
from dueline.server.exposure import check_exposure, exposed_settings, reach_of_spark


def config(**flags: str) -> Config:
    return load(flags={name.replace("__", "."): text for name, text in flags.items()}).config


@pytest.mark.parametrize("address", ["127.0.0.1:0", "127.9.9.9:0", "localhost:0", "[::1]:0", "off"])
def test_loopback_needs_no_access_control(address: str) -> None:
    check_exposure(config(listen__remoting=address))


@pytest.mark.parametrize("name", ["flight", "name_server", "remoting", "grpc"])
@pytest.mark.parametrize("host", ["0.0.0.0", "[::]", "10.0.0.5", "broker.example"])
def test_any_other_address_is_refused_with_what_to_do(name: str, host: str) -> None:
    found = config(**{f"listen__{name}": f"{host}:8815"})

    with pytest.raises(InvalidRequest, match=rf"listen\.{name} = .*access\.enabled.*--insecure"):
        check_exposure(found)

    assert list(exposed_settings(found)) == [f"listen.{name}"]
    check_exposure(replace(found, listen=replace(found.listen, insecure=True)))
    check_exposure(replace(found, access=replace(found.access, enabled=True)))


def test_where_spark_listens_is_said() -> None:
    local = config(delivery__conf="spark.ui.enabled=true")
    cluster = config(delivery__master="spark://10.0.0.9:7077")
    secured = config(
        delivery__master="spark://10.0.0.9:7077",
        delivery__conf="spark.authenticate=true,spark.driver.bindAddress=10.0.0.5",
    )

    assert reach_of_spark(config()).startswith("Spark listens on 127.0.0.1 on free ports")
    assert reach_of_spark(config()).endswith("pages are off")
    assert reach_of_spark(local).endswith("pages are on")
    assert "WITHOUT spark.authenticate" in reach_of_spark(cluster)
    assert "Spark listens on 10.0.0.5" in reach_of_spark(secured)
    assert "with spark.authenticate" in reach_of_spark(secured)
