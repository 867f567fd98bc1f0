"""All methods of the protocol under their names, as gRPC handlers.

A handler turns errors into the `Status` of an answer and nothing else: a client that gets a gRPC
error instead takes the whole broker for broken. What is no error of ours is logged with its
traceback, and the client is told that it is our fault.
"""

from __future__ import annotations

import logging
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Any, Final

import grpc
from dueline.errors import BrokerError
from dueline.server.grpc.codes import Code, Refused, status
from dueline.server.grpc.parts import Parts
from dueline.server.grpc.receiving import Receiving
from dueline.server.grpc.routes import Routes
from dueline.server.grpc.schema import METHODS, SERVICE
from dueline.server.grpc.sending import Sending
from dueline.server.grpc.stubs import message_class
from dueline.server.grpc.telemetry import Telemetry
from dueline.server.grpc.transactions import GrpcTransactions

__all__ = ["MessagingService"]

Unary = Callable[[Any, Any], Awaitable[Any]]

log = logging.getLogger(__name__)


class MessagingService:
    """The service; `handler` is what a gRPC server wants."""

    def __init__(self, parts: Parts) -> None:
        routes = Routes(parts)
        sending = Sending(parts, routes)
        receiving = Receiving(parts, routes)
        telemetry = Telemetry(parts)
        self.transactions: Final = GrpcTransactions(parts)
        self._unary: Final[dict[str, Unary]] = {
            "QueryRoute": routes.query_route,
            "QueryAssignment": routes.query_assignment,
            "Heartbeat": telemetry.heartbeat,
            "SendMessage": sending.send_message,
            "RecallMessage": sending.recall_message,
            "AckMessage": receiving.ack_message,
            "ChangeInvisibleDuration": receiving.change_invisible_duration,
            "ForwardMessageToDeadLetterQueue": receiving.forward_message_to_dead_letter_queue,
            "EndTransaction": self.transactions.end_transaction,
            "NotifyClientTermination": telemetry.notify_client_termination,
        }
        self._receive = receiving.receive_message
        self._telemetry = telemetry.telemetry

    def handler(self) -> Any:
        handlers = {name: self._handler(name) for name in METHODS}
        return grpc.method_handlers_generic_handler(SERVICE, handlers)

    def _handler(self, name: str) -> Any:
        request_name, answer_name = METHODS[name]
        request_class = message_class(request_name.removeprefix("*"))
        answer_class = message_class(answer_name.removeprefix("*"))
        codecs = {
            "request_deserializer": request_class.FromString,
            "response_serializer": answer_class.SerializeToString,
        }
        if name == "Telemetry":
            return grpc.stream_stream_rpc_method_handler(self._telemetry, **codecs)
        if name == "ReceiveMessage":
            return grpc.unary_stream_rpc_method_handler(self._receiving(answer_class), **codecs)
        if answer_name.startswith("*"):
            return grpc.unary_stream_rpc_method_handler(_refuse_stream(answer_class), **codecs)
        method = self._unary.get(name, _refuse)
        return grpc.unary_unary_rpc_method_handler(_guarded(name, method, answer_class), **codecs)

    def _receiving(self, answer_class: Any) -> Callable[[Any, Any], AsyncIterator[Any]]:
        receive = self._receive

        async def call(request: Any, context: Any) -> AsyncIterator[Any]:
            try:
                async for answer in receive(request, context):
                    yield answer
            except Exception as error:
                log.exception("ReceiveMessage failed")
                yield answer_class(status=status(error))

        return call


def _guarded(name: str, method: Unary, answer_class: Any) -> Unary:
    """The method, with errors as its answer's status."""

    async def call(request: Any, context: Any) -> Any:
        try:
            return await method(request, context)
        except BrokerError as error:
            return answer_class(status=status(error))
        except Exception as error:
            log.exception("%s failed", name)
            return answer_class(status=status(error))

    return call


async def _refuse(request: Any, context: Any) -> Any:
    raise Refused(Code.NOT_IMPLEMENTED, "this broker does not offer that method")


def _refuse_stream(answer_class: Any) -> Callable[[Any, Any], AsyncIterator[Any]]:
    async def call(request: Any, context: Any) -> AsyncIterator[Any]:
        error = Refused(Code.NOT_IMPLEMENTED, "this broker does not offer that method")
        yield answer_class(status=status(error))

    return call
