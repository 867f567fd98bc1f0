"""The certificate: made once, kept, private, or the operator's."""

from __future__ import annotations

import ssl
from pathlib import Path

import pytest

from dueline.errors import InvalidRequest
from dueline.server.grpc.certificate import load_certificate
from dueline.server.grpc.options import GrpcOptions
from dueline.store import Files
from dueline.testing import ManualClock

CLOCK = ManualClock(1_800_000_000_000)


def test_certificate_is_made_once_and_kept(tmp_path: Path) -> None:
    first = load_certificate(GrpcOptions(), tmp_path / "tls", files=Files(), clock=CLOCK)
    second = load_certificate(GrpcOptions(), tmp_path / "tls", files=Files(), clock=CLOCK)

    assert first == second
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(tmp_path / "tls" / "certificate.pem", tmp_path / "tls" / "key.pem")


def test_only_the_owner_may_read_the_key(tmp_path: Path) -> None:
    load_certificate(GrpcOptions(), tmp_path, files=Files(), clock=CLOCK)

    assert (tmp_path / "key.pem").stat().st_mode & 0o777 == 0o600


def test_configured_certificate_is_used(tmp_path: Path) -> None:
    made = load_certificate(GrpcOptions(), tmp_path, files=Files(), clock=CLOCK)
    options = GrpcOptions(
        certificate=str(tmp_path / "certificate.pem"), private_key=str(tmp_path / "key.pem")
    )

    assert load_certificate(options, tmp_path / "none", files=Files(), clock=CLOCK) == made
    assert not (tmp_path / "none").exists()


def test_missing_configured_file_is_named(tmp_path: Path) -> None:
    options = GrpcOptions(certificate=str(tmp_path / "a.pem"), private_key="b.pem")

    with pytest.raises(InvalidRequest, match=r"a\.pem"):
        load_certificate(options, tmp_path, files=Files(), clock=CLOCK)
