"""What protects a browser's user: headers on every answer, and who may call at all.

Without access control the process listens on loopback only, and takes only calls that name it so:
a page of another site whose name was made to point here (DNS rebinding) names that site. Changes
come from our own pages or from programs: a browser says where a call comes from, and one from
another site is refused; a body has to be JSON, which no form of another site can send.

With access control a request says who asks, by Basic or Bearer authorization; what it may is for
the broker to say. Nothing is kept here: no session, no cookie, and so none to steal.
"""

from __future__ import annotations

import base64
from collections.abc import Collection
from typing import Final
from urllib.parse import urlsplit

from starlette.datastructures import Headers, MutableHeaders
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from dueline.credentials import Credentials
from dueline.errors import InvalidRequest, Unauthenticated
from dueline.web.endpoint import problem_response
from dueline.web.gateway import asking
from dueline.web.problems import NotAllowed

__all__ = ["Guard", "is_loopback"]

_POLICY: Final = "; ".join(
    (
        "default-src 'none'",
        "script-src 'self'",
        "style-src 'self'",
        "img-src 'self'",
        "connect-src 'self'",
        "form-action 'self'",
        "base-uri 'none'",
        "frame-ancestors 'none'",
    )
)
_HEADERS: Final = {
    "content-security-policy": _POLICY,
    "x-content-type-options": "nosniff",
    "referrer-policy": "same-origin",
    "cross-origin-opener-policy": "same-origin",
    "cross-origin-resource-policy": "same-origin",
    "permissions-policy": "geolocation=(), camera=(), microphone=()",
}
_READING: Final = frozenset({"GET", "HEAD", "OPTIONS"})
_LOOPBACK: Final = frozenset({"localhost", "127.0.0.1", "::1"})


def is_loopback(host: str) -> bool:
    """Can only this machine call an address?

    >>> is_loopback("127.0.0.1"), is_loopback("0.0.0.0")
    (True, False)
    """
    return host in _LOOPBACK or host.startswith("127.")


class Guard:
    """ASGI middleware around everything."""

    def __init__(self, app: ASGIApp, *, hosts: Collection[str] | None) -> None:
        """Args:
        hosts: what a call may name as its host, beside loopback; None: anything.
        """
        self._app = app
        self._hosts = None if hosts is None else _LOOPBACK | frozenset(hosts)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return

        async def send_guarded(message: Message) -> None:
            if message["type"] == "http.response.start":
                headers = MutableHeaders(scope=message)
                for name, value in _HEADERS.items():
                    headers.setdefault(name, value)
                if not scope["path"].startswith("/static/"):
                    headers.setdefault("cache-control", "no-store")
            await send(message)

        refusal = self._refusal(scope)
        if refusal is not None:
            await problem_response(refusal)(scope, receive, send_guarded)
            return
        try:
            user = user_of(Headers(scope=scope).get("authorization", ""))
        except Unauthenticated as error:
            await problem_response(error)(scope, receive, send_guarded)
            return
        with asking(user):
            await self._app(scope, receive, send_guarded)

    def _refusal(self, scope: Scope) -> NotAllowed | None:
        headers = Headers(scope=scope)
        host = headers.get("host", "")
        if self._hosts is not None and _name_of(host) not in self._hosts:
            return NotAllowed(
                f"host: expected {' or '.join(sorted(self._hosts))}, found {host[:80]!r}; without "
                "access control only this machine may call"
            )
        if scope["method"] in _READING:
            return None
        site, origin = headers.get("sec-fetch-site"), headers.get("origin")
        is_foreign = site not in (None, "same-origin", "none") or (
            origin is not None and urlsplit(origin).netloc != host
        )
        if is_foreign:
            return NotAllowed(
                f"origin: expected a call of our own pages or of a program, found one from "
                f"{(origin or site or '')[:80]!r}"
            )
        return None


def user_of(header: str) -> Credentials | None:
    """Whom an Authorization header names; None without one.

    >>> user_of("Bearer billing:secret"), user_of("")
    (Credentials(name='billing'), None)

    Raises:
        Unauthenticated: it cannot be read.
    """
    scheme, _, text = header.strip().partition(" ")
    if not scheme:
        return None
    try:
        if scheme.lower() == "basic":
            text = base64.b64decode(text.strip(), validate=True).decode()
        shown = text if scheme.lower() in ("basic", "bearer") else ""
        return Credentials.parse(shown, where="authorization")
    except (ValueError, InvalidRequest) as error:
        raise Unauthenticated(
            "authorization: expected Basic, or Bearer with name:secret, found something else"
        ) from error


def _name_of(host: str) -> str:
    """The name in a Host header, without its port.

    >>> _name_of("[::1]:8080"), _name_of("localhost")
    ('::1', 'localhost')
    """
    if host.startswith("["):
        return host[1:].partition("]")[0]
    return host.partition(":")[0].lower()
