"""Messages: send one, look one up."""

from __future__ import annotations

from typing import Any, Final

from dueline.clock import Clock
from dueline.errors import InvalidRequest, NotFound
from dueline.flight import console
from dueline.flight.values import Value
from dueline.times import check_not_past, duration_ms, time_ms
from dueline.web.endpoint import Endpoint
from dueline.web.gateway import Gateway

__all__ = ["ENDPOINTS"]


class MessageToSend(Value, frozen=True, kw_only=True):
    """`body` is text; bytes that are none go into `body_base64` instead. At most one of `delay`
    (`30m`, `PT30M`), `deliver_at` (`2027-01-01T10:00+01:00`) and `delay_level`."""

    topic: str
    body: str | None = None
    body_base64: bytes | None = None
    keys: tuple[str, ...] = ()
    tag: str = ""
    properties: dict[str, str] = {}  # noqa: RUF012 - msgspec copies it
    queue_id: int | None = None
    delay: str | None = None
    deliver_at: str | None = None
    delay_level: int | None = None


class MessageName(Value, frozen=True, kw_only=True):
    """`name` is a key, a unique id or an offset id; without a topic delayed messages only."""

    name: str
    topic: str | None = None


async def _send(gateway: Gateway, params: Any, body: MessageToSend) -> console.SentMessage:
    if (body.body is None) == (body.body_base64 is None):
        raise InvalidRequest(
            "body: expected one of body and body_base64, found "
            f"{'both' if body.body is not None else 'neither'}",
            field="body",
        )
    request = console.Send(
        topic=body.topic,
        body=body.body.encode() if body.body is not None else body.body_base64 or b"",
        keys=body.keys,
        tag=body.tag,
        properties=body.properties,
        queue_id=body.queue_id,
        deliver_at_ms=_time_ms(body.deliver_at),
        delay_ms=None if body.delay is None else duration_ms(body.delay),
        delay_level=body.delay_level,
    )
    request.check()
    return await gateway.ask(request, console.SentMessage)


def _time_ms(text: str | None) -> int | None:
    if text is None:
        return None
    at_ms = time_ms(text)
    check_not_past(at_ms, Clock().now_ms(), name="deliver_at")
    return at_ms


async def _inspect(gateway: Gateway, params: MessageName, body: None) -> console.InspectedList:
    request = console.Inspect(name=params.name, topic=params.topic)
    found = await gateway.ask(request, console.InspectedList)
    if not found.messages:
        raise NotFound(
            f"message {params.name[:200]}: expected a key or id of a message that is known, found "
            "none; a message that was never delayed is found with its topic"
        )
    return found


ENDPOINTS: Final = (
    Endpoint(
        method="POST",
        path="/api/v1/messages",
        name="sendMessage",
        summary="Send a message, now or for later",
        tag="messages",
        handle=_send,
        answer=console.SentMessage,
        body=MessageToSend,
    ),
    Endpoint(
        method="GET",
        path="/api/v1/messages/{name:path}",
        name="inspectMessage",
        summary="Everything that is known of the messages of a name",
        tag="messages",
        handle=_inspect,
        answer=console.InspectedList,
        params=MessageName,
    ),
)
