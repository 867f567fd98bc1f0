"""The certificate of the TLS side: the operator's, or one made on the first start.

The Java client encrypts by default and believes any certificate, so a self-signed one lets it in
without any setup, as with RocketMQ's own proxy. Who checks certificates brings their own.

A made one is kept beside the data and used again: a client that has pinned it finds it unchanged.
"""

from __future__ import annotations

import datetime
import ipaddress
import os
import socket
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from dueline.clock import Clock
from dueline.errors import InvalidRequest
from dueline.server.grpc.options import GrpcOptions
from dueline.store.files import Files

__all__ = ["Certificate", "load_certificate"]

CERTIFICATE_FILE: Final = "certificate.pem"
KEY_FILE: Final = "key.pem"
VALID_DAYS: Final = 3_650


@dataclass(frozen=True, slots=True, kw_only=True)
class Certificate:
    """A chain and its key, as PEM."""

    chain: bytes
    private_key: bytes


def load_certificate(
    options: GrpcOptions, folder: Path, *, files: Files, clock: Clock
) -> Certificate:
    """The configured certificate, or the folder's own, made if it is not there.

    Raises:
        InvalidRequest: configured files that cannot be read.
    """
    if options.certificate is not None and options.private_key is not None:
        return Certificate(
            chain=_read(files, Path(options.certificate)),
            private_key=_read(files, Path(options.private_key)),
        )
    certificate_path, key_path = folder / CERTIFICATE_FILE, folder / KEY_FILE
    if not (files.exists(certificate_path) and files.exists(key_path)):
        made = _make(clock)
        files.make_folder(folder)
        # The key first: a certificate that is there has its key.
        _write_secret(key_path, made.private_key)
        files.replace(certificate_path, [made.chain])
    return Certificate(chain=files.read(certificate_path), private_key=files.read(key_path))


def _read(files: Files, path: Path) -> bytes:
    try:
        return files.read(path)
    except OSError as error:
        raise InvalidRequest(
            f"TLS: expected a readable PEM file {path}, found: {error.strerror}", path=str(path)
        ) from error


def _make(clock: Clock) -> Certificate:
    # Loaded here: it takes a broker's start a twentieth of a second, and is used once in a store's
    # life.
    from cryptography import x509
    from cryptography.hazmat.primitives import hashes, serialization
    from cryptography.hazmat.primitives.asymmetric import ec
    from cryptography.x509.oid import NameOID

    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "dueline")])
    now = datetime.datetime.fromtimestamp(clock.now_ms() / 1_000, tz=datetime.UTC)
    names = [
        x509.DNSName("localhost"),
        x509.DNSName(socket.gethostname()[:63] or "localhost"),
        x509.IPAddress(ipaddress.ip_address("127.0.0.1")),
        x509.IPAddress(ipaddress.ip_address("::1")),
    ]
    certificate = (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(name)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - datetime.timedelta(days=1))
        .not_valid_after(now + datetime.timedelta(days=VALID_DAYS))
        .add_extension(x509.SubjectAlternativeName(names), critical=False)
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


def _write_secret(path: Path, data: bytes) -> None:
    """A file that only its owner may read, from its first byte on."""
    fd = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o600)
    try:
        os.write(fd, data)
        os.fsync(fd)
    finally:
        os.close(fd)
