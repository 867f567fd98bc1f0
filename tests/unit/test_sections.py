"""Rules within a section of the settings."""

from __future__ import annotations

from contextlib import nullcontext

import pytest

from dueline.access_settings import AccessSettings
from dueline.config import Config
from dueline.errors import InvalidRequest
from dueline.sections import TlsSettings


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        (TlsSettings(certificate="a.pem"), "both or neither"),
        (TlsSettings(private_key="a.pem"), "both or neither"),
        (TlsSettings(require_client_certificate=True, mode="enforcing"), "client_ca unset"),
        (TlsSettings(require_client_certificate=True, client_ca="ca.pem"), "mode permissive"),
    ],
)
def test_tls_that_would_not_do_what_it_says_is_refused(settings: TlsSettings, words: str) -> None:
    with pytest.raises(InvalidRequest, match=words):
        Config(tls=settings).check()


def test_required_certificates_of_clients_are_accepted_where_they_are_asked_for() -> None:
    settings = TlsSettings(require_client_certificate=True, client_ca="ca.pem", mode="enforcing")

    Config(tls=settings).check()


@pytest.mark.parametrize(
    ("tls", "is_taken"),
    [
        (TlsSettings(), False),
        (TlsSettings(client_ca="ca.pem", mode="disabled"), False),
        (TlsSettings(client_ca="ca.pem"), True),
    ],
)
def test_users_by_certificate_are_taken_where_certificates_are_asked_for(
    tls: TlsSettings, is_taken: bool
) -> None:
    config = Config(tls=tls, access=AccessSettings(certificate_users=True))

    with nullcontext() if is_taken else pytest.raises(InvalidRequest, match=r"tls\.client_ca"):
        config.check()


def test_clients_on_this_machine_believe_what_the_broker_shows() -> None:
    made = Config(data="/data", tls=TlsSettings(mode="enforcing"))
    own = TlsSettings(mode="enforcing", certificate="a.pem", private_key="b.pem", ca="ca.pem")

    assert Config().client_environment() == {}
    assert made.client_environment() == {"DUELINE_CA": "/data/tls/certificate.pem"}
    assert Config(tls=own).client_environment() == {"DUELINE_CA": "ca.pem"}
