"""EndTransaction, and asking producers about messages they left undecided.

A transaction's id is the offset id of its half message. Producers of this protocol have no group:
any client that publishes to the message's topic may be asked, over its telemetry stream, and
decides by EndTransaction as its first sender would.
"""

from __future__ import annotations

import asyncio
import logging
from typing import Any, Final

from dueline.broker.transactions import Half
from dueline.errors import InvalidRequest, NotFound
from dueline.message import decode_properties, parse_message_id
from dueline.server.grpc.clients import Client
from dueline.server.grpc.codes import Code, Refused, ok
from dueline.server.grpc.convert import plain_proto, shown_name
from dueline.server.grpc.parts import Parts
from dueline.server.grpc.routes import topic_of
from dueline.server.grpc.schema import ENUMS
from dueline.server.grpc.stubs import message_class

__all__ = ["GrpcTransactions"]

_EndResponse: Final = message_class("EndTransactionResponse")
_Command: Final = message_class("TelemetryCommand")
_Resource: Final = message_class("Resource")
_COMMIT: Final = ENUMS["TransactionResolution"]["COMMIT"]
_ROLLBACK: Final = ENUMS["TransactionResolution"]["ROLLBACK"]

LOOK_AGAIN_MS: Final = 1_000
"""After nobody was there to be asked."""

log = logging.getLogger(__name__)


class GrpcTransactions:
    """The methods about transactions."""

    def __init__(self, parts: Parts) -> None:
        self._parts = parts

    async def end_transaction(self, request: Any, context: Any) -> Any:
        topic_of(request.topic)
        if request.resolution not in (_COMMIT, _ROLLBACK):
            raise Refused(
                Code.BAD_REQUEST,
                f"resolution: expected COMMIT or ROLLBACK, found {request.resolution}",
            )
        try:
            position = parse_message_id(request.transaction_id)[1]
            await self._ended(position, commit=request.resolution == _COMMIT)
        except (InvalidRequest, NotFound) as error:
            raise Refused(
                Code.INVALID_TRANSACTION_ID, f"transaction id: {error.message}"
            ) from error
        return _EndResponse(status=ok())

    async def _ended(self, position: int, *, commit: bool) -> None:
        loop = asyncio.get_running_loop()
        answer: asyncio.Future[None] = loop.create_future()

        def resolve(error: BaseException | None) -> None:
            if answer.done():
                return
            if error is None:
                answer.set_result(None)
            else:
                answer.set_exception(error)

        def done(error: BaseException | None) -> None:
            loop.call_soon_threadsafe(resolve, error)

        transactions = self._parts.broker.transactions
        await self._parts.off_loop(
            lambda: transactions.end(position, commit=commit, group="", done=done)
        )
        await answer

    # Asking

    def due(self, now_ms: int) -> list[Half]:
        """Half messages of this protocol whose producers should be asked now."""
        return self._parts.broker.transactions.due(now_ms, of_topics=True)

    async def ask(self, half: Half, now_ms: int) -> bool:
        """Ask a client what becomes of a message; returns whether the question went out."""
        client = next(iter(self._parts.clients.producers_of(half.topic)), None)
        transactions = self._parts.broker.transactions
        if client is None:
            transactions.put_off(half, now_ms + LOOK_AGAIN_MS)
            return False
        interval_ms = self._parts.broker.options.transactions.ask_interval_ms
        transactions.put_off(half, now_ms + interval_ms)
        try:
            record = await self._parts.off_loop(lambda: transactions.question(half))
        except NotFound:
            return False
        command = _Command(status=ok())
        question = command.recover_orphaned_transaction_command
        question.transaction_id = transactions.offset_id(half)
        properties = decode_properties(record.properties)
        topic = _Resource(
            resource_namespace=client.namespace, name=shown_name(half.topic, client.namespace)
        )
        question.message.CopyFrom(plain_proto(record, properties, topic=topic, due_ms=None))
        transactions.asked(half, now_ms, is_heard=True)
        return await _write(client, command)


async def _write(client: Client, command: Any) -> bool:
    try:
        await client.streams[-1](command)
    except (IndexError, RuntimeError, asyncio.InvalidStateError) as error:
        # The stream ended a moment ago; somebody will be asked next time.
        log.info("a question about a transaction could not be passed on: %s", error)
        return False
    return True
