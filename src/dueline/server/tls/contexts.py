"""What the ports encrypt with, made of the certificate's files, and made anew when those change.

A port asks for a context for each connection. Once a second, and only while somebody connects, the
files are looked at; if one has changed, connections from then on have the new certificate, and
those that are there keep theirs. New files that do not fit together (a certificate is copied before
its key) are not taken: the old ones stay in use, the log says why, and the next look tries again.

TLS 1.2 and 1.3 with forward secrecy and authenticated ciphers; nothing older. Any thread may call.
"""

from __future__ import annotations

import logging
import ssl
import threading
from collections.abc import Callable
from pathlib import Path
from time import monotonic
from typing import Final, NoReturn

from dueline.clock import Clock
from dueline.errors import InvalidRequest
from dueline.server.tls.certificate import (
    Certificate,
    CertificateFiles,
    TlsOptions,
    find_certificate,
)
from dueline.store.files import Files

__all__ = ["Tls"]

CIPHERS: Final = "ECDHE+AESGCM:ECDHE+CHACHA20"
"""Of TLS 1.2; those of 1.3 are all of this kind."""
LOOK_EVERY_S: Final = 1.0

_READABLE_BY_OTHERS: Final = 0o077

log = logging.getLogger(__name__)


class Tls:
    """The certificate in use."""

    def __init__(
        self,
        options: TlsOptions,
        folder: Path,
        *,
        files: Files | None = None,
        clock: Clock | None = None,
        clock_s: Callable[[], float] = monotonic,
    ) -> None:
        """Read the certificate, and make one if there is none.

        Args:
            folder: where a made certificate is kept.

        Raises:
            InvalidRequest: files that cannot be read, or do not fit together.
            OSError: a certificate that was made cannot be written.
        """
        self.options: Final = options
        self._files = files or Files()
        self._clock_s = clock_s
        self._lock = threading.Lock()
        self._contexts: dict[tuple[str, ...], ssl.SSLContext] = {}
        self._looked_s = clock_s()
        self.loaded_count = 0
        if options.mode == "disabled":
            return
        self._paths = find_certificate(options, folder, files=self._files, clock=clock or Clock())
        self._version = self._paths.version()
        self._load()
        if _is_open_to_others(self._paths.private_key):
            log.warning("%s can be read by others: chmod 600", self._paths.private_key)

    @property
    def mode(self) -> str:
        return self.options.mode

    @property
    def paths(self) -> CertificateFiles:
        """The files in use; none if TLS is disabled."""
        return self._paths

    def context(self, *protocols: str) -> ssl.SSLContext:
        """What to encrypt the next connection with.

        Args:
            protocols: those that are offered to clients which ask (ALPN), such as `h2`. Ask for
                them first when nothing has changed: at the start of a port.
        """
        with self._lock:
            self._look()
            known = self._contexts.get(protocols)
            if known is None:
                known = self._contexts[protocols] = _context(self._paths, self.options, protocols)
            return known

    def certificate(self) -> Certificate:
        """The same for a server that has contexts of its own."""
        with self._lock:
            self._look()
            return self._certificate

    def _look(self) -> None:
        now_s = self._clock_s()
        if now_s - self._looked_s < LOOK_EVERY_S:
            return
        self._looked_s = now_s
        version = self._paths.version()
        if version == self._version:
            return
        try:
            self._load()
        except InvalidRequest as error:
            log.warning("a changed certificate is not taken, the one before stays: %s", error)
        else:
            log.info("%s: a changed certificate is in use", self._paths.chain)
        self._version = version

    def _load(self) -> None:
        """Take the files if all of them are good, for every context that is in use."""
        certificate = self._paths.read(self._files)
        wanted = self._contexts.keys() | {()}
        self._contexts = {each: _context(self._paths, self.options, each) for each in wanted}
        self._certificate = certificate
        self.loaded_count += 1


def _context(
    paths: CertificateFiles, options: TlsOptions, protocols: tuple[str, ...]
) -> ssl.SSLContext:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    context.set_ciphers(CIPHERS)
    context.options |= (
        ssl.OP_NO_COMPRESSION | ssl.OP_NO_RENEGOTIATION | ssl.OP_CIPHER_SERVER_PREFERENCE
    )
    try:
        context.load_cert_chain(paths.chain, paths.private_key, password=_no_password)
    except (ssl.SSLError, OSError) as error:
        raise InvalidRequest(
            f"TLS: expected a certificate in {paths.chain} and its private key in "
            f"{paths.private_key}, both PEM, found: {_reason(error)}",
            path=str(paths.chain),
        ) from error
    if paths.client_ca is not None:
        _believe_clients(context, paths.client_ca, is_required=options.requires_client_certificate)
    if protocols:
        context.set_alpn_protocols(list(protocols))
    return context


def _believe_clients(context: ssl.SSLContext, client_ca: Path, *, is_required: bool) -> None:
    try:
        context.load_verify_locations(client_ca)
    except (ssl.SSLError, OSError) as error:
        raise InvalidRequest(
            f"tls.client_ca: expected certificates as PEM in {client_ca}, found: {_reason(error)}",
            path=str(client_ca),
        ) from error
    context.verify_mode = ssl.CERT_REQUIRED if is_required else ssl.CERT_OPTIONAL


def _no_password() -> NoReturn:
    """OpenSSL would ask for it at the terminal, and wait."""
    raise InvalidRequest(
        "tls.private_key: expected a key without a password, found one with; `openssl pkey -in "
        "KEY -out NEW_KEY` takes it off, and file permissions protect the key instead"
    )


def _reason(error: OSError) -> str:
    if isinstance(error, ssl.SSLError):
        return (error.reason or str(error)).lower().replace("_", " ")
    return error.strerror or str(error)


def _is_open_to_others(path: Path) -> bool:
    return bool(path.stat().st_mode & _READABLE_BY_OTHERS)
