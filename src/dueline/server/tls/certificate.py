"""The broker's certificate: the operator's, or one made on the first start.

The Java clients encrypt and believe any certificate, so one that is signed by itself lets them in
without any setup, as with RocketMQ's own broker and proxy. Those who check certificates bring their
own, or hand the made one to their clients as the authority to believe.

A made one is kept beside the data and used again: a client that has pinned it finds it unchanged.
"""

from __future__ import annotations

import datetime
import ipaddress
import socket
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Final

from dueline.clock import Clock
from dueline.errors import InvalidRequest
from dueline.store.files import Files

if TYPE_CHECKING:
    from cryptography.x509 import GeneralName

__all__ = ["Certificate", "CertificateFiles", "TlsOptions", "find_certificate"]

CERTIFICATE_FILE: Final = "certificate.pem"
KEY_FILE: Final = "key.pem"
VALID_DAYS: Final = 3_650


@dataclass(frozen=True, slots=True, kw_only=True)
class TlsOptions:
    """What operators choose."""

    mode: str = "permissive"
    """`permissive`: TLS and plain text on one port. `enforcing`: only TLS. `disabled`: none."""
    certificate: str | None = None
    private_key: str | None = None
    client_ca: str | None = None
    """Certificates of clients are believed if an authority in this file signed them."""
    requires_client_certificate: bool = False
    names: tuple[str, ...] = ()
    """Further names and addresses of this broker, for a certificate that is made."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Certificate:
    """A chain, its key, and the authorities of clients' certificates, as PEM."""

    chain: bytes
    private_key: bytes
    client_ca: bytes | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class CertificateFiles:
    """Where they are."""

    chain: Path
    private_key: Path
    client_ca: Path | None = None

    def read(self, files: Files) -> Certificate:
        """All of them.

        Raises:
            InvalidRequest: one cannot be read.
        """
        return Certificate(
            chain=_read(files, self.chain),
            private_key=_read(files, self.private_key),
            client_ca=_read(files, self.client_ca) if self.client_ca is not None else None,
        )

    def version(self) -> tuple[tuple[int, ...], ...]:
        """Differs when a file has changed; a file that is not there has a version too."""
        paths = [self.chain, self.private_key, *([self.client_ca] if self.client_ca else [])]
        return tuple(map(_version, paths))


def find_certificate(
    options: TlsOptions, folder: Path, *, files: Files, clock: Clock
) -> CertificateFiles:
    """The configured certificate, or the folder's own, made if it is not there.

    Raises:
        OSError: the folder cannot be written.
    """
    client_ca = Path(options.client_ca) if options.client_ca is not None else None
    if options.certificate is not None and options.private_key is not None:
        return CertificateFiles(
            chain=Path(options.certificate),
            private_key=Path(options.private_key),
            client_ca=client_ca,
        )
    certificate_path, key_path = folder / CERTIFICATE_FILE, folder / KEY_FILE
    if not (files.exists(certificate_path) and files.exists(key_path)):
        made = _make(clock, options.names)
        files.make_folder(folder)
        # The key first: a certificate that is there has its key.
        files.replace(key_path, [made.private_key])
        files.replace(certificate_path, [made.chain])
    return CertificateFiles(chain=certificate_path, private_key=key_path, client_ca=client_ca)


def _read(files: Files, path: Path) -> bytes:
    try:
        return files.read(path)
    except OSError as error:
        raise InvalidRequest(
            f"TLS: expected a readable PEM file {path}, found: {error.strerror}", path=str(path)
        ) from error


def _version(path: Path) -> tuple[int, ...]:
    try:
        status = path.stat()
    except OSError:
        return ()
    return (status.st_ino, status.st_size, status.st_mtime_ns)


def _make(clock: Clock, names: tuple[str, ...]) -> Certificate:
    # Loaded here: it takes a broker's start a twentieth of a second, and is used once in a store's
    # life.
    from cryptography import x509
    from cryptography.hazmat.primitives import hashes, serialization
    from cryptography.hazmat.primitives.asymmetric import ec
    from cryptography.x509.oid import NameOID

    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "dueline")])
    now = datetime.datetime.fromtimestamp(clock.now_ms() / 1_000, tz=datetime.UTC)
    own = ("localhost", socket.gethostname()[:63] or "localhost", "127.0.0.1", "::1")
    certificate = (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(name)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - datetime.timedelta(days=1))
        .not_valid_after(now + datetime.timedelta(days=VALID_DAYS))
        .add_extension(
            x509.SubjectAlternativeName([*map(_general_name, dict.fromkeys((*own, *names)))]),
            critical=False,
        )
        .add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
        .sign(key, hashes.SHA256())
    )
    return Certificate(
        chain=certificate.public_bytes(serialization.Encoding.PEM),
        private_key=key.private_bytes(
            serialization.Encoding.PEM,
            serialization.PrivateFormat.PKCS8,
            serialization.NoEncryption(),
        ),
    )


def _general_name(text: str) -> GeneralName:
    from cryptography import x509

    try:
        return x509.IPAddress(ipaddress.ip_address(text))
    except ValueError:
        return x509.DNSName(text.encode("idna").decode("ascii"))
