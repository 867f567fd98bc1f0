"""Around every Flight call: what may come in, and what an error becomes."""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import TypeVar

from pyarrow import flight

from dueline.errors import BrokerError, LimitExceeded, OutcomeUnknown
from dueline.flight.errors import to_flight
from dueline.flight.values import Value

__all__ = ["Handler", "answered", "check_size", "handler"]

_Result = TypeVar("_Result")
_Request = TypeVar("_Request", bound=Value)

Handler = Callable[[bytes], bytes]
"""From the bytes of a request to those of its answer."""

log = logging.getLogger(__name__)


def handler(request: type[_Request], verb: Callable[[_Request], Value]) -> Handler:
    """Decode, call, encode."""
    return lambda body: verb(request.decode(body)).encode()


def answered(answer: Callable[[], _Result]) -> _Result:
    """Call, and turn what it raises into what Flight sends."""
    try:
        return answer()
    except BrokerError as error:
        raise to_flight(error) from error
    except flight.FlightError:
        raise
    except Exception as error:
        # A mistake of ours: the caller must not wait for an answer, and the log says where.
        log.exception("a Flight call failed")
        raise to_flight(
            OutcomeUnknown(f"the broker failed: {type(error).__name__}: {error}")
        ) from error


def check_size(what: str, found: int, limit: int) -> None:
    if found > limit:
        raise LimitExceeded(
            f"{what}: expected at most {limit} bytes, found {found}", limit=limit, found=found
        )
