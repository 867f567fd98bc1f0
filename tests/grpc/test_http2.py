"""What HTTP/2 and gRPC promise on the way to the methods: over real sockets, with real clients."""

from __future__ import annotations

import socket
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import h2.config
import h2.connection
import h2.events
import pytest
from tests.grpc.broker import TestBroker
from tests.grpc.calls import Caller, serves
from tests.waiting import PATIENCE_S, wait_until

import grpc
from dueline.server.grpc.framing import framed
from dueline.server.grpc.options import GrpcOptions
from dueline.server.grpc.schema import SERVICE
from dueline.server.grpc.stubs import message_class

OK = 20000


class Raw:
    """A client that decides for itself how much it takes."""

    def __init__(self, port: int, *, window: int) -> None:
        self.socket = socket.create_connection(("127.0.0.1", port), timeout=PATIENCE_S)
        self.http2 = h2.connection.H2Connection(h2.config.H2Configuration(client_side=True))
        self.http2.initiate_connection()
        self.http2.update_settings({h2.settings.SettingCodes.INITIAL_WINDOW_SIZE: window})
        self.flush()

    def flush(self) -> None:
        self.socket.sendall(self.http2.data_to_send())

    def call(self, stream: int, method: str, request: bytes) -> None:
        headers = [
            (":method", "POST"),
            (":scheme", "http"),
            (":path", f"/{SERVICE}/{method}"),
            (":authority", "localhost"),
            ("te", "trailers"),
            ("content-type", "application/grpc"),
            ("x-mq-client-id", "raw"),
        ]
        self.http2.send_headers(stream, headers)
        self.http2.send_data(stream, framed(request), end_stream=True)
        self.flush()

    def wait_event(self, kind: type) -> object:
        """Until there is one of this kind."""
        while data := self.socket.recv(65_536):
            for event in self.http2.receive_data(data):
                if isinstance(event, kind):
                    return event
        raise AssertionError("the broker closed")


@contextmanager
def raw(broker: TestBroker, *, window: int) -> Iterator[Raw]:
    client = Raw(broker.server.port, window=window)
    with client.socket:
        yield client


def receive(topic: str) -> bytes:
    request = message_class("ReceiveMessageRequest")(
        group={"name": "g"},
        message_queue={"topic": {"name": topic}},
        filter_expression={"type": 1, "expression": "*"},
        batch_size=32,
        invisible_duration={"seconds": 600},
        long_polling_timeout={"seconds": 5},
    )
    return bytes(request.SerializeToString())


@pytest.mark.parametrize("end", ["reset", "close"])
def test_messages_that_a_client_does_not_take_are_given_back(
    broker: TestBroker, caller: Caller, topic: str, end: str
) -> None:
    """It opens its window by ten bytes, and goes: the messages are another's at once."""
    caller.send(topic, *({"body": b"x" * 1_000} for _ in range(5)))
    listener = broker.server.listener
    assert listener is not None
    with raw(broker, window=10) as client:
        client.call(1, "ReceiveMessage", receive(topic))
        client.wait_event(h2.events.DataReceived)
        wait_until(lambda: listener.links.hoard.size_bytes > 4_000, what="an answer that waits")
        assert caller.receive(topic)[1] == []
        if end == "reset":
            client.http2.reset_stream(1, error_code=8)
            client.flush()
            _, messages = caller.receive(topic, long_polling_timeout={"seconds": 10})
    if end == "close":
        _, messages = caller.receive(topic, long_polling_timeout={"seconds": 10})

    assert len(messages) >= 1
    assert {message.system_properties.delivery_attempt for message in messages} == {1}
    wait_until(lambda: listener.links.hoard.size_bytes == 0, what="nothing kept")


def test_a_client_that_takes_an_answer_byte_by_byte_gets_all_of_it(
    broker: TestBroker, caller: Caller, topic: str
) -> None:
    caller.send(topic, {"body": b"x" * 300})
    with raw(broker, window=1) as client:
        client.call(1, "ReceiveMessage", receive(topic))
        data, is_over = b"", False
        while not is_over:
            events = client.http2.receive_data(client.socket.recv(65_536))
            is_over = any(isinstance(each, h2.events.StreamEnded) for each in events)
            for event in events:
                if isinstance(event, h2.events.DataReceived):
                    data += event.data
                    if not is_over:
                        client.http2.increment_flow_control_window(1, 1)
            client.flush()

    assert b"x" * 300 in data


def test_compressed_requests_are_understood(caller: Caller, topic: str) -> None:
    stub = caller._stub("unary_unary", "SendMessage")
    message = {
        "topic": {"name": topic},
        "body": b"again and " * 1_000,
        "system_properties": {"message_id": "i", "message_type": 1},
    }
    request = message_class("SendMessageRequest")(messages=[message])
    for compression in (grpc.Compression.Gzip, grpc.Compression.Deflate):
        answer = stub(
            request, metadata=[("x-mq-client-id", "c")], compression=compression, timeout=PATIENCE_S
        )
        assert answer.status.code == OK

    assert [each.body for each in caller.receive(topic)[1]] == [b"again and " * 1_000] * 2


def test_what_grpc_itself_refuses_has_its_codes(caller: Caller, topic: str) -> None:
    def code(call: grpc.UnaryUnaryMultiCallable, **options: object) -> grpc.StatusCode:
        with pytest.raises(grpc.RpcError) as caught:
            call(b"", timeout=PATIENCE_S, **options)
        found: grpc.StatusCode = caught.value.code()
        return found

    channel = caller.channel
    missing = channel.unary_unary(f"/{SERVICE}/SyncLiteSubscription")
    assert code(missing) is grpc.StatusCode.UNIMPLEMENTED
    assert code(channel.unary_unary("/other.Service/Call")) is grpc.StatusCode.UNIMPLEMENTED
    huge = [(f"x-{number}", "v" * 1_000) for number in range(20)]
    route = channel.unary_unary(f"/{SERVICE}/QueryRoute")
    assert code(route, metadata=huge) is grpc.StatusCode.RESOURCE_EXHAUSTED
    assert serves(caller, topic)


def test_large_messages_pass_both_ways(caller: Caller, topic: str) -> None:
    body = bytes(range(256)) * 16_000  # as much as gRPC for Python takes in one message
    assert caller.send(topic, {"body": body}).status.code == OK

    (message,) = caller.receive(topic)[1]

    assert message.body == body


def test_a_request_beyond_every_bound_is_refused_and_nobody_else_notices(
    caller: Caller, topic: str
) -> None:
    with pytest.raises(grpc.RpcError) as caught:
        caller.send(topic, *({"body": bytes(4 << 20)} for _ in range(5)))

    assert caught.value.code() is grpc.StatusCode.RESOURCE_EXHAUSTED
    assert serves(caller, topic)


def test_clients_are_told_when_the_broker_stops(tmp_path: Path) -> None:
    with TestBroker(tmp_path, GrpcOptions(address="127.0.0.1:0")) as broker:
        client = Raw(broker.server.port, window=65_535)
        client.call(1, "QueryRoute", b"")
        client.wait_event(h2.events.StreamEnded)

    with client.socket:
        event = client.wait_event(h2.events.ConnectionTerminated)
        assert isinstance(event, h2.events.ConnectionTerminated)
        assert event.error_code == 0
        assert client.socket.recv(1) == b""
