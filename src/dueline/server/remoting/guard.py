"""Before every handler of the 4.x protocol: who asks, and may they?

    request ──▶ a name in it? ── no ──▶ the user of the connection's certificate, or nobody
                    │ yes
                    ▼
                 its signature ── wrong ──▶ 16 "no permission", and a line in the audit trail
                    ▼
                 the code's requirement ── not met ──▶ the same
                    ▼
                 handler ──▶ a change that succeeded is a line in the audit trail too

A code that has no requirement gets no handler: `Guard.guarded` fails, and with it the start. With
access control off nobody is asked, and handlers that change nothing are called as they are.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Final

from dueline.broker.access import Access, Caller, Trail
from dueline.errors import Forbidden, InvalidRequest, Unauthenticated
from dueline.server.remoting.answers import Response
from dueline.server.remoting.channel import Request
from dueline.server.remoting.requirements import REQUIREMENTS, Needs, Requirement
from dueline.server.remoting.standing import Standing
from dueline.wire.codes import RequestCode, ResponseCode
from dueline.wire.delayed import DelayedCode
from dueline.wire.signature import NAME_FIELD, carried_signature, content_of

if TYPE_CHECKING:
    from dueline.server.remoting.hub import Handler

__all__ = ["Guard"]

DOOR: Final = "remoting"
METHOD: Final = "signature"
HEAVY_SIZE_BYTES: Final = 128 << 10
"""To sign, or to read, a larger body takes long enough to be done in a thread."""

InThread = Callable[
    [Request, Callable[[], Needs], Callable[[Request, Needs], Response | None]], None
]


class Guard:
    """Asks `Access` for every request."""

    def __init__(self, access: Access, trail: Trail) -> None:
        self._access = access if access.is_enabled else None
        self._trail = trail

    @property
    def is_on(self) -> bool:
        """Must handlers be asked for by way of this?"""
        return self._access is not None

    def guarded(self, table: Mapping[int, Handler], in_thread: InThread) -> dict[int, Handler]:
        """The handlers, each behind its requirement.

        Args:
            in_thread: calls the first function in a thread and the second one back in the loop.

        Raises:
            KeyError: a code without a requirement.
        """
        return {
            code: self._guard(handler, REQUIREMENTS[code], in_thread)
            for code, handler in table.items()
        }

    def _guard(self, handler: Handler, requirement: Requirement, in_thread: InThread) -> Handler:
        if self._access is None and not requirement.is_change:
            return handler
        is_open = requirement.is_open
        is_looked_at = self.is_on or requirement.reads_body

        @functools.wraps(handler)
        def handle(request: Request) -> Response | None:
            request.guard = self
            if is_open is not None and is_open(request.command):
                return handler(request)
            if len(request.command.body) > HEAVY_SIZE_BYTES and is_looked_at:
                in_thread(request, functools.partial(self._needs, request, requirement), go_on)
                return None
            return go_on(request, self._needs(request, requirement))

        def go_on(request: Request, needs: Needs) -> Response | None:
            self.check(request, needs)
            if requirement.is_change:
                request.on_answer = functools.partial(self._answered, request, needs)
            return handler(request)

        return handle

    def _needs(self, request: Request, requirement: Requirement) -> Needs:
        """Who asks, noted in the request, and what for."""
        request.caller = self._caller(request)
        return requirement.needs(request.command)

    def _caller(self, request: Request) -> Caller:
        address = request.channel.source
        if self._access is None:
            return Caller(None, address)
        ext = request.command.ext
        name = ext.get(NAME_FIELD)
        try:
            if name is None:
                certificate = request.channel.certificate
                return self._access.authenticate_certificate(certificate, address=address)
            return self._access.authenticate_signature(
                name,
                content_of(request.command),
                carried_signature(ext),
                address=address,
                method=METHOD,
            )
        except Unauthenticated as error:
            self._refused(Caller(None, address), request, error, name=name)
            raise

    def check(self, request: Request, needs: Needs) -> None:
        """Refuse what the request's caller may not.

        Raises:
            Unauthenticated, Forbidden: the audit trail has a line of it.
        """
        if self._access is None:
            return
        actions, resources = needs
        try:
            self._access.check(request.caller, actions, *resources)
        except (Unauthenticated, Forbidden) as error:
            self._refused(request.caller, request, error)
            raise

    def may(self, request: Request, needs: Needs) -> bool:
        """The same as a question, without a line."""
        return self._access is None or self._access.may(request.caller, needs[0], *needs[1])

    def standing(self, name: str, address: str, needs: Needs) -> Standing | None:
        """A caller who will sign the same request often; None: nobody is asked."""
        if self._access is None:
            return None
        return Standing(self._access, Caller(name, address, METHOD), needs)

    def _refused(
        self,
        caller: Caller,
        request: Request,
        error: Unauthenticated | Forbidden,
        name: str | None = None,
    ) -> None:
        what = _name_of(request.command.code)
        self._trail.refused(caller, door=DOOR, what=what, error=error, name=name)

    def _answered(self, request: Request, needs: Needs, answer: Response) -> None:
        if answer.code == ResponseCode.SUCCESS:
            self._trail.changed(
                request.caller,
                door=DOOR,
                what=_name_of(request.command.code),
                on=request.changed_names or needs[1],
                count=request.changed_count,
            )


def _name_of(code: int) -> str:
    for kind in (RequestCode, DelayedCode):
        try:
            return kind(code).name
        except ValueError:
            continue
    raise InvalidRequest(f"request code {code}: expected one that is served")
