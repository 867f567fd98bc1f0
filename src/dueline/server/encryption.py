"""What the settings say about encryption, for the broker and for the web process beside it."""

from __future__ import annotations

from dueline.config import Config
from dueline.server.remoting.listeners import ANY_ADDRESSES, primary_address
from dueline.server.tls import Tls, TlsOptions
from dueline.server.tls.certificate import CERTIFICATE_FILE
from dueline.settings import parse_address

__all__ = ["tls_of_web", "tls_options"]


def tls_options(config: Config) -> TlsOptions:
    """The certificate's options; one that is made has the names that clients call us by."""
    listen, tls = config.listen, config.tls
    addresses = (listen.flight, listen.name_server, listen.remoting, listen.grpc, listen.http)
    hosts = {parse_address(each)[0] for each in addresses if each is not None}
    if listen.advertised is not None:
        hosts.add(listen.advertised)
    return TlsOptions(
        mode=tls.mode,
        certificate=tls.certificate,
        private_key=tls.private_key,
        client_ca=tls.client_ca,
        requires_client_certificate=tls.require_client_certificate,
        names=tuple(sorted(primary_address(h) if h in ANY_ADDRESSES else h for h in hosts)),
    )


def tls_of_web(config: Config) -> Tls | None:
    """What the web process encrypts with; None: nothing.

    It shares the certificate that a broker has made in the data folder. Where there is no broker it
    makes one itself, but only if it has to: not if plain text is taken as well.

    Raises:
        InvalidRequest: files that cannot be read, or do not fit together.
        OSError: a certificate that was made cannot be written.
    """
    options, folder = tls_options(config), config.tls_folder
    is_made = options.certificate is not None or (folder / CERTIFICATE_FILE).exists()
    if options.mode == "disabled" or (options.mode == "permissive" and not is_made):
        return None
    return Tls(options, folder)
