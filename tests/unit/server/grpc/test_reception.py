"""What the headers of a call ask for."""

from __future__ import annotations

import pytest

from dueline.server.grpc.framing import GrpcStatus
from dueline.server.grpc.reception import KNOWN_COUNT_MAX, Reception, Refusal, trailers
from dueline.wire.http2 import Headers

PATH = "/apache.rocketmq.v2.MessagingService/SendMessage"


def headers(**fields: str) -> Headers:
    named = {name.replace("_", "-"): value for name, value in fields.items()}
    own = {"content-type": "application/grpc", **named}
    method, path = own.pop("method", "POST"), own.pop("path", PATH)
    return ((":method", method), (":scheme", "http"), (":path", path), *own.items())


def test_a_call_is_understood() -> None:
    asked = Reception().ask(headers(grpc_timeout="1500m", authorization="me"))

    assert (asked.method, asked.timeout_s, asked.encoding) == ("SendMessage", 1.5, "identity")
    assert asked.metadata["authorization"] == "me"


@pytest.mark.parametrize(
    ("text", "seconds"),
    [("2H", 7_200), ("3M", 180), ("20S", 20), ("5u", 5e-6), ("99999999n", 0.099999999), ("0m", 0)],
)
def test_timeouts_have_units(text: str, seconds: float) -> None:
    assert Reception().ask(headers(grpc_timeout=text)).timeout_s == pytest.approx(seconds)


@pytest.mark.parametrize("text", ["", "5", "S", "-1S", "123456789S", "1 S", "1s"])
def test_a_timeout_that_is_none_is_refused(text: str) -> None:
    with pytest.raises(Refusal, match="grpc-timeout"):
        Reception().ask(headers(grpc_timeout=text))


def test_what_is_no_call_is_refused() -> None:
    reception = Reception()
    for bad, status in (
        (None, GrpcStatus.RESOURCE_EXHAUSTED),
        (headers(path="/other.Service/SendMessage"), GrpcStatus.UNIMPLEMENTED),
        (headers(method="GET"), GrpcStatus.INTERNAL),
        (headers(content_type="text/html"), GrpcStatus.INTERNAL),
    ):
        with pytest.raises(Refusal) as caught:
            reception.ask(bad)
        assert caught.value.status is status


def test_what_is_known_is_bounded() -> None:
    reception = Reception()
    for number in range(3 * KNOWN_COUNT_MAX):
        reception.ask(headers(x_request_id=str(number)))

    assert len(reception._known) <= KNOWN_COUNT_MAX


def test_words_are_written_as_grpc_wants_them() -> None:
    assert trailers(GrpcStatus.OK) == b"\x00\x0bgrpc-status\x010"
    assert trailers(GrpcStatus.INTERNAL, "a%b ü\n").endswith(b"\x0fa%25b %C3%BC%0A")
