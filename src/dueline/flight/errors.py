"""Our errors across Flight: out as JSON in the status's extra information, in as the same classes.

gRPC has its own few codes; the table below picks one, so that foreign Flight clients see a fitting
kind. Our client looks only at the JSON.
"""

from __future__ import annotations

import json
from typing import Final

import pyarrow as pa
from pyarrow import flight

from dueline import errors
from dueline.errors import BrokerError, RemoteProtocolError, Unanswered, Unavailable

__all__ = ["from_flight", "to_flight"]

_FLIGHT_ERRORS: Final[dict[type[BrokerError], type[flight.FlightError]]] = {
    errors.Unauthenticated: flight.FlightUnauthenticatedError,
    errors.Forbidden: flight.FlightUnauthorizedError,
    errors.OutcomeUnknown: flight.FlightInternalError,
    errors.Unavailable: flight.FlightUnavailableError,
    errors.StoreClosed: flight.FlightUnavailableError,
    errors.CorruptRecord: flight.FlightInternalError,
}


_NO_ANSWER: Final = (
    flight.FlightUnavailableError,
    flight.FlightTimedOutError,
    flight.FlightCancelledError,  # a broker that stops ends the calls that it has not taken up
)


_NOT_CONNECTED: Final = "failed to connect"
"""gRPC says so if it has not sent the request."""


def to_flight(error: BrokerError) -> flight.FlightError:
    """What the service raises in place of one of our errors."""
    kinds = [kind for kind in type(error).__mro__ if kind in _FLIGHT_ERRORS]
    kind = _FLIGHT_ERRORS[kinds[0]] if kinds else flight.FlightServerError
    plain = {"kind": _public_kind(error), "message": error.message, "details": error.details}
    return kind(error.message, extra_info=json.dumps(plain, default=str).encode())


def from_flight(error: Exception, address: str) -> BrokerError:
    """What the client raises in place of an error of Flight's."""
    extra = getattr(error, "extra_info", b"") or b""
    try:
        plain = json.loads(extra)
        kind = getattr(errors, plain["kind"])
        return kind(plain["message"], **plain["details"], address=address)  # type: ignore[no-any-return]
    except (ValueError, KeyError, AttributeError, TypeError):
        pass
    first_line = str(error).split("\n")[0][:500]
    if isinstance(error, _NO_ANSWER):
        return _no_answer(address, first_line)
    if isinstance(error, NotImplementedError):
        return RemoteProtocolError(
            f"broker {address}: expected its Flight port (listen.flight, 8815 by default), found "
            f"another gRPC service, perhaps listen.grpc ({first_line})",
            address=address,
        )
    if isinstance(error, flight.FlightError | pa.ArrowException | OSError):
        return RemoteProtocolError(f"broker {address}: {first_line}", address=address)
    raise error


def _no_answer(address: str, reason: str) -> BrokerError:
    """Nobody was asked, or somebody was and it is not known what came of it."""
    text = f"broker {address}: expected an answer, found none ({reason})"
    if _NOT_CONNECTED in reason:
        text += "; is it running, and is this its Flight port?"
        return Unavailable(text, address=address)
    return Unanswered(f"{text}; what was asked may be done or not", address=address)


def _public_kind(error: BrokerError) -> str:
    """The nearest class that the other side knows: subclasses elsewhere are not in its tree."""
    return next(kind.__name__ for kind in type(error).__mro__ if kind.__module__ == errors.__name__)
