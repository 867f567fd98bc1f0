"""From the headers of a request to what they ask for, or to why that cannot be.

A client that is no gRPC client gets a status of HTTP; one that is gets a status of gRPC. The
headers of a client's calls are alike, so what they mean is looked up.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Final, NamedTuple
from urllib.parse import quote

from dueline.errors import RemoteProtocolError
from dueline.server.grpc.framing import GrpcStatus
from dueline.server.grpc.schema import SERVICE
from dueline.wire.http2 import Headers, ServerConnection, literal

__all__ = ["HEADERS", "Asked", "Reception", "Refusal", "trailers"]

HEADERS: Final = b"\x88" + literal("content-type", "application/grpc")
"""Of every answer: status 200, and what it is."""
KNOWN_COUNT_MAX: Final = 64
_WORDS_SIZE_MAX: Final = 1_024
_PLAIN: Final = " !#$&'()*+,/:;<=>?@[]^`{|}"
_PREFIX: Final = f"/{SERVICE}/"
_TIMEOUT: Final = re.compile(r"([0-9]{1,8})([HMSmun])")
_UNITS_S: Final = {"H": 3_600.0, "M": 60.0, "S": 1.0, "m": 1e-3, "u": 1e-6, "n": 1e-9}


def trailers(status: GrpcStatus, words: str = "") -> bytes:
    """What ends an answer."""
    block = literal("grpc-status", str(int(status)))
    if words:
        block += literal("grpc-message", quote(words[:_WORDS_SIZE_MAX], safe=_PLAIN))
    return block


class Asked(NamedTuple):
    """What the headers of a call say."""

    method: str
    metadata: Mapping[str, str]
    timeout_s: float | None
    encoding: str


class Refusal(RemoteProtocolError):
    """A request that is not looked at."""

    def __init__(self, message: str, *, headers: bytes = HEADERS, status: GrpcStatus) -> None:
        super().__init__(message, headers=headers, status=status)

    def tell(self, http2: ServerConnection, stream_id: int) -> None:
        http2.refuse(stream_id, self.headers + trailers(self.status, self.message))


class Reception:
    """The headers of one connection's calls."""

    def __init__(self) -> None:
        self._known: dict[Headers, Asked] = {}

    def ask(self, headers: Headers | None) -> Asked:
        """What a call asks for.

        Raises:
            Refusal: nothing that we can give.
        """
        if headers is None:
            raise Refusal(
                "metadata: expected fewer or shorter ones", status=GrpcStatus.RESOURCE_EXHAUSTED
            )
        asked = self._known.get(headers)
        if asked is None:
            asked = _asked(dict(headers))
            if len(self._known) >= KNOWN_COUNT_MAX:
                self._known.clear()
            self._known[headers] = asked
        return asked


def _asked(fields: dict[str, str]) -> Asked:
    kind = fields.get("content-type", "")
    if fields[":method"] != "POST" or not kind.startswith("application/grpc"):
        raise Refusal(
            f"expected a call of gRPC, found {fields[':method'][:20]} of {kind[:80]!r}",
            headers=literal(":status", "415") + literal("content-type", "application/grpc"),
            status=GrpcStatus.INTERNAL,
        )
    path = fields[":path"]
    if not path.startswith(_PREFIX):
        raise Refusal(
            f"expected a method of {SERVICE}, found {path[:200]!r}",
            status=GrpcStatus.UNIMPLEMENTED,
        )
    return Asked(
        method=path.removeprefix(_PREFIX),
        metadata=fields,
        timeout_s=_timeout_s(fields.get("grpc-timeout")),
        encoding=fields.get("grpc-encoding", "identity"),
    )


def _timeout_s(text: str | None) -> float | None:
    if text is None:
        return None
    match = _TIMEOUT.fullmatch(text)
    if match is None:
        raise Refusal(
            f"grpc-timeout: expected such as 500m or 20S, found {text[:80]!r}",
            status=GrpcStatus.INTERNAL,
        )
    return int(match[1]) * _UNITS_S[match[2]]
