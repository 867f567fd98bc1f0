"""Before every method of the 5.x protocol: who calls, and may they?

A client shows with each call

    authorization: MQv2-HMAC-SHA1 Credential=name, SignedHeaders=x-mq-date-time, Signature=hex
    x-mq-date-time: 20261117T190000Z

where the signature is HMAC-SHA1 over the time alone. So it says who calls and when, and nothing of
what is asked: only TLS keeps a request from being altered, or a signature from being used again
until its time is over. The clients for Java, Go and Python write their local time and call it UTC,
so the time may be off by hours unless the operator says that all clients run in UTC.

`admit` is called with what every server layer has: the method's name, the metadata, the address and
the request that was read. A method without a line in `NEEDS` is not served.
"""

from __future__ import annotations

import binascii
import re
from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from functools import lru_cache
from typing import Any, Final

from dueline.broker.access import (
    Access,
    Action,
    Caller,
    Certificate,
    Resource,
    Trail,
    group,
    topic,
)
from dueline.clock import Clock
from dueline.errors import Forbidden, Unauthenticated
from dueline.server.grpc.convert import name_of

__all__ = ["NEEDS", "GrpcGuard"]

DOOR: Final = "grpc"
ALGORITHM: Final = "MQv2-HMAC-SHA1"
_TIME: Final = re.compile(r"(\d{4})(\d\d)(\d\d)T(\d\d)(\d\d)(\d\d)Z", re.ASCII)
_CONSUMERS: Final = frozenset({2, 3, 4})
"""Client types that consume: push, simple, pull."""

Needs = tuple[Action, tuple[Resource, ...]]
NO_NEEDS: Final[Needs] = (Action(0), ())


def _topic(resource: Any) -> Resource:
    return topic(name_of(resource))


def _group(resource: Any) -> Resource:
    return group(name_of(resource))


def _send(request: Any) -> Needs:
    return Action.PUB, tuple({_topic(message.topic) for message in request.messages})


def _publish(request: Any) -> Needs:
    return Action.PUB, (_topic(request.topic),)


def _subscribe(actions: Action = Action.SUB) -> Callable[[Any], Needs]:
    return lambda request: (actions, (_group(request.group), _topic(request.topic)))


def _queue(actions: Action = Action.SUB) -> Callable[[Any], Needs]:
    """Of a group, in the topic of a queue."""
    return lambda request: (
        actions,
        (_group(request.group), _topic(request.message_queue.topic)),
    )


def _heartbeat(request: Any) -> Needs:
    is_consumer = request.client_type in _CONSUMERS or bool(request.group.name)
    return (Action.SUB, (_group(request.group),)) if is_consumer else NO_NEEDS


def _terminate(request: Any) -> Needs:
    return (Action.SUB, (_group(request.group),)) if request.group.name else NO_NEEDS


def _telemetry(command: Any) -> Needs:
    """Of a command of the stream; the stream itself takes a user."""
    if not command.HasField("settings"):
        return NO_NEEDS
    settings = command.settings
    if settings.HasField("subscription"):
        subscription = settings.subscription
        topics = {_topic(entry.topic) for entry in subscription.subscriptions}
        return Action.SUB, (_group(subscription.group), *topics)
    return Action.PUB, tuple({_topic(each) for each in settings.publishing.topics})


NEEDS: Final[dict[str, Callable[[Any], Needs]]] = {
    "QueryRoute": lambda request: (
        Action.PUB | Action.SUB | Action.GET,
        (_topic(request.topic),),
    ),
    "Heartbeat": _heartbeat,
    "SendMessage": _send,
    "QueryAssignment": _subscribe(),
    "ReceiveMessage": _queue(),
    "AckMessage": _subscribe(),
    "ForwardMessageToDeadLetterQueue": _subscribe(),
    "PullMessage": _queue(),
    "UpdateOffset": _queue(Action.SUB | Action.UPDATE),
    "GetOffset": _queue(Action.SUB | Action.GET),
    "QueryOffset": lambda request: (
        Action.SUB | Action.GET,
        (_topic(request.message_queue.topic),),
    ),
    "EndTransaction": _publish,
    "Telemetry": _telemetry,
    "NotifyClientTermination": _terminate,
    "ChangeInvisibleDuration": _subscribe(),
    "RecallMessage": _publish,
}
_CHANGES: Final = frozenset({"RecallMessage"})


