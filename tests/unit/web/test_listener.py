"""HTTPS on the web process's port: modes, versions, new certificates, certificates of clients."""

from __future__ import annotations

import socket
import ssl
from dataclasses import replace
from pathlib import Path

import pytest
from tests.authority import Authority, Issued
from tests.unit.web.local import Site, site_of
from tests.waiting import PATIENCE_S

from dueline.server.tls import Tls, TlsOptions

NOBODY = "127.0.0.1:1"
"""A broker that is not there: whether the process lives is known without one."""
LIVE = {"status": "live", "reasons": []}


@pytest.fixture
def authority(tmp_path: Path) -> Authority:
    return Authority(tmp_path / "authority")


def _tls(authority: Authority, mode: str, **others: object) -> Tls:
    issued = authority.issue("broker")
    options = TlsOptions(
        mode=mode,
        certificate=issued.certificate,
        private_key=issued.private_key,
        **others,  # type: ignore[arg-type]
    )
    now_s = iter(range(1_000_000))  # every look at the files is a second later
    return Tls(options, Path("/nowhere"), clock_s=lambda: float(next(now_s)))


def _encrypted(site: Site, authority: Authority, shown: Issued | None = None) -> Site:
    context = ssl.create_default_context(cafile=authority.ca)
    if shown is not None:
        context.load_cert_chain(shown.certificate, shown.private_key)
    return replace(site, context=context)


@pytest.mark.parametrize(
    ("mode", "takes_plain", "takes_tls"),
    [("permissive", True, True), ("enforcing", False, True), ("disabled", True, False)],
)
def test_each_mode_takes_what_it_says(
    authority: Authority, mode: str, *, takes_plain: bool, takes_tls: bool
) -> None:
    with site_of(NOBODY, tls=_tls(authority, mode)) as site:
        plain = site.get("/health/live")
        assert plain.status == (200 if takes_plain else 400)
        if takes_plain:
            assert plain.json == LIVE
        else:
            assert "call https://" in plain.text
        if takes_tls:
            assert _encrypted(site, authority).get("/health/live").json == LIVE
        else:
            with pytest.raises(ssl.SSLError):
                _encrypted(site, authority).get("/health/live")


def test_pages_and_changes_pass_encrypted(authority: Authority) -> None:
    with site_of(NOBODY, tls=_tls(authority, "enforcing")) as site:
        secure = _encrypted(site, authority)
        origin = {"Origin": f"https://127.0.0.1:{site.port}"}

        assert secure.get("/static/dueline.css").status in (200, 404)
        # From our own page: it gets as far as asking the broker, who is not there.
        sent = {"topic": "orders", "body": "x"}
        assert secure.ask("POST", "/api/v1/messages", sent, headers=origin).status == 503
        foreign = {"Origin": "https://elsewhere.example"}
        assert secure.ask("POST", "/api/v1/messages", sent, headers=foreign).status == 403


@pytest.mark.filterwarnings("ignore:ssl.TLSVersion")
@pytest.mark.parametrize(
    ("version", "is_taken"),
    [
        (ssl.TLSVersion.TLSv1_1, False),
        (ssl.TLSVersion.TLSv1_2, True),
        (ssl.TLSVersion.TLSv1_3, True),
    ],
)
def test_versions_before_1_2_are_refused(
    authority: Authority, version: ssl.TLSVersion, *, is_taken: bool
) -> None:
    context = ssl.create_default_context(cafile=authority.ca)
    context.set_ciphers("ALL:@SECLEVEL=0")  # or our side would not offer the old one
    context.minimum_version = context.maximum_version = version

    with (
        site_of(NOBODY, tls=_tls(authority, "enforcing")) as site,
        socket.create_connection(("127.0.0.1", site.port), PATIENCE_S) as plain,
    ):
        if is_taken:
            with context.wrap_socket(plain, server_hostname="localhost") as secure:
                assert secure.version() == f"TLSv1.{version.value - 0x301}"
        else:
            with pytest.raises((ssl.SSLError, ConnectionError)):
                context.wrap_socket(plain, server_hostname="localhost")


def test_a_new_certificate_is_taken_without_a_restart(authority: Authority, tmp_path: Path) -> None:
    other = Authority(tmp_path / "other")
    tls = _tls(authority, "enforcing")

    with site_of(NOBODY, tls=tls) as site:
        assert _encrypted(site, authority).get("/health/live").json == LIVE
        new = other.issue("broker")
        for source, target in (
            (new.private_key, tls.paths.private_key),
            (new.certificate, tls.paths.chain),
        ):
            Path(source).replace(target)
        assert _encrypted(site, other).get("/health/live").json == LIVE
        with pytest.raises(ssl.SSLCertVerificationError):
            _encrypted(site, authority).get("/health/live")


def test_where_a_certificate_is_required_nobody_comes_in_without(authority: Authority) -> None:
    tls = _tls(authority, "enforcing", client_ca=authority.ca, requires_client_certificate=True)

    with site_of(NOBODY, tls=tls) as site:
        with pytest.raises((ssl.SSLError, ConnectionError)):
            _encrypted(site, authority).get("/health/live")
        shown = authority.issue("client")
        assert _encrypted(site, authority, shown).get("/health/live").json == LIVE
