"""Signatures of 4.x clients: who says that they ask, and over what they have signed.

A client with RocketMQ's `AclClientRPCHook` adds three fields to each request: its name, perhaps a
token of its session, and a signature. That is HMAC-SHA1, in base64, over the values of all other
fields in the order of their names, followed by the body. So what was changed on the way is noticed.
A copy that is sent again is not: the protocol has neither a number nor a time in what is signed.

    ext    AccessKey=billing  Signature=…  a=group  b=orders
    signed            billing              group    orders     and the body
"""

from __future__ import annotations

import base64
import binascii
import hmac
from collections.abc import Callable, Iterable, Mapping
from operator import itemgetter
from typing import Final

from dueline.credentials import Credentials
from dueline.wire.codes import VERSION_4_9_8
from dueline.wire.command import Command

__all__ = [
    "NAME_FIELD",
    "SIGNATURE_FIELD",
    "carried_signature",
    "content_of",
    "read_signature",
    "signed",
]

NAME_FIELD: Final = "AccessKey"
SIGNATURE_FIELD: Final = "Signature"
VERSION_4_9_3: Final = 399
NAMES_COUNT_MAX: Final = 1_000
NAMES_SIZE_MAX: Final = 1_024
"""Characters of all names of a request that are remembered."""
_UNIQUE: Final = "_UNIQUE_KEY_QUERY"
"""Clients up to 4.9.3 add this after they have signed."""


def content_of(command: Command) -> bytes:
    """What a client has signed."""
    return _content(command.ext, command.body, command.version)


def _content(ext: Mapping[str, str], body: bytes, version: int) -> bytes:
    names: _Names = (version <= VERSION_4_9_3, *ext)
    values = _values_of.get(names) or _remembered(names)
    return "".join(values(ext)).encode("utf-8", "replace") + body


_Names = tuple[bool | str, ...]
_Values = Callable[[Mapping[str, str]], Iterable[str]]

_values_of: Final[dict[_Names, _Values]] = {}
"""How to take out what is signed, by the names of all fields: those of a client are always the
same, in the same order. The first value says whether the client is an old one."""


def _remembered(names: _Names) -> _Values:
    is_old, *fields = names
    left_out = {SIGNATURE_FIELD, _UNIQUE} if is_old else {SIGNATURE_FIELD}
    chosen = sorted(str(field) for field in fields if field not in left_out)
    values: _Values = itemgetter(*chosen) if chosen else _nothing
    if sum(len(str(field)) for field in fields) <= NAMES_SIZE_MAX:
        if len(_values_of) >= NAMES_COUNT_MAX:
            _values_of.clear()
        _values_of[names] = values
    return values


def _nothing(ext: Mapping[str, str]) -> Iterable[str]:
    return ()


def signed(ext: Mapping[str, str], body: bytes, credentials: Credentials) -> dict[str, str]:
    """The fields of a request with its sender's name and signature."""
    fields = {**ext, NAME_FIELD: credentials.name}
    content = _content(fields, body, VERSION_4_9_8)
    digest = hmac.digest(credentials.secret.encode(), content, "sha1")
    return {**fields, SIGNATURE_FIELD: base64.b64encode(digest).decode()}


def carried_signature(ext: Mapping[str, str]) -> bytes:
    """The signature that a request carries; empty if it has none that can be read."""
    return read_signature(ext.get(SIGNATURE_FIELD, "").encode("utf-8", "replace"))


def read_signature(text: bytes) -> bytes:
    """A signature as it is written; empty: it is none."""
    try:
        return binascii.a2b_base64(text, strict_mode=True)
    except binascii.Error:
        return b""
