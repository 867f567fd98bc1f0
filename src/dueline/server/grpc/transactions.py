"""EndTransaction, and asking producers about messages they left undecided.

A transaction's id is the offset id of its half message. Producers of this protocol have no group:
any client that publishes to the message's topic may be asked, over its telemetry stream, and
decides by EndTransaction as its first sender would.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Iterable
from functools import partial
from typing import Any, Final

from dueline.broker.asking import Ask, Question
from dueline.broker.transactions import Half
from dueline.errors import InvalidRequest, LimitExceeded, NotFound
from dueline.message import parse_message_id
from dueline.server.grpc.call import Call
from dueline.server.grpc.clients import Client
from dueline.server.grpc.codes import Code, Refused, ok
from dueline.server.grpc.convert import plain_proto, shown_name
from dueline.server.grpc.parts import Parts, resolve
from dueline.server.grpc.routes import topic_of
from dueline.server.grpc.schema import ENUMS
from dueline.server.grpc.stubs import message_class

__all__ = ["GrpcTransactions"]

_EndResponse: Final = message_class("EndTransactionResponse")
_Command: Final = message_class("TelemetryCommand")
_Resource: Final = message_class("Resource")
_COMMIT: Final = ENUMS["TransactionResolution"]["COMMIT"]
_ROLLBACK: Final = ENUMS["TransactionResolution"]["ROLLBACK"]

log = logging.getLogger(__name__)


class GrpcTransactions:
    """The methods about transactions."""

    def __init__(self, parts: Parts) -> None:
        self._parts = parts
        parts.broker.asking.add_door(self.producers)

    async def end_transaction(self, request: Any, call: Call) -> Any:
        if request.resolution not in (_COMMIT, _ROLLBACK):
            raise Refused(
                Code.BAD_REQUEST,
                f"resolution: expected COMMIT or ROLLBACK, found {request.resolution}",
            )
        try:
            position = parse_message_id(request.transaction_id)[1]
            await self._ended(
                position, commit=request.resolution == _COMMIT, topic=topic_of(request.topic)
            )
        except (InvalidRequest, NotFound) as error:
            raise Refused(
                Code.INVALID_TRANSACTION_ID, f"transaction id: {error.message}"
            ) from error
        return _EndResponse(status=ok())

    async def _ended(self, position: int, *, commit: bool, topic: str) -> None:
        answer: asyncio.Future[None] = asyncio.get_running_loop().create_future()

        def done(error: BaseException | None) -> None:
            self._parts.outbox.post(partial(resolve, answer, error))

        transactions = self._parts.broker.transactions
        await self._parts.off_loop(
            lambda: transactions.end(
                position,
                commit=commit,
                group="",
                done=done,
                admit=partial(_check_topic, topic),
            )
        )
        await answer

    # Asking

    def producers(self, half: Half) -> Iterable[Ask]:
        """Clients that publish to the message's topic; any thread may call."""
        if half.is_of_topic:
            for client in self._parts.clients.producers_of(half.topic):
                yield partial(self._ask, client)

    def _ask(self, client: Client, question: Question) -> None:
        self._parts.outbox.post(partial(_send, client, _command(client, question)))


def _check_topic(said: str, found: str) -> None:
    """The right to end it was asked for the topic that the request names."""
    if said != found:
        raise InvalidRequest(f"expected one of topic {said[:200]}, found one of another topic")


def _command(client: Client, question: Question) -> Any:
    command = _Command(status=ok())
    asked = command.recover_orphaned_transaction_command
    asked.transaction_id = question.offset_id
    topic = _Resource(
        resource_namespace=client.namespace, name=shown_name(question.topic, client.namespace)
    )
    message = plain_proto(question.record, question.properties, topic=topic, due_ms=None)
    asked.message.CopyFrom(message)
    return command


def _send(client: Client, command: Any) -> None:
    try:
        client.streams[-1](command)
    except (IndexError, LimitExceeded) as error:
        # The stream ended a moment ago, or is full; somebody will be asked next time.
        log.info("a question about a transaction could not be passed on: %s", error)
