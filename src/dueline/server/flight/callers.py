"""Who calls the Flight port, and may they? Asked before every action, ticket and upload.

A caller shows a bearer token (`authorization: Bearer name:secret`) or a name and a secret (`Basic`,
in base 64), with each call. A call runs in one thread from its beginning to its end, so who it is
stands in a variable of that context: verbs that find messages of several topics ask `may` for each.
"""

from __future__ import annotations

import base64
import binascii
import ipaddress
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any, Final

from pyarrow import flight

from dueline.broker.access import ANONYMOUS, CLUSTER, Access, Action, Caller, Trail, topic
from dueline.errors import Forbidden, Unauthenticated
from dueline.flight.values import Value
from dueline.server.flight.requirements import ACTIONS, SUPER, Needs

__all__ = ["HEADERS", "Callers", "HeaderFactory", "caller", "check_topics", "may"]

DOOR: Final = "flight"
HEADERS: Final = "headers"
NAMED_COUNT_MAX: Final = 10
"""Keys of one request that the audit trail names."""

_caller: ContextVar[Caller] = ContextVar("caller", default=ANONYMOUS)
_access: ContextVar[Access | None] = ContextVar("access", default=None)


def caller() -> Caller:
    """Who has made the call that is under way in this thread."""
    return _caller.get()


def may(actions: Action, on_cluster: Action) -> Callable[[str], bool]:
    """For which topics the caller may; with `on_cluster` on the cluster, for all of them."""
    access, asking = _access.get(), _caller.get()
    if access is None or not access.is_enabled:
        return lambda name: True
    is_all = access.may(asking, on_cluster, CLUSTER)
    return lambda name: is_all or access.may(asking, actions, topic(name))


def check_topics(actions: Action, names: Iterable[str]) -> None:
    """Refuse topics on which the caller has no right.

    Raises:
        Forbidden: names the first.
    """
    access = _access.get()
    if access is not None:
        access.check(_caller.get(), actions, *map(topic, names))


class _Headers(flight.ServerMiddleware):  # type: ignore[misc]
    def __init__(self, headers: Mapping[str, Sequence[Any]]) -> None:
        self.headers = headers


class HeaderFactory(flight.ServerMiddlewareFactory):  # type: ignore[misc]
    """Keeps the headers of a call for those who ask who it is."""

    def start_call(self, info: flight.CallInfo, headers: Mapping[str, Sequence[Any]]) -> _Headers:
        return _Headers(headers)


class Callers:
    """Asks `Access` for every call."""

    def __init__(self, access: Access | None, trail: Trail | None) -> None:
        self._access = access
        self._trail = trail

    @contextmanager
    def admitted(
        self, context: flight.ServerCallContext, what: str, needs: Callable[[], Needs]
    ) -> Iterator[None]:
        """Know who calls, and refuse them if they may not.

        Raises:
            Unauthenticated, Forbidden: the audit trail has a line of it.
        """
        address, access = _address_of(context.peer()), self._access
        shown = _shown(context) if access is not None and access.is_enabled else None
        found = Caller(None, address)
        tokens = _caller.set(found), _access.set(access)
        try:
            if access is not None and access.is_enabled:
                if shown is not None:
                    found = access.authenticate_basic(*shown[:2], address=address, method=shown[2])
                    _caller.set(found)
                access.check(found, Action(0))
                self._check(access, found, needs())
            yield
        except (Unauthenticated, Forbidden) as error:
            name = shown[0] if shown is not None else None
            if self._trail is not None:
                self._trail.refused(found, door=DOOR, what=what, error=error, name=name)
            raise
        finally:
            _caller.reset(tokens[0])
            _access.reset(tokens[1])

    def _check(self, access: Access, found: Caller, needs: Needs) -> None:
        if needs is SUPER:
            access.check_super(found)
        else:
            access.check(found, needs[0], *needs[1])

    def needs_of(self, name: str, request: type[Value], body: bytes) -> Needs:
        """What an action asks for."""
        needs = ACTIONS[name]
        return needs(request.decode(body)) if callable(needs) else needs

    def note(self, name: str, request: Any, answer: Any) -> None:
        """A change that was made is a line of the audit trail."""
        if self._trail is None:
            return
        on, count = _changes(name, request, answer)
        if count != 0:
            self._trail.changed(caller(), door=DOOR, what=name, on=on, count=count)


CHANGES: Final = frozenset(
    {
        *("cancel", "reschedule", "commit_window", "change_numbers", "start_job", "stop_job"),
        *("create_topic", "delete_topic", "reset_group", "set_rule"),
        *("add_user", "update_user", "rotate_user", "delete_user", "grant", "revoke"),
    }
)


def _changes(name: str, request: Any, answer: Any) -> tuple[tuple[str, ...], int | None]:
    """What was changed, and how many; a commit is a change if the transform dropped something."""
    if name == "commit_window":
        return (), answer.dropped
    if name == "cancel":
        return request.keys[:NAMED_COUNT_MAX], sum(answer.counts)
    if name == "reschedule":
        keys = tuple(move.key for move in request.moves[:NAMED_COUNT_MAX])
        return keys, sum(answer.counts)
    if name.endswith("_user"):
        return (f"User:{request.name}",), None
    if name == "grant":
        return (f"User:{request.name}", *(each.resource for each in request.policies)), None
    if name == "revoke":
        return (f"User:{request.name}", request.resource or "*"), answer.count
    if name == "change_numbers":
        return (request.action,), answer.answers.count("done")
    if name in ("start_job", "stop_job"):
        return (f"job {answer.number}", answer.action), None
    if name == "reset_group":
        return (f"Group:{request.group}", f"Topic:{request.topic}"), None
    return (f"Topic:{request.topic}",), None


def _shown(context: flight.ServerCallContext) -> tuple[str, str, str] | None:
    """The name and the secret that a call shows, and how; None: none."""
    middleware = context.get_middleware(HEADERS)
    values = middleware.headers.get("authorization", ()) if middleware is not None else ()
    text = str(values[0]) if values else ""
    kind, _, shown = text.partition(" ")
    if kind.lower() == "bearer":
        name, _, secret = shown.strip().partition(":")
        return name, secret, "bearer"
    if kind.lower() == "basic":
        try:
            plain = base64.b64decode(shown.strip(), validate=True).decode()
        except (binascii.Error, ValueError):
            return "", "", "basic"
        name, _, secret = plain.partition(":")
        return name, secret, "basic"
    return None


def _address_of(peer: str) -> str:
    """gRPC's name of a peer, `ipv4:10.0.0.1:5000` or `ipv6:%5B::1%5D:5000`, as an address."""
    host = peer.partition(":")[2].rpartition(":")[0]
    host = host.replace("%5B", "").replace("%5D", "").strip("[]").partition("%")[0]
    try:
        address = ipaddress.ip_address(host)
    except ValueError:
        return peer[:100]
    mapped = getattr(address, "ipv4_mapped", None)
    return str(mapped or address)
