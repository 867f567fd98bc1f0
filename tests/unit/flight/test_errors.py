"""What becomes of Flight's own errors."""

import threading
from collections.abc import Iterator

import pytest
from pyarrow import flight
from tests.ports import free_ports
from tests.waiting import wait_until

from dueline.errors import (
    BrokerError,
    Forbidden,
    OutcomeUnknown,
    RemoteProtocolError,
    Unauthenticated,
    Unavailable,
)
from dueline.flight import FlightClient, protocol
from dueline.flight.errors import from_flight, to_flight


@pytest.mark.parametrize(
    "kind",
    [flight.FlightUnavailableError, flight.FlightTimedOutError, flight.FlightCancelledError],
)
def test_what_became_of_a_call_without_an_answer_is_not_known(
    kind: type[flight.FlightError],
) -> None:
    error = from_flight(kind("Socket closed"), "127.0.0.1:1")

    assert isinstance(error, OutcomeUnknown)
    assert isinstance(error, Unavailable)
    assert "127.0.0.1:1" in error.message
    assert "Socket closed" in error.message
    assert "may be done or not" in error.message


def test_another_error_of_flight_is_one_of_the_protocol() -> None:
    assert type(from_flight(flight.FlightInternalError("odd"), "a:1")) is RemoteProtocolError


@pytest.mark.parametrize(
    ("kind", "theirs"),
    [
        (Unauthenticated, flight.FlightUnauthenticatedError),
        (Forbidden, flight.FlightUnauthorizedError),
    ],
)
def test_refusals_are_of_a_kind_that_other_flight_clients_know(
    kind: type[BrokerError], theirs: type[flight.FlightError]
) -> None:
    sent = to_flight(kind("no", reason="why"))

    assert type(sent) is theirs
    found = from_flight(sent, "a:1")
    assert type(found) is kind
    assert found.reason == "why"


class _Slow(flight.FlightServerBase):  # type: ignore[misc]
    """Takes every action, and answers none before it is told to."""

    def __init__(self) -> None:
        super().__init__("grpc+tcp://127.0.0.1:0")
        self.asked = threading.Event()
        self.going_on = threading.Event()

    def do_action(
        self, context: flight.ServerCallContext, action: flight.Action
    ) -> Iterator[flight.Result]:
        self.asked.set()
        self.going_on.wait()
        return iter([])


def test_an_answer_that_does_not_come_in_time_is_no_refusal() -> None:
    """A bulk job's rows may be scheduled all the same."""
    with _Slow() as server, FlightClient(f"127.0.0.1:{server.port}") as client:
        try:
            with pytest.raises(OutcomeUnknown, match="may be done or not"):
                client.call(protocol.PutRows(tokens=("t",)), protocol.RowsPut, timeout_s=2.0)
            wait_until(server.asked.is_set, "the request")
        finally:
            server.going_on.set()


def test_nobody_to_ask_is_a_refusal() -> None:
    (port,) = free_ports(1)

    with FlightClient(f"127.0.0.1:{port}") as client, pytest.raises(Unavailable) as raised:
        client.call(protocol.PutRows(tokens=("t",)), protocol.RowsPut)

    assert type(raised.value) is Unavailable
    assert "is it running" in raised.value.message
