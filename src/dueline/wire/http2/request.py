"""Is a list of headers a request? (RFC 9113, 8.2 and 8.3)

A request that is malformed ends its stream, not the connection.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Final

from dueline.wire.http2.faults import ErrorCode, Fault
from dueline.wire.http2.header_table import Field

__all__ = ["check_request", "check_trailers", "content_length"]

_PSEUDO: Final = frozenset({":method", ":scheme", ":path", ":authority"})
_REQUIRED: Final = (":method", ":scheme", ":path")
_OF_A_CONNECTION: Final = frozenset(
    {"connection", "proxy-connection", "keep-alive", "transfer-encoding", "upgrade"}
)
_NAME: Final = re.compile(r"[!#$%&'*+\-.^_`|~0-9a-z]+")
_VALUE: Final = re.compile(r"[^\x00\r\n]*")


def check_request(fields: Iterable[Field], stream_id: int) -> None:
    """Refuse what is no request.

    Raises:
        Fault: says which rule it breaks.
    """
    seen: dict[str, str] = {}
    has_regular = False
    for name, value in fields:
        if name[:1] == ":":
            if has_regular or name in seen or name not in _PSEUDO:
                raise _fault(stream_id, f"found {name[:80]!r} out of its place")
            seen[name] = value
        else:
            has_regular = True
            _check_regular(name, value, stream_id)
    for name in _REQUIRED:
        if not seen.get(name):
            raise _fault(stream_id, f"expected {name}, found none")


def check_trailers(fields: Iterable[Field], stream_id: int) -> None:
    """Refuse what may not stand behind a request.

    Raises:
        Fault: says which rule it breaks.
    """
    for name, value in fields:
        _check_regular(name, value, stream_id)


def _check_regular(name: str, value: str, stream_id: int) -> None:
    is_plain = value.isprintable() or _VALUE.fullmatch(value)
    if not is_plain or not _NAME.fullmatch(name):
        raise _fault(stream_id, f"{name[:80]!r}: expected a name in lower case and plain text")
    if name in _OF_A_CONNECTION or (name == "te" and value != "trailers"):
        raise _fault(stream_id, f"{name}: expected nothing about the connection")


def content_length(fields: Iterable[Field], stream_id: int) -> int | None:
    """The size of the body as the headers say; None if they do not.

    Raises:
        Fault: it is no number.
    """
    found = [value for name, value in fields if name == "content-length"]
    if not found:
        return None
    if len(set(found)) > 1 or not (found[0].isascii() and found[0].isdigit()):
        raise _fault(stream_id, f"content-length: expected one number, found {found[0][:80]!r}")
    return int(found[0][:20])


def _fault(stream_id: int, text: str) -> Fault:
    return Fault(ErrorCode.PROTOCOL_ERROR, f"request: {text}", stream_id=stream_id)
