"""What ports encrypt with: modern only, renewed when the files change, never half of a change."""

from __future__ import annotations

import ssl
from pathlib import Path

import pytest
from cryptography.hazmat.primitives import serialization
from tests.authority import Authority

from dueline.errors import InvalidRequest
from dueline.server.tls import Tls, TlsOptions


class Ticks:
    """Seconds that a test moves."""

    def __init__(self) -> None:
        self.now_s = 0.0

    def __call__(self) -> float:
        return self.now_s


def options(authority: Authority, **others: object) -> TlsOptions:
    issued = authority.issue("broker")
    return TlsOptions(
        certificate=issued.certificate,
        private_key=issued.private_key,
        **others,  # type: ignore[arg-type]
    )


def test_only_modern_versions_and_ciphers_are_offered(tmp_path: Path) -> None:
    context = Tls(TlsOptions(), tmp_path).context()

    assert context.minimum_version == ssl.TLSVersion.TLSv1_2
    names = {str(each["name"]) for each in context.get_ciphers()}
    assert names
    assert all(name.startswith(("TLS_", "ECDHE-")) for name in names)
    assert all("GCM" in name or "CHACHA20" in name for name in names)


def test_disabled_tls_needs_no_certificate(tmp_path: Path) -> None:
    Tls(TlsOptions(mode="disabled"), tmp_path / "tls")

    assert not (tmp_path / "tls").exists()


def test_changed_files_are_taken_at_the_next_look(tmp_path: Path) -> None:
    authority, ticks = Authority(tmp_path), Ticks()
    tls = Tls(options(authority), tmp_path / "none", clock_s=ticks)
    before, plain = tls.certificate(), tls.context()
    authority.issue("broker")

    assert tls.context() is plain

    ticks.now_s += 1
    assert tls.context() is not plain
    assert tls.certificate() != before
    assert tls.context("h2") is tls.context("h2")
    assert tls.loaded_count == 2


def test_files_that_do_not_fit_together_leave_the_old_ones_in_use(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    authority, ticks = Authority(tmp_path), Ticks()
    found = options(authority)
    tls = Tls(found, tmp_path / "none", clock_s=ticks)
    before, plain, of_http = tls.certificate(), tls.context(), tls.context("h2")
    key = Path(str(found.private_key)).read_bytes()
    authority.issue("broker")
    new_key = Path(str(found.private_key)).read_bytes()
    Path(str(found.private_key)).write_bytes(key)

    ticks.now_s += 1
    assert tls.context() is plain
    assert tls.certificate() == before
    assert tls.context("h2") is of_http
    assert "is not taken" in caplog.text

    Path(str(found.private_key)).write_bytes(new_key)
    ticks.now_s += 1
    assert tls.context() is not plain


def test_clients_are_asked_for_certificates_as_far_as_the_options_say(tmp_path: Path) -> None:
    authority = Authority(tmp_path)
    for is_required, expected in ((False, ssl.CERT_OPTIONAL), (True, ssl.CERT_REQUIRED)):
        asked = options(authority, client_ca=authority.ca, requires_client_certificate=is_required)

        assert Tls(asked, tmp_path / "none").context().verify_mode == expected
    assert Tls(options(authority), tmp_path / "none").context().verify_mode == ssl.CERT_NONE


@pytest.mark.parametrize("field", ["certificate", "private_key", "client_ca"])
def test_file_that_is_no_certificate_is_named(tmp_path: Path, field: str) -> None:
    authority = Authority(tmp_path)
    wrong = tmp_path / "wrong.pem"
    wrong.write_text("not a certificate")
    issued = authority.issue("broker")
    files = {"certificate": issued.certificate, "private_key": issued.private_key}

    with pytest.raises(InvalidRequest, match=r"wrong\.pem"):
        Tls(TlsOptions(**{**files, field: str(wrong)}), tmp_path / "none")  # type: ignore[arg-type]


def test_key_with_a_password_is_refused_instead_of_asked_for(tmp_path: Path) -> None:
    found = options(Authority(tmp_path))
    path = Path(str(found.private_key))
    key = serialization.load_pem_private_key(path.read_bytes(), password=None)
    path.write_bytes(
        key.private_bytes(
            serialization.Encoding.PEM,
            serialization.PrivateFormat.PKCS8,
            serialization.BestAvailableEncryption(b"secret"),
        )
    )

    with pytest.raises(InvalidRequest, match="key without a password"):
        Tls(found, tmp_path / "none")


def test_key_that_others_can_read_is_mentioned(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    found = options(Authority(tmp_path))
    Path(str(found.private_key)).chmod(0o644)

    Tls(found, tmp_path / "none")

    assert "can be read by others" in caplog.text
