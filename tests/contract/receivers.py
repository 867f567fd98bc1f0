"""Both ways to receive and acknowledge, behind one face: POP of 4.x and the messages of 5.x."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Any, Protocol

from tests.grpc.calls import Caller
from tests.remoting.peer import Peer, properties_of, records_of

from dueline.server.process import BrokerProcess
from dueline.wire import Command, RequestCode

OK_4X, EMPTY_4X, OK_5X, EMPTY_5X = 0, 210, 20_000, 40_401


class Refusal(Exception):
    """The door has refused, and says why."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Ask:
    """What a consumer asks for."""

    topic: str
    group: str
    count: int = 32
    invisible_ms: int = 60_000
    wait_ms: int = 0
    tags: str = "*"


@dataclass(frozen=True, slots=True, kw_only=True)
class Got:
    """A received message."""

    ask: Ask
    body: bytes
    attempt: int
    queue_id: int
    offset: int
    receipt: str


class Receiver(Protocol):
    """A client of one door."""

    def receive(self, ask: Ask) -> list[Got]: ...

    def acknowledge(self, got: Sequence[Got]) -> None: ...

    def extend(self, got: Got, invisible_ms: int) -> Got: ...


class Pop4x:
    """A POP consumer of the 4.x protocol."""

    def __init__(self, peer: Peer) -> None:
        self._peer = peer

    def receive(self, ask: Ask) -> list[Got]:
        ext = {
            "consumerGroup": ask.group,
            "topic": ask.topic,
            "queueId": "-1",
            "maxMsgNums": str(ask.count),
            "invisibleTime": str(ask.invisible_ms),
            "pollTime": str(ask.wait_ms),
            "bornTime": "0",
            "initMode": "0",
            "expType": "TAG",
            "exp": ask.tags,
        }
        answer = self._peer.call(RequestCode.POP_MESSAGE, ext)
        if answer.code == EMPTY_4X:
            return []
        _check_4x(answer)
        return [
            Got(
                ask=ask,
                body=record.body,
                attempt=record.reconsume_times + 1,
                queue_id=record.queue_id,
                offset=record.queue_offset,
                receipt=properties_of(record)["POP_CK"],
            )
            for record in records_of(answer)
        ]

    def acknowledge(self, got: Sequence[Got]) -> None:
        if len(got) == 1:
            _check_4x(self._peer.call(RequestCode.ACK_MESSAGE, _receipt_ext(got[0])))
            return
        body = json.dumps({"brokerName": "dueline", "acks": [_ack_entry(each) for each in got]})
        _check_4x(self._peer.call(RequestCode.BATCH_ACK_MESSAGE, {}, body.encode()))

    def extend(self, got: Got, invisible_ms: int) -> Got:
        ext = {**_receipt_ext(got), "invisibleTime": str(invisible_ms)}
        answer = self._peer.call(RequestCode.CHANGE_MESSAGE_INVISIBLE_TIME, ext)
        _check_4x(answer)
        words = got.receipt.split(" ")
        words[1:4] = [answer.ext[name] for name in ("popTime", "invisibleTime", "reviveQid")]
        return replace(got, receipt=" ".join(words))


def _check_4x(answer: Command) -> None:
    if answer.code != OK_4X:
        raise Refusal(f"{answer.code}: {answer.remark}")


def _receipt_ext(got: Got) -> dict[str, str]:
    return {
        "consumerGroup": got.ask.group,
        "topic": got.ask.topic,
        "queueId": str(got.queue_id),
        "extraInfo": got.receipt,
        "offset": str(got.offset),
    }


def _ack_entry(got: Got) -> dict[str, object]:
    start, pop_time, invisible, revive, retry, _, queue, _ = got.receipt.split(" ")
    numbers = {"so": start, "q": queue, "rq": revive, "pt": pop_time, "it": invisible}
    own = {name: int(value) for name, value in numbers.items()}
    return {"c": got.ask.group, "t": got.ask.topic, "r": retry, **own, "b": "AQ=="}


class Grpc5x:
    """A simple consumer of the 5.x protocol."""

    def __init__(self, caller: Caller) -> None:
        self._caller = caller

    def receive(self, ask: Ask) -> list[Got]:
        code, messages = self._caller.receive(
            ask.topic,
            ask.group,
            batch_size=ask.count,
            invisible_duration=_duration(ask.invisible_ms),
            long_polling_timeout=_duration(ask.wait_ms),
            filter_expression={"type": 1, "expression": ask.tags},
        )
        if code not in (OK_5X, EMPTY_5X):
            raise Refusal(str(code))
        return [_got_5x(ask, message) for message in messages]

    def acknowledge(self, got: Sequence[Got]) -> None:
        answer = self._caller.call(
            "AckMessage",
            group={"name": got[0].ask.group},
            topic={"name": got[0].ask.topic},
            entries=[{"message_id": "id", "receipt_handle": each.receipt} for each in got],
        )
        _check_5x(answer.status)

    def extend(self, got: Got, invisible_ms: int) -> Got:
        answer = self._caller.call(
            "ChangeInvisibleDuration",
            group={"name": got.ask.group},
            topic={"name": got.ask.topic},
            receipt_handle=got.receipt,
            invisible_duration=_duration(invisible_ms),
        )
        _check_5x(answer.status)
        return replace(got, receipt=answer.receipt_handle)


def _got_5x(ask: Ask, message: Any) -> Got:
    system = message.system_properties
    return Got(
        ask=ask,
        body=message.body,
        attempt=system.delivery_attempt,
        queue_id=system.queue_id,
        offset=system.queue_offset,
        receipt=system.receipt_handle,
    )


def _check_5x(status: Any) -> None:
    if status.code != OK_5X:
        raise Refusal(f"{status.code}: {status.message}")


def _duration(milliseconds: int) -> dict[str, int]:
    seconds, rest_ms = divmod(milliseconds, 1_000)
    if seconds < 0 < rest_ms:  # both parts of a duration have one sign
        seconds, rest_ms = seconds + 1, rest_ms - 1_000
    return {"seconds": seconds, "nanos": rest_ms * 1_000_000}


@contextmanager
def peer_of(broker: BrokerProcess) -> Iterator[Peer]:
    listener = broker.remoting_options.broker
    assert listener is not None
    with Peer(f"127.0.0.1:{listener.port}") as peer:
        yield peer


@contextmanager
def pop_4x(broker: BrokerProcess) -> Iterator[Receiver]:
    with peer_of(broker) as peer:
        yield Pop4x(peer)


@contextmanager
def grpc_5x(broker: BrokerProcess) -> Iterator[Receiver]:
    with Caller(f"127.0.0.1:{broker.grpc.port}") as caller:
        yield Grpc5x(caller)


RECEIVERS = {"4.x POP": pop_4x, "5.x": grpc_5x}
