"""An authority that signs certificates for tests, made with a library of its own."""

from __future__ import annotations

import datetime
import ipaddress
from dataclasses import dataclass
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

HOSTS = ("localhost", "127.0.0.1")


@dataclass(frozen=True, kw_only=True)
class Issued:
    """The files of a certificate."""

    certificate: str
    private_key: str


class Authority:
    """Signs; its own certificate is in `ca`."""

    def __init__(self, folder: Path, name: str = "authority") -> None:
        folder.mkdir(parents=True, exist_ok=True)
        self._folder = folder
        self._key = ec.generate_private_key(ec.SECP256R1())
        self._name = _named(name)
        self.ca = str(folder / f"{name}.pem")
        made = (
            _builder(self._name, self._name, self._key)
            .add_extension(x509.BasicConstraints(ca=True, path_length=None), critical=True)
            .sign(self._key, hashes.SHA256())
        )
        Path(self.ca).write_bytes(made.public_bytes(serialization.Encoding.PEM))

    def demanding(self) -> dict[str, str]:
        """The settings of a broker with a certificate, which wants one of each client."""
        own = self.issue("broker")
        return {
            "tls.mode": "enforcing",
            "tls.certificate": own.certificate,
            "tls.private_key": own.private_key,
            "tls.client_ca": self.ca,
            "tls.require_client_certificate": "true",
        }

    def issue(self, name: str, hosts: tuple[str, ...] = HOSTS) -> Issued:
        """A certificate for `name` at these hosts; a second one replaces the first one's files."""
        key = ec.generate_private_key(ec.SECP256R1())
        builder = _builder(_named(name), self._name, key)
        if hosts:
            names = x509.SubjectAlternativeName([*map(_host, hosts)])
            builder = builder.add_extension(names, critical=False)
        made = builder.sign(self._key, hashes.SHA256())
        issued = Issued(
            certificate=str(self._folder / f"{name}.crt"),
            private_key=str(self._folder / f"{name}.key"),
        )
        _write(Path(issued.private_key), _key_bytes(key))
        _write(Path(issued.certificate), made.public_bytes(serialization.Encoding.PEM))
        return issued


def _write(path: Path, data: bytes) -> None:
    """As programs that renew certificates do: a new file in the place of the old one."""
    made = path.with_suffix(".new")
    made.write_bytes(data)
    made.chmod(0o600)
    made.replace(path)


def _named(name: str) -> x509.Name:
    return x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)])


def _host(text: str) -> x509.GeneralName:
    if text.replace(".", "").isdigit():
        return x509.IPAddress(ipaddress.ip_address(text))
    return x509.DNSName(text)


def _builder(
    name: x509.Name, issuer: x509.Name, key: ec.EllipticCurvePrivateKey
) -> x509.CertificateBuilder:
    now = datetime.datetime.now(tz=datetime.UTC)
    return (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(issuer)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - datetime.timedelta(days=1))
        .not_valid_after(now + datetime.timedelta(days=30))
    )


def _key_bytes(key: ec.EllipticCurvePrivateKey) -> bytes:
    return key.private_bytes(
        serialization.Encoding.PEM,
        serialization.PrivateFormat.PKCS8,
        serialization.NoEncryption(),
    )
