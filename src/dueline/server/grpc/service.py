"""All methods of the protocol under their names, and the one way that every call takes to them.

    Link ──▶ serve ──▶ read the request ──▶ admit ──▶ a share of calls ──▶ the method ──▶ answer

Errors become the `Status` of an answer and nothing else: a client that gets an error of gRPC's own
takes the whole broker for broken. What is no error of ours is logged with its traceback, and the
client is told that it is our fault.

A method that is called for every message (`_direct`) answers by itself, from a callback; the others
are coroutines, and each of their calls is a task.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator, Awaitable, Callable
from dataclasses import dataclass
from functools import partial
from typing import Any, Final

from google.protobuf.message import DecodeError

from dueline.errors import BrokerError, LimitExceeded
from dueline.server.grpc.call import Call
from dueline.server.grpc.codes import Code, Refused, status
from dueline.server.grpc.framing import GrpcStatus
from dueline.server.grpc.offsets import GrpcOffsets
from dueline.server.grpc.parts import Parts
from dueline.server.grpc.receiving import GrpcReceiving
from dueline.server.grpc.reception import Refusal
from dueline.server.grpc.routes import Routes
from dueline.server.grpc.schema import METHODS, SERVICE
from dueline.server.grpc.sending import GrpcSending
from dueline.server.grpc.stubs import message_class
from dueline.server.grpc.telemetry import Telemetry
from dueline.server.grpc.transactions import GrpcTransactions

__all__ = ["MessagingService"]

Direct = Callable[[Any, Call], None]
"""Answers by itself, now or later."""
Unary = Callable[[Any, Call], Awaitable[Any]]
"""Returns its answer."""
Stream = Callable[[Any, Call], Awaitable[None]]
"""Writes its answers."""

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Method:
    read: Callable[[bytes], Any]
    answer: Any
    """The class of its answers, which all have a status."""
    takes_stream: bool


class MessagingService:
    """The service."""

    def __init__(self, parts: Parts) -> None:
        self._parts = parts
        routes = Routes(parts)
        sending = GrpcSending(parts)
        receiving = GrpcReceiving(parts, routes)
        offsets = GrpcOffsets(parts, routes)
        telemetry = Telemetry(parts)
        transactions = GrpcTransactions(parts)
        self._direct: Final[dict[str, Direct]] = {
            "SendMessage": sending.send_message,
            "AckMessage": receiving.ack_message,
        }
        self._unary: Final[dict[str, Unary]] = {
            "QueryRoute": routes.query_route,
            "QueryAssignment": routes.query_assignment,
            "Heartbeat": telemetry.heartbeat,
            "RecallMessage": sending.recall_message,
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
        self._methods: Final = {name: _method(name) for name in METHODS}
        self._tasks: set[asyncio.Task[None]] = set()

    def takes_stream(self, method: str) -> bool:
        """Does a method take a stream of requests?

        Raises:
            Refusal: there is no such method.
        """
        found = self._methods.get(method)
        if found is None:
            raise Refusal(
                f"expected a method of {SERVICE}, found {method[:200]!r}",
                status=GrpcStatus.UNIMPLEMENTED,
            )
        return found.takes_stream

    def serve(self, call: Call, request: bytes | None) -> None:
        """Every call comes by here: with its whole request, or with a stream of them (None)."""
        method = self._methods[call.method]
        try:
            message = None if request is None else method.read(request)
            self.admit(call, message)
            self._begin(call, message)
        except BrokerError as error:
            self._refuse(call, error)
        except Exception as error:
            log.exception("%s failed", call.method)
            self._refuse(call, error)

    def admit(self, call: Call, request: Any) -> None:
        """May this be asked, by this client? Nothing has been done for the call yet.

        `call.method` is what it wants, `call.metadata` what it says about itself, `call.peer` where
        it comes from; the request is read, and None for a stream of them. Who is refused is told
        with the status of the error.

        Raises:
            BrokerError: no.
        """
        peer = call.peer
        call.caller = self._parts.guard.admit(
            call.method, call.metadata, peer.host, request, certificate=peer.certificate
        )

    def _begin(self, call: Call, request: Any) -> None:
        name = call.method
        if name in self._direct:
            call.on_over(call.peer.take(self._parts.calls).leave)
            self._direct[name](request, call)
        elif name in self._unary:
            call.on_over(call.peer.take(self._parts.calls).leave)
            self._start(call, partial(self._answered, self._unary[name], request, call))
        elif name in self._streams:
            self._start(call, partial(self._streams[name], request, call))
        else:
            call.on_over(call.peer.take(self._parts.calls, lambda: self._make_room(call)).leave)
            self._start(call, lambda: self._telemetry(self._commands(call), call))

    def _start(self, call: Call, work: Callable[[], Awaitable[None]]) -> None:
        task = asyncio.get_running_loop().create_task(self._run(call, work))
        call.task = task
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _run(self, call: Call, work: Callable[[], Awaitable[None]]) -> None:
        try:
            await work()
            call.finish()
            await call.flushed()
        except BrokerError as error:
            self._refuse(call, error)
        except Exception as error:
            log.exception("%s failed", call.method)
            self._refuse(call, error)

    async def _answered(self, method: Unary, request: Any, call: Call) -> None:
        call.write(await method(request, call))
        self._parts.guard.note(call.caller, call.method, request)

    async def _commands(self, call: Call) -> AsyncIterator[Any]:
        """The requests of a stream, which ends at the first that is none."""
        read = self._methods[call.method].read
        async for data in call.requests():
            command = read(data)
            self.admit(call, command)
            yield command

    def _refuse(self, call: Call, error: Exception) -> None:
        call.answer(self._methods[call.method].answer(status=status(error)))

    def _make_room(self, call: Call) -> None:
        """A stream may last for ever: another client needs its place."""
        task = call.task
        self._refuse(
            call, LimitExceeded("streams: another client needs the place; come again later")
        )
        if task is not None:
            task.cancel()


def _method(name: str) -> _Method:
    request_name, answer_name = METHODS[name]
    return _Method(
        read=_reader(message_class(request_name.removeprefix("*"))),
        answer=message_class(answer_name.removeprefix("*")),
        takes_stream=request_name.startswith("*"),
    )


def _reader(request_class: Any) -> Callable[[bytes], Any]:
    """Bytes to a request.

    Raises:
        Refused: they are none.
    """

    def read(data: bytes) -> Any:
        try:
            return request_class.FromString(data)
        except DecodeError as error:
            name = request_class.DESCRIPTOR.name
            raise Refused(
                Code.BAD_REQUEST, f"request: expected a {name}, found: {error}"
            ) from error

    return read
