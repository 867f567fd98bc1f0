"""What a client believes and shows, from arguments and from the environment."""

from __future__ import annotations

import ssl
from pathlib import Path

import pytest
from tests.authority import Authority

from dueline.errors import InvalidRequest
from dueline.tls import ClientTls


def test_without_an_authority_there_is_no_encryption() -> None:
    assert ClientTls.from_environment({}) is None
    assert ClientTls.from_environment({"DUELINE_CA": ""}) is None


def test_environment_says_all(tmp_path: Path) -> None:
    authority = Authority(tmp_path)
    issued = authority.issue("orders")
    environ = {
        "DUELINE_CA": authority.ca,
        "DUELINE_CERTIFICATE": issued.certificate,
        "DUELINE_PRIVATE_KEY": issued.private_key,
        "DUELINE_SERVER_NAME": "broker.example",
    }

    found = ClientTls.from_environment(environ)

    assert found is not None
    assert found.server_name == "broker.example"
    assert found.own() == (
        Path(issued.certificate).read_text(),
        Path(issued.private_key).read_text(),
    )
    assert len(found.context().get_ca_certs()) == 1


@pytest.mark.parametrize(
    "environ",
    [
        {"DUELINE_CA": "system", "DUELINE_CERTIFICATE": "a.pem"},
        {"DUELINE_CA": "system", "DUELINE_PRIVATE_KEY": "a.pem"},
        {"DUELINE_CERTIFICATE": "a.pem", "DUELINE_PRIVATE_KEY": "b.pem"},
    ],
)
def test_half_of_a_certificate_is_refused(environ: dict[str, str]) -> None:
    with pytest.raises(InvalidRequest, match="expected both"):
        ClientTls.from_environment(environ)


def test_text_of_an_authority_does_as_well_as_its_file(tmp_path: Path) -> None:
    authority = Authority(tmp_path)
    text = Path(authority.ca).read_text()

    by_text, by_file = ClientTls(ca=text), ClientTls(ca=authority.ca)

    assert by_text.context().get_ca_certs() == by_file.context().get_ca_certs()
    assert by_text.authorities() == by_file.authorities() == text


def test_certificates_are_always_checked() -> None:
    context = ClientTls().context()

    assert ClientTls().authorities() is None
    assert context.verify_mode == ssl.CERT_REQUIRED
    assert context.check_hostname
    assert context.minimum_version >= ssl.TLSVersion.TLSv1_2


@pytest.mark.parametrize("content", [b"no certificate", b"\xff\xfe"], ids=["text", "bytes"])
def test_file_that_is_no_certificate_is_named(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "wrong.pem"
    path.write_bytes(content)

    with pytest.raises(InvalidRequest, match=r"wrong\.pem"):
        ClientTls(ca=str(path)).context()


def test_missing_files_are_named(tmp_path: Path) -> None:
    with pytest.raises(InvalidRequest, match=r"none\.pem"):
        ClientTls(ca=str(tmp_path / "none.pem")).context()
    shown = ClientTls(certificate=str(tmp_path / "own.pem"), private_key="key.pem")
    with pytest.raises(InvalidRequest, match=r"own\.pem"):
        shown.context()
