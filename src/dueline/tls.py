"""How a client encrypts: whom it believes, and what it shows of itself.

    DUELINE_CA           PEM file of the authorities to believe, their text, or `system`
    DUELINE_CERTIFICATE  PEM file of a certificate of the client's own, where a broker asks for one
    DUELINE_PRIVATE_KEY  its key
    DUELINE_SERVER_NAME  the name in the broker's certificate, if it is called by another one

Every client of this package takes a `ClientTls`, and looks into the environment if it got none; no
`DUELINE_CA` means plain text. A broker's certificate is always checked: an authority that is
believed must have signed it, and it must name the host that is called. A certificate that a broker
has made for itself is its own authority: `ca` is then a copy of `tls/certificate.pem` in its data.
"""

from __future__ import annotations

import ssl
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from dueline.errors import InvalidRequest

__all__ = ["CA", "SERVER_NAME", "SYSTEM", "VARIABLES", "ClientTls"]

CA: Final = "DUELINE_CA"
CERTIFICATE: Final = "DUELINE_CERTIFICATE"
PRIVATE_KEY: Final = "DUELINE_PRIVATE_KEY"
SERVER_NAME: Final = "DUELINE_SERVER_NAME"
VARIABLES: Final = (CA, CERTIFICATE, PRIVATE_KEY, SERVER_NAME)
SYSTEM: Final = "system"
_PEM: Final = "-----BEGIN "


@dataclass(frozen=True, slots=True, kw_only=True)
class ClientTls:
    """A client encrypts, and believes `ca`: a file, its text, or `system` for the machine's."""

    ca: str = SYSTEM
    certificate: str | None = None
    private_key: str | None = None
    server_name: str | None = None
    """In the certificate, if the broker is called by another name or an address."""

    @classmethod
    def from_environment(cls, environ: Mapping[str, str]) -> ClientTls | None:
        """What the environment says; None: no encryption.

        Raises:
            InvalidRequest: a certificate without a key, or either without an authority.
        """
        ca, certificate, key = (
            environ.get(name) or None for name in (CA, CERTIFICATE, PRIVATE_KEY)
        )
        if (certificate is None) != (key is None) or (certificate and ca is None):
            raise InvalidRequest(
                f"{CERTIFICATE} and {PRIVATE_KEY}: expected both, and {CA} beside them, or none"
            )
        name = environ.get(SERVER_NAME) or None
        if ca is None:
            return None
        return cls(ca=ca, certificate=certificate, private_key=key, server_name=name)

    def context(self) -> ssl.SSLContext:
        """What connections are encrypted with.

        Raises:
            InvalidRequest: a file that cannot be read, or is no certificate.
        """
        context = ssl.create_default_context()
        context.minimum_version = ssl.TLSVersion.TLSv1_2
        if self.ca != SYSTEM:
            context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
            context.minimum_version = ssl.TLSVersion.TLSv1_2
            try:
                context.load_verify_locations(cadata=self.authorities())
            except ssl.SSLError as error:
                raise self._no_ca(error.reason or str(error)) from error
        if self.certificate is not None:
            try:
                context.load_cert_chain(self.certificate, self.private_key)
            except OSError as error:
                raise InvalidRequest(
                    f"client certificate: expected PEM files {self.certificate} and "
                    f"{self.private_key} that fit together, found: {error}"
                ) from error
        return context

    def authorities(self) -> str | None:
        """The certificates to believe, as PEM; None: those of the system.

        Raises:
            InvalidRequest: the file cannot be read.
        """
        if self.ca == SYSTEM:
            return None
        if self.ca.startswith(_PEM):
            return self.ca
        return self._text(self.ca)

    def own(self) -> tuple[str, str] | None:
        """The client's own certificate and key, as PEM.

        Raises:
            InvalidRequest: a file cannot be read.
        """
        if self.certificate is None or self.private_key is None:
            return None
        return self._text(self.certificate), self._text(self.private_key)

    def _text(self, path: str) -> str:
        try:
            return Path(path).read_text(encoding="ascii")
        except OSError as error:
            raise InvalidRequest(
                f"TLS: expected a readable PEM file {path}, found: {error.strerror}"
            ) from error
        except UnicodeDecodeError as error:
            raise self._no_ca("other bytes") from error

    def _no_ca(self, found: str) -> InvalidRequest:
        what = "the text" if self.ca.startswith(_PEM) else self.ca
        return InvalidRequest(
            f"TLS: expected certificates as PEM in {what}, found: {found.lower()}"
        )