class GrpcGuard:
    """Asks `Access` for every call."""

    def __init__(self, access: Access, trail: Trail, *, clock: Clock, age_ms_max: int) -> None:
        """Args:
        age_ms_max: how far a signature's time may be from ours; 0: any time.
        """
        self._access = access
        self._trail = trail
        self._clock = clock
        self._age_ms_max = age_ms_max
        self.is_on: Final = access.is_enabled

    def admit(
        self,
        method: str,
        metadata: Mapping[str, str],
        address: str,
        request: Any,
        *,
        certificate: Certificate | None = None,
    ) -> Caller:
        """Who calls; None as a request: of a stream that is only being opened.

        Args:
            certificate: what the connection has shown; it counts if the call shows no signature.

        Raises:
            Unauthenticated, Forbidden: the audit trail has a line of it.
        """
        found = Caller(None, address)
        if not self.is_on:
            return found
        name = None
        try:
            authorization = metadata.get("authorization")
            if authorization is not None:
                name, digest = _signature(authorization)
                time = metadata.get("x-mq-date-time", "")
                found = self._access.authenticate_signature(
                    name, time.encode(), digest, address=address, method="signature"
                )
                self._check_time(name, time)
            else:
                found = self._access.authenticate_certificate(certificate, address=address)
            self._access.check(found, Action(0))
            if request is not None:
                actions, resources = NEEDS[method](request)
                self._access.check(found, actions, *resources)
        except (Unauthenticated, Forbidden) as error:
            self._trail.refused(found, door=DOOR, what=method, error=error, name=name)
            raise
        return found

    def note(self, caller: Caller, method: str, request: Any) -> None:
        """A call has succeeded: a change is a line of the audit trail."""
        if method in _CHANGES:
            on = (_topic(request.topic), request.recall_handle)
            self._trail.changed(caller, door=DOOR, what=method, on=on)

    def _check_time(self, name: str, text: str) -> None:
        time_ms = _time_ms(text)
        if time_ms is None:
            raise Unauthenticated(
                f"x-mq-date-time: expected a time such as 20261117T190000Z, found {text[:50]!r}",
                user=name,
                reason="no time",
            )
        apart_ms = abs(self._clock.now_ms() - time_ms)
        if self._age_ms_max and apart_ms > self._age_ms_max:
            raise Unauthenticated(
                f"x-mq-date-time: expected a time within {self._age_ms_max // 1000} s of the "
                f"broker's, found {text}, which is {apart_ms // 1000} s apart; is a clock wrong, "
                "or was the signature used before?",
                user=name,
                reason="old signature",
            )


def _signature(text: str) -> tuple[str, bytes]:
    """The name and the signature in an `authorization` header.

    Raises:
        Unauthenticated: it is of another kind.
    """
    kind, _, rest = text.partition(" ")
    fields = dict(part.strip().partition("=")[::2] for part in rest.split(","))
    name = fields.get("Credential", "").partition("/")[0]
    try:
        digest = binascii.a2b_hex(fields.get("Signature", ""))
    except ValueError:
        digest = b""
    if kind != ALGORITHM or not name or not digest:
        raise Unauthenticated(
            f"authorization: expected {ALGORITHM} with Credential, SignedHeaders and Signature, "
            f"found {kind[:50]!r} with {sorted(fields)!r:.100}",
            reason="no signature",
        )
    return name, digest


@lru_cache(maxsize=1_024)
def _time_ms(text: str) -> int | None:
    found = _TIME.fullmatch(text)
    if found is None:
        return None
    try:
        return int(datetime(*map(int, found.groups()), tzinfo=UTC).timestamp() * 1_000)  # type: ignore[arg-type, misc]
    except ValueError:
        return None
