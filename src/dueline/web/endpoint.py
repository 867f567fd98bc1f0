"""One method of the API: what it takes, what it answers, and how the one becomes the other.

Parameters of path and query are one struct, the body another, the answer a third; from the same
three the OpenAPI document is made, so it cannot say anything else than what is done. Unknown,
missing and mistyped fields are errors that name the field.
"""

from __future__ import annotations

import json
import re
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from typing import Any, Final

import msgspec
from starlette.requests import Request
from starlette.responses import Response

from dueline.errors import BrokerError, InvalidRequest
from dueline.flight.values import Value
from dueline.web.gateway import Gateway
from dueline.web.problems import TooLarge, UnsupportedMedia, problem_of, status_of

__all__ = ["CHALLENGE", "Endpoint", "Nothing", "json_response", "problem_response", "respond"]

BODY_SIZE_BYTES_MAX: Final = 32 << 20
"""A message of the largest size in base 64, and room for its properties."""

CHALLENGE: Final = 'Basic realm="Dueline", charset="UTF-8"'
"""A browser asks its user for a name and a secret then."""

_PATH_NAME: Final = re.compile(r"\{(\w+)(?::path)?\}")


class Nothing(Value, frozen=True, kw_only=True):
    """No fields."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Endpoint:
    """`handle(gateway, params, body)` gives the answer; `body` is None for methods without one."""

    method: str
    path: str
    name: str
    summary: str
    tag: str
    handle: Callable[[Gateway, Any, Any], Awaitable[Value]]
    answer: type[Value]
    params: type[Value] = Nothing
    body: type[Value] | None = None

    @property
    def path_names(self) -> list[str]:
        """The parameters that stand in the path."""
        return _PATH_NAME.findall(self.path)


async def respond(endpoint: Endpoint, gateway: Gateway, request: Request) -> Response:
    """Decode, ask, encode; every refusal is an answer."""
    try:
        params = _params(endpoint.params, request)
        body = None if endpoint.body is None else await _body(endpoint.body, request)
        return json_response(await endpoint.handle(gateway, params, body))
    except BrokerError as error:
        return problem_response(error)


def json_response(value: Value, status: int = 200) -> Response:
    return Response(value.encode(), status, media_type="application/json")


def problem_response(error: BrokerError, status: int | None = None) -> Response:
    response = json_response(problem_of(error), status or status_of(error))
    if response.status_code == 401:
        response.headers["WWW-Authenticate"] = CHALLENGE
    return response


def _params(kind: type[Value], request: Request) -> Value:
    found: dict[str, str] = {}
    for name, value in request.query_params.multi_items():
        if name in found:
            raise InvalidRequest(f"{name[:80]}: expected it once, found it twice", field=name[:80])
        found[name] = value
    return _converted(kind, {**found, **request.path_params}, strict=False)


async def _body(kind: type[Value], request: Request) -> Value:
    content_type = request.headers.get("content-type", "").partition(";")[0].strip().lower()
    if content_type != "application/json":
        raise UnsupportedMedia(
            f"content-type: expected application/json, found {content_type[:80] or 'none'}"
        )
    data = await _read(request)
    try:
        plain = json.loads(data)
    except (ValueError, RecursionError) as error:
        raise InvalidRequest(f"body: expected JSON, found {data[:80]!r}", field="body") from error
    if not isinstance(plain, Mapping):
        raise InvalidRequest(f"body: expected a JSON object, found {data[:80]!r}", field="body")
    return _converted(kind, plain, strict=True)


async def _read(request: Request) -> bytes:
    data = bytearray()
    async for chunk in request.stream():
        data += chunk
        if len(data) > BODY_SIZE_BYTES_MAX:
            raise TooLarge(
                f"body: expected at most {BODY_SIZE_BYTES_MAX} bytes, found more",
                limit=BODY_SIZE_BYTES_MAX,
            )
    return bytes(data)


def _converted(kind: type[Value], plain: Mapping[str, Any], *, strict: bool) -> Value:
    try:
        return msgspec.convert(plain, kind, strict=strict)
    except msgspec.ValidationError as error:
        raise InvalidRequest(_said(str(error)), field=_field_of(str(error))) from error


def _said(text: str) -> str:
    """msgspec's message in our order: where, what was expected, what was found."""
    what, _, where = text.partition(" - at `$")
    where = where.strip("`.") or "request"
    return f"{where}: {what[:1].lower()}{what[1:]}"


def _field_of(text: str) -> str | None:
    match = re.search(r"`\$\.([\w.]+)`|(?:field|required field) `(\w+)`", text)
    return (match.group(1) or match.group(2)) if match else None
