"""A bare client: single calls by name, with requests as dictionaries."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from types import TracebackType
from typing import Any, Self

from tests.waiting import PATIENCE_S

import grpc
from dueline.server.grpc.schema import METHODS, SERVICE
from dueline.server.grpc.stubs import message_class


class Caller:
    """One client id on one channel; leave the `with` block and the channel is closed."""

    def __init__(
        self,
        endpoint: str,
        *,
        client_id: str | None = "caller",
        credentials: grpc.ChannelCredentials | None = None,
    ) -> None:
        options = [("grpc.use_local_subchannel_pool", 1)]
        self.channel = (
            grpc.insecure_channel(endpoint, options=options)
            if credentials is None
            else grpc.secure_channel(endpoint, credentials, options=options)
        )
        self._metadata = [] if client_id is None else [("x-mq-client-id", client_id)]

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.channel.close()

    def call(self, method: str, **fields: Any) -> Any:
        """One call, one answer."""
        request = message_class(METHODS[method][0])(**fields)
        return self._stub("unary_unary", method)(
            request, metadata=self._metadata, timeout=PATIENCE_S
        )

    def stream(self, method: str, *, timeout_s: float = PATIENCE_S, **fields: Any) -> Any:
        """One call, a stream of answers."""
        request = message_class(METHODS[method][0])(**fields)
        return self._stub("unary_stream", method)(
            request, metadata=self._metadata, timeout=timeout_s
        )

    def telemetry(self, commands: Iterator[Any]) -> Any:
        return self._stub("stream_stream", "Telemetry")(commands, metadata=self._metadata)

    # Shorter words for what every test does

    def send(self, topic: str, *messages: dict[str, Any]) -> Any:
        made = [
            {
                "topic": {"name": topic},
                "body": each.get("body", b"x"),
                "user_properties": each.get("user_properties", {}),
                "system_properties": {
                    "message_id": "id",
                    "message_type": 1,
                    **each.get("system", {}),
                },
            }
            for each in messages
        ]
        return self.call("SendMessage", messages=made)

    def receive(self, topic: str, group: str = "g", **fields: Any) -> tuple[int, list[Any]]:
        """The status code and the messages of one receive."""
        answers = list(
            self.stream(
                "ReceiveMessage",
                **{
                    "group": {"name": group},
                    "message_queue": {"topic": {"name": topic}},
                    "filter_expression": {"type": 1, "expression": "*"},
                    "batch_size": 32,
                    "invisible_duration": {"seconds": 10},
                    "long_polling_timeout": {"seconds": 0},
                    **fields,
                },
            )
        )
        messages = [each.message for each in answers if each.WhichOneof("content") == "message"]
        return answers[0].status.code, messages

    def ack(self, topic: str, message: Any, group: str = "g") -> int:
        return int(self.ack_handle(topic, message.system_properties.receipt_handle, group))

    def ack_handle(self, topic: str, handle: str, group: str = "g") -> int:
        answer = self.call(
            "AckMessage",
            group={"name": group},
            topic={"name": topic},
            entries=[{"message_id": "id", "receipt_handle": handle}],
        )
        assert answer.entries[0].status.code == answer.status.code
        return int(answer.status.code)

    def _stub(self, kind: str, method: str) -> Any:
        answer = message_class(METHODS[method][1].removeprefix("*"))
        request = message_class(METHODS[method][0].removeprefix("*"))
        return getattr(self.channel, kind)(
            f"/{SERVICE}/{method}",
            request_serializer=request.SerializeToString,
            response_deserializer=answer.FromString,
        )


def held_open(*commands: Any, end: threading.Event) -> Iterator[Any]:
    """A stream's requests: some commands, then silence."""
    yield from commands
    end.wait()


def serves(caller: Caller, topic: str) -> bool:
    """Can somebody else send and receive?"""
    caller.send(topic, {"body": b"alive"})
    _, messages = caller.receive(topic, long_polling_timeout={"seconds": 5})
    return [message.body for message in messages] == [b"alive"] and all(
        caller.ack(topic, message) == 20000 for message in messages
    )
