"""What becomes of Flight's own errors."""

import pytest
from pyarrow import flight

from dueline.errors import RemoteProtocolError, Unavailable
from dueline.flight.errors import from_flight


@pytest.mark.parametrize(
    "kind",
    [flight.FlightUnavailableError, flight.FlightTimedOutError, flight.FlightCancelledError],
)
def test_a_call_without_an_answer_means_that_no_broker_is_there(
    kind: type[flight.FlightError],
) -> None:
    error = from_flight(kind("it stops"), "127.0.0.1:1")

    assert type(error) is Unavailable
    assert "127.0.0.1:1" in error.message
    assert "it stops" in error.message


def test_another_error_of_flight_is_one_of_the_protocol() -> None:
    assert type(from_flight(flight.FlightInternalError("odd"), "a:1")) is RemoteProtocolError
