"""Sections of the settings; `dueline.config` has the others, and lists them all."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from dueline.errors import InvalidRequest
from dueline.settings import COUNT, FLAG, OPTIONAL_TEXT, SIZE, TABLE, choice, setting
from dueline.tls import CA, SERVER_NAME, SYSTEM

__all__ = ["QuotaSettings", "SendSettings", "TlsSettings"]


@dataclass(frozen=True, slots=True, kw_only=True)
class SendSettings:
    """What may wait for the disk before senders are told to come back later (`[send]`)."""

    queue_count_max: int = setting(20_000, COUNT, "The most messages.")
    queue_size_bytes_max: int = setting(256 << 20, SIZE, "The most bytes of message bodies.")


@dataclass(frozen=True, slots=True, kw_only=True)
class TlsSettings:
    """Encryption of every port (`[tls]`)."""

    mode: str = setting(
        "permissive",
        choice("permissive", "enforcing", "disabled"),
        "`permissive`: encrypted and plain connections on the same ports, on Flight's plain ones "
        "only. `enforcing`: encrypted ones only, on all ports. `disabled`: plain ones only.",
    )
    certificate: str | None = setting(
        None,
        OPTIONAL_TEXT,
        "PEM file with the certificate chain. Unset: one is made on the first start, signed by "
        "itself. A changed file is taken without a restart, by Flight at the next start.",
    )
    private_key: str | None = setting(None, OPTIONAL_TEXT, "PEM file with the certificate's key.")
    ca: str | None = setting(
        None,
        OPTIONAL_TEXT,
        "PEM file with the authority that signed `certificate`, for commands and the pipeline on "
        "this machine. Unset: the authorities of the system. They expect the name "
        "`listen.advertised` in the certificate, or else the host that they call.",
    )
    client_ca: str | None = setting(
        None,
        OPTIONAL_TEXT,
        "PEM file with the authorities that sign certificates of clients. Unset: clients are not "
        "asked for any.",
    )
    require_client_certificate: bool = setting(
        False, FLAG, "A client without a certificate is refused. Needs `client_ca` and `enforcing`."
    )

    @property
    def asks_for_certificates(self) -> bool:
        """Are clients asked for certificates, whether they have one or not?"""
        return self.client_ca is not None and self.mode != "disabled"

    def client_environment(self, folder: Path, advertised: str | None) -> dict[str, str]:
        """The variables by which clients on the broker's machine encrypt.

        Args:
            folder: where a certificate that was made is.
            advertised: the broker's name: its certificate need not name the loopback address.
        """
        if self.mode != "enforcing":
            return {}
        if self.certificate is None:
            return {CA: str((folder / "certificate.pem").absolute())}
        named = {SERVER_NAME: advertised} if advertised is not None else {}
        return {CA: self.ca or SYSTEM, **named}

    def check(self) -> None:
        """Refuse settings that contradict each other.

        Raises:
            InvalidRequest: names them.
        """
        if (self.certificate is None) != (self.private_key is None):
            raise InvalidRequest(
                "tls.certificate and tls.private_key: expected both or neither, found one",
                field="tls.certificate",
            )
        if self.require_client_certificate and (self.client_ca is None or self.mode != "enforcing"):
            raise InvalidRequest(
                "tls.require_client_certificate: expected tls.client_ca and tls.mode = enforcing "
                f"beside it, found client_ca {self.client_ca or 'unset'} and mode {self.mode}: "
                "clients could do without a certificate",
                field="tls.require_client_certificate",
            )


@dataclass(frozen=True, slots=True, kw_only=True)
class QuotaSettings:
    """How much one user, address or topic may ask for (`[quotas]`)."""

    rules: Mapping[str, str] = setting(
        {},
        TABLE,
        "Bounds by `user:NAME`, `address:ADDRESS`, `address:NETWORK` and `topic:NAME`, `*` for "
        "each that has none of its own: `sends:N`, `bytes:SIZE` a second, `topics:N` an hour, "
        "`connections:N`, `polls:N`, `pending:N` at a time.",
    )
