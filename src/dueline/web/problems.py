"""What an error becomes in HTTP: one table from our error tree to status codes.

The body is the same for every error: its kind, a message that says what was expected and found and
what to do, and the field it is about where there is one.
"""

from __future__ import annotations

from typing import Final

from dueline import errors
from dueline.errors import BrokerError, InvalidRequest, LimitExceeded
from dueline.flight.values import Value

__all__ = [
    "PROBLEM_STATUSES",
    "NotAllowed",
    "Problem",
    "TooLarge",
    "UnsupportedMedia",
    "problem_of",
    "status_of",
]


class NotAllowed(BrokerError):
    """The caller may not."""


class UnsupportedMedia(InvalidRequest):
    """A body of another kind."""


class TooLarge(LimitExceeded):
    """A body that is too large."""


_STATUSES: Final[dict[type[BrokerError], int]] = {
    errors.Unauthenticated: 401,
    errors.Forbidden: 403,
    NotAllowed: 403,
    UnsupportedMedia: 415,
    TooLarge: 413,
    errors.InvalidRequest: 400,
    errors.NotFound: 404,
    errors.LimitExceeded: 429,
    errors.Unanswered: 504,
    errors.Unavailable: 503,
    errors.OutcomeUnknown: 502,
    errors.RemoteProtocolError: 502,
    errors.StoreClosed: 503,
    errors.CorruptRecord: 502,
}

PROBLEM_STATUSES: Final = {
    400: "The request is wrong; the message says what was expected and what was found.",
    401: "Access control is on: say who you are, by basic or bearer authorization.",
    403: "The request comes from another site, or the user may not do this.",
    404: "What the request names does not exist.",
    405: "The path is there, and knows other methods.",
    413: "The request is too large.",
    415: "The body is not `application/json`.",
    429: "A bound was reached; less or later may pass.",
    502: "The broker failed, or its answer makes no sense; what was asked may be done or not.",
    503: "The broker is away or cannot do this now; nothing was changed.",
    504: "The broker did not answer in time; what was asked may be done or not.",
}


class Problem(Value, frozen=True, kw_only=True):
    """`error` is the kind: InvalidRequest, NotFound, LimitExceeded, Unavailable …"""

    error: str
    message: str
    field: str | None = None


def status_of(error: BrokerError) -> int:
    """The nearest class in the table decides."""
    return next((_STATUSES[kind] for kind in type(error).__mro__ if kind in _STATUSES), 502)


def problem_of(error: BrokerError) -> Problem:
    field = error.details.get("field")
    return Problem(
        error=type(error).__name__,
        message=error.message,
        field=field if isinstance(field, str) else None,
    )
