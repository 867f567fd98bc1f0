"""All methods of the protocol under their names, as gRPC handlers.

A handler turns errors into the `Status` of an answer and nothing else: a client that gets a gRPC
error instead takes the whole broker for broken. What is no error of ours is logged with its
traceback, and the client is told that it is our fault.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Any, Final

from google.protobuf.message import DecodeError

import grpc
from dueline.errors import BrokerError, LimitExceeded
from dueline.server.grpc.codes import Code, Refused, status
from dueline.server.grpc.offsets import GrpcOffsets
from dueline.server.grpc.parts import Parts
from dueline.server.grpc.receiving import GrpcReceiving
from dueline.server.grpc.routes import Routes
from dueline.server.grpc.schema import METHODS, SERVICE
from dueline.server.grpc.sending import GrpcSending
from dueline.server.grpc.stubs import message_class
from dueline.server.grpc.telemetry import Telemetry
from dueline.server.grpc.transactions import GrpcTransactions

__all__ = ["MessagingService"]

Unary = Callable[[Any, Any], Awaitable[Any]]
Stream = Callable[[Any, Any], AsyncIterator[Any]]
Commands = Callable[[Any, Any], Awaitable[None]]

log = logging.getLogger(__name__)


class MessagingService:
    """The service; `handler` is what a gRPC server wants."""

    def __init__(self, parts: Parts) -> None:
        self._parts = parts
        routes = Routes(parts)
        sending = GrpcSending(parts)
        receiving = GrpcReceiving(parts, routes)
        offsets = GrpcOffsets(parts, routes)
        telemetry = Telemetry(parts)
        transactions = GrpcTransactions(parts)
        self._unary: Final[dict[str, Unary]] = {
            "QueryRoute": routes.query_route,
            "QueryAssignment": routes.query_assignment,
            "Heartbeat": telemetry.heartbeat,
            "SendMessage": sending.send_message,
            "RecallMessage": sending.recall_message,
            "AckMessage": receiving.ack_message,
            "ChangeInvisibleDuration": receiving.change_invisible_duration,
            "ForwardMessageToDeadLetterQueue": receiving.forward_message_to_dead_letter_queue,
            "EndTransaction": transactions.end_transaction,
            "NotifyClientTermination": telemetry.notify_client_termination,
            "GetOffset": offsets.get_offset,
            "UpdateOffset": offsets.update_offset,
            "QueryOffset": offsets.query_offset,
        }
        self._streams: Final[dict[str, Stream]] = {
            "ReceiveMessage": receiving.receive_message,
            "PullMessage": offsets.pull_message,
        }
        self._telemetry = telemetry.telemetry

    def handler(self) -> Any:
        handlers = {name: self._handler(name) for name in METHODS}
        return grpc.method_handlers_generic_handler(SERVICE, handlers)

    def _handler(self, name: str) -> Any:
        request_name, answer_name = METHODS[name]
        request_class = message_class(request_name.removeprefix("*"))
        answer_class = message_class(answer_name.removeprefix("*"))
        codecs = {
            "request_deserializer": _reader(request_class),
            "response_serializer": answer_class.SerializeToString,
        }
        if name == "Telemetry":
            commands = _guarded_commands(self._parts, self._telemetry, answer_class)
            return grpc.stream_stream_rpc_method_handler(commands, **codecs)
        if name in self._streams:
            stream = _guarded_stream(name, self._streams[name], answer_class)
            return grpc.unary_stream_rpc_method_handler(stream, **codecs)
        unary = _guarded(self._parts, name, self._unary[name], answer_class)
        return grpc.unary_unary_rpc_method_handler(unary, **codecs)


def _reader(request_class: Any) -> Callable[[bytes], Any]:
    """Bytes to a request, or to why they are none: gRPC would log a traceback for each."""

    def read(data: bytes) -> Any:
        try:
            return request_class.FromString(data)
        except DecodeError as error:
            name = request_class.DESCRIPTOR.name
            return Refused(Code.BAD_REQUEST, f"request: expected a {name}, found: {error}")

    return read


def _guarded(parts: Parts, name: str, method: Unary, answer_class: Any) -> Unary:
    """The method, with errors as its answer's status."""

    async def call(request: Any, context: Any) -> Any:
        if isinstance(request, Refused):
            return answer_class(status=status(request))
        try:
            with parts.peers(context.peer()).take(parts.calls):
                return await method(request, context)
        except BrokerError as error:
            return answer_class(status=status(error))
        except Exception as error:
            log.exception("%s failed", name)
            return answer_class(status=status(error))

    return call


def _guarded_stream(name: str, method: Stream, answer_class: Any) -> Stream:
    """The same for a method that answers with a stream."""

    async def call(request: Any, context: Any) -> AsyncIterator[Any]:
        if isinstance(request, Refused):
            yield answer_class(status=status(request))
            return
        try:
            async for answer in method(request, context):
                yield answer
        except Exception as error:
            log.exception("%s failed", name)
            yield answer_class(status=status(error))

    return call


def _guarded_commands(parts: Parts, method: Commands, answer_class: Any) -> Commands:
    """The same for a stream of requests, which ends at the first that is none."""

    async def call(requests: Any, context: Any) -> None:
        unread: list[Refused] = []

        async def read() -> AsyncIterator[Any]:
            async for request in requests:
                if isinstance(request, Refused):
                    unread.append(request)
                    return
                yield request

        try:
            await _as_long_as_there_is_room(parts, context, method(read(), context))
        except BrokerError as error:
            await context.write(answer_class(status=status(error)))
        for each in unread:
            await context.write(answer_class(status=status(each)))

    return call


async def _as_long_as_there_is_room(parts: Parts, context: Any, stream: Awaitable[None]) -> None:
    """A stream that may last for ever, until another client needs its place.

    Raises:
        LimitExceeded: one does.
    """
    running = asyncio.ensure_future(stream)
    ended: list[LimitExceeded] = []

    def give_up() -> None:
        ended.append(LimitExceeded("streams: another client needs the place; come again later"))
        running.cancel()

    try:
        with parts.peers(context.peer()).take(parts.calls, give_up):
            await running
    except asyncio.CancelledError:
        if ended:
            raise ended[0] from None
        raise
    finally:
        running.cancel()
