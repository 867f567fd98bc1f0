"""Ports are taken before anything else, and a taken one is told with its setting's name."""

from __future__ import annotations

import ipaddress

import pytest

from dueline.errors import Unavailable
from dueline.server.remoting.listeners import Listener, primary_address


def test_free_port_is_found_and_a_taken_one_refused() -> None:
    first = Listener.bind("listen.remoting", "127.0.0.1", 0)
    try:
        assert first.port > 0
        with pytest.raises(Unavailable, match=r"listen\.name_server: .*127\.0\.0\.1"):
            Listener.bind("listen.name_server", "127.0.0.1", first.port)
    finally:
        first.close()


@pytest.mark.parametrize(
    ("host", "address"), [("127.0.0.1", "127.0.0.1"), ("::1", "::1"), ("10.1.2.3", "10.1.2.3")]
)
def test_address_stays_what_it_is(host: str, address: str) -> None:
    assert primary_address(host) == address


@pytest.mark.parametrize("host", ["0.0.0.0", "::", "no-such-host.invalid", "localhost"])
def test_there_is_always_an_address_to_call(host: str) -> None:
    assert not ipaddress.ip_address(primary_address(host)).is_unspecified
