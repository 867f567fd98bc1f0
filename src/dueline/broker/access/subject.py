"""The user whom a client's certificate names: the common name of its subject, if it has just one.

    >>> name_in({"subject": ((("organizationName", "Shop"),), (("commonName", "billing"),))})
    'billing'

Certificates are as Python's `ssl` shows those that it has verified: an authority of `tls.client_ca`
has signed every word of them. Other names in them, such as hosts, say where a certificate is from
and not whose it is: they are not looked at.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from dueline.broker.access.values import check_name
from dueline.errors import InvalidRequest, Unauthenticated

__all__ = ["Certificate", "name_in"]

Certificate = Mapping[str, Any]

_COMMON_NAME: Final = "commonName"


def name_in(certificate: Certificate) -> str:
    """The name of a user; whether there is such a user is another question.

    Raises:
        Unauthenticated: no common name, several, or one that no user can have.
    """
    names = [
        value
        for part in certificate.get("subject", ())
        for field, value in part
        if field == _COMMON_NAME
    ]
    if len(names) != 1:
        raise Unauthenticated(
            "certificate: expected one common name in its subject, the user's, found "
            f"{len(names)}; sign the requests, or show another certificate",
            reason="certificate without a user",
        )
    try:
        check_name(names[0])
    except InvalidRequest as error:
        raise Unauthenticated(
            f"certificate: {error.message}", user=names[0][:64], reason="certificate without a user"
        ) from error
    return str(names[0])
