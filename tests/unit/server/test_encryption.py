"""What settings say about encryption."""

from __future__ import annotations

import ssl
from pathlib import Path

import pytest
from tests.unit.server.local import small_config

from dueline.server.encryption import tls_of_web, tls_options
from dueline.server.tls import Tls


def test_a_certificate_that_is_made_has_the_names_that_clients_call(tmp_path: Path) -> None:
    config = small_config(
        tmp_path,
        **{"listen.http": "dash.example:8080", "listen.advertised": "broker.example"},
    )

    names = tls_options(config).names

    assert {"dash.example", "broker.example", "127.0.0.1"} <= set(names)


@pytest.mark.parametrize(
    ("mode", "has_broker", "is_encrypted"),
    [
        ("disabled", True, False),
        ("permissive", True, True),
        ("permissive", False, False),
        ("enforcing", True, True),
        ("enforcing", False, True),
    ],
)
def test_a_web_process_makes_a_certificate_only_if_it_must(
    tmp_path: Path, mode: str, *, has_broker: bool, is_encrypted: bool
) -> None:
    config = small_config(tmp_path, **{"tls.mode": mode})
    if has_broker:
        Tls(tls_options(config), config.tls_folder)
    chain = config.tls_folder / "certificate.pem"
    before = chain.read_bytes() if chain.exists() else None

    tls = tls_of_web(config)

    assert (tls is not None) is is_encrypted
    if tls is not None:
        assert isinstance(tls.context(), ssl.SSLContext)
    if before is not None:
        assert chain.read_bytes() == before, "it is the broker's, used and not replaced"
    assert chain.exists() is (before is not None or is_encrypted)
