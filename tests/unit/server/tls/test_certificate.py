"""The certificate: made once, kept, private, or the operator's."""

from __future__ import annotations

import ssl
from pathlib import Path

import pytest
from cryptography import x509

from dueline.errors import InvalidRequest
from dueline.server.tls.certificate import CertificateFiles, TlsOptions, find_certificate
from dueline.store import Files
from dueline.testing import ManualClock

CLOCK = ManualClock(1_800_000_000_000)


def found(options: TlsOptions, folder: Path) -> CertificateFiles:
    return find_certificate(options, folder, files=Files(), clock=CLOCK)


def test_certificate_is_made_once_and_kept(tmp_path: Path) -> None:
    first = found(TlsOptions(), tmp_path / "tls").read(Files())
    second = found(TlsOptions(), tmp_path / "tls").read(Files())

    assert first == second
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(tmp_path / "tls" / "certificate.pem", tmp_path / "tls" / "key.pem")


def test_only_the_owner_may_read_the_key(tmp_path: Path) -> None:
    found(TlsOptions(), tmp_path / "tls")

    assert (tmp_path / "tls").stat().st_mode & 0o777 == 0o700
    assert (tmp_path / "tls" / "key.pem").stat().st_mode & 0o777 == 0o600


def test_made_certificate_has_the_names_that_clients_call(tmp_path: Path) -> None:
    paths = found(TlsOptions(names=("broker.example", "10.1.2.3", "127.0.0.1")), tmp_path)

    made = x509.load_pem_x509_certificate(paths.chain.read_bytes())
    names = made.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    assert {"localhost", "broker.example"} <= set(names.get_values_for_type(x509.DNSName))
    addresses = [str(each) for each in names.get_values_for_type(x509.IPAddress)]
    assert sorted(addresses) == ["10.1.2.3", "127.0.0.1", "::1"]


def test_configured_certificate_is_used(tmp_path: Path) -> None:
    made = found(TlsOptions(), tmp_path).read(Files())
    options = TlsOptions(
        certificate=str(tmp_path / "certificate.pem"), private_key=str(tmp_path / "key.pem")
    )

    assert found(options, tmp_path / "none").read(Files()) == made
    assert not (tmp_path / "none").exists()


def test_missing_configured_file_is_named(tmp_path: Path) -> None:
    options = TlsOptions(certificate=str(tmp_path / "a.pem"), private_key="b.pem")

    with pytest.raises(InvalidRequest, match=r"a\.pem"):
        found(options, tmp_path).read(Files())


def test_version_differs_when_a_file_has_changed_or_gone(tmp_path: Path) -> None:
    paths = found(TlsOptions(client_ca=str(tmp_path / "ca.pem")), tmp_path)
    before = paths.version()

    (tmp_path / "ca.pem").write_text("authorities")
    assert paths.version() != before

    with_ca = paths.version()
    paths.chain.unlink()
    assert paths.version() not in (before, with_ca)
