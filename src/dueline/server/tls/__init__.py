"""Encryption of every port: the broker's certificate, contexts made of it, and the way in.

    certificate   the operator's files, or ones made on the first start
    contexts      `Tls`: what the ports encrypt with; new files are taken without a restart
    entrance      plain text and TLS on one port of an event loop: the first byte says which it is

The 4.x ports, the 5.x port and HTTP enter by an `Entrance`. Flight has a server of its own, written
in C++, which is given the certificate when it starts and keeps it.
"""

from dueline.server.tls.certificate import Certificate, TlsOptions
from dueline.server.tls.contexts import Tls
from dueline.server.tls.entrance import Entrance, EntranceOptions

__all__ = ["Certificate", "Entrance", "EntranceOptions", "Tls", "TlsOptions"]
