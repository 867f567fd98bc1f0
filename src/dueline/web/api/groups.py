"""Consumer groups, what they could not handle, and transactions that nobody has decided."""

from __future__ import annotations

from typing import Final

from dueline.flight import console
from dueline.flight.values import Value
from dueline.times import parse_time_ms
from dueline.web.endpoint import Endpoint
from dueline.web.gateway import Gateway

__all__ = ["ENDPOINTS"]


class GroupName(Value, frozen=True, kw_only=True):
    group: str


class GroupPlace(Value, frozen=True, kw_only=True):
    """`to` is `start`, `end` or a time."""

    topic: str
    to: str


class LetterName(Value, frozen=True, kw_only=True):
    group: str
    offset: int


class Resend(Value, frozen=True, kw_only=True):
    """`is_to_topic`: as a new message, which every group of the topic reads."""

    is_to_topic: bool = False


async def _list(gateway: Gateway, params: console.ListGroups, body: None) -> console.GroupList:
    params.check()
    return await gateway.ask(params, console.GroupList)


async def _reset(gateway: Gateway, params: GroupName, body: GroupPlace) -> console.GroupReset:
    at_ms = {"start": 0, "end": None}[body.to] if body.to in ("start", "end") else None
    if body.to not in ("start", "end"):
        at_ms = parse_time_ms(body.to)
    request = console.ResetGroup(group=params.group, topic=body.topic, timestamp_ms=at_ms)
    return await gateway.ask(request, console.GroupReset)


async def _dead_letters(
    gateway: Gateway, params: console.ListDeadLetters, body: None
) -> console.DeadLetterList:
    params.check()
    return await gateway.ask(params, console.DeadLetterList)


async def _resend(gateway: Gateway, params: LetterName, body: Resend) -> console.DeadLetterResent:
    request = console.ResendDeadLetter(
        group=params.group, offset=params.offset, is_to_topic=body.is_to_topic
    )
    return await gateway.ask(request, console.DeadLetterResent)


async def _undecided(
    gateway: Gateway, params: console.ListUndecided, body: None
) -> console.UndecidedList:
    params.check()
    return await gateway.ask(params, console.UndecidedList)


ENDPOINTS: Final = (
    Endpoint(
        method="GET",
        path="/api/v1/groups",
        name="listGroups",
        summary="Consumer groups by name, with lag, clients and dead letters",
        tag="groups",
        handle=_list,
        answer=console.GroupList,
        params=console.ListGroups,
    ),
    Endpoint(
        method="POST",
        path="/api/v1/groups/{group}/reset",
        name="resetGroup",
        summary="Let a group go on from another place of a topic",
        tag="groups",
        handle=_reset,
        answer=console.GroupReset,
        params=GroupName,
        body=GroupPlace,
    ),
    Endpoint(
        method="GET",
        path="/api/v1/groups/{group}/dead-letters",
        name="listDeadLetters",
        summary="What a group could not handle, the newest first",
        tag="groups",
        handle=_dead_letters,
        answer=console.DeadLetterList,
        params=console.ListDeadLetters,
    ),
    Endpoint(
        method="POST",
        path="/api/v1/groups/{group}/dead-letters/{offset}/resend",
        name="resendDeadLetter",
        summary="Send a dead letter again, to its group or to its topic",
        tag="groups",
        handle=_resend,
        answer=console.DeadLetterResent,
        params=LetterName,
        body=Resend,
    ),
    Endpoint(
        method="GET",
        path="/api/v1/transactions",
        name="listTransactions",
        summary="Transactions that nobody has decided, the oldest first",
        tag="groups",
        handle=_undecided,
        answer=console.UndecidedList,
        params=console.ListUndecided,
    ),
)
