"""Every error that Dueline raises on purpose, in one tree.

    BrokerError
    ├── InvalidRequest          the caller's input is wrong; the store did not change
    ├── NotFound                a topic, queue, record or id that does not exist
    ├── Unauthenticated         nobody that the broker knows asks
    ├── Forbidden               a user asks who has not the right to
    ├── LimitExceeded           a named upper bound was hit; less or later may pass
    ├── Unavailable             cannot be served now, may be later (no disk space, no file
    │                           descriptors, shutting down); nothing was changed
    ├── OutcomeUnknown          the request may have been carried out or not
    │   └── Unanswered              … since no answer came: an Unavailable too
    ├── ProtocolError           bytes on a wire that do not follow the protocol
    │   ├── LocalProtocolError      we were asked to send something invalid
    │   └── RemoteProtocolError     the peer sent something invalid
    └── StoreError              the store itself
        ├── CorruptRecord           bytes on disk that fail a check
        ├── StoreClosed             closed by the owner or by a failed write or fsync
        │   └── StoreFailed             … under this very request: an OutcomeUnknown too
        └── StoreLocked             another process has this store open

A refusal by a broker is definite: with `Unavailable`, `LimitExceeded` or a plain `StoreClosed`
nothing of the request is in the store. `OutcomeUnknown` is raised where bytes of it may have
reached the disk, and is never answered as a refusal. On a client's side `Unavailable` says also
that nobody was there to be asked, and `Unanswered` that somebody may have been.

Errors carry what they speak of as attributes, so that a protocol edge can turn them into its codes
and a test can check more than text. Messages say what was expected, what was found and, where it
is not obvious, what to do.
"""

from __future__ import annotations

from typing import Any

__all__ = [
    "BrokerError",
    "CorruptRecord",
    "Forbidden",
    "InvalidRequest",
    "LimitExceeded",
    "LocalProtocolError",
    "NotFound",
    "OutcomeUnknown",
    "ProtocolError",
    "RemoteProtocolError",
    "StoreClosed",
    "StoreError",
    "StoreFailed",
    "StoreLocked",
    "Unanswered",
    "Unauthenticated",
    "Unavailable",
]


class BrokerError(Exception):
    """Base of all errors raised on purpose; `details` are the facts behind the message."""

    def __init__(self, message: str, **details: Any) -> None:
        super().__init__(message)
        self.message = message
        self.details = details

    def __getattr__(self, name: str) -> Any:
        try:
            return self.__dict__["details"][name]
        except KeyError:
            raise AttributeError(name) from None

    def __reduce__(self) -> tuple[Any, ...]:
        return _rebuild, (type(self), self.message, self.details)


class InvalidRequest(BrokerError):
    """The request cannot be carried out as it is; nothing was changed."""


class NotFound(BrokerError):
    """What the request names does not exist."""


class Unauthenticated(BrokerError):
    """Nobody that the broker knows, or not with their secret; `reason` is for the audit trail."""


class Forbidden(BrokerError):
    """A user who has not the right to; `reason` is for the audit trail."""


class LimitExceeded(BrokerError):
    """A named bound was hit; `limit` and `found` say which and by how much."""


class Unavailable(BrokerError):
    """Cannot be served now; nothing was changed, and the same request may succeed later."""


class OutcomeUnknown(BrokerError):
    """The request may have been carried out or not; asking again may do it twice."""


class Unanswered(OutcomeUnknown, Unavailable):
    """A broker was asked and did not answer, or not in time."""


class ProtocolError(BrokerError):
    """Bytes that do not follow the protocol."""


class LocalProtocolError(ProtocolError):
    """We were asked to send something that the protocol does not allow."""


class RemoteProtocolError(ProtocolError):
    """The peer sent something that the protocol does not allow."""


class StoreError(BrokerError):
    """The store cannot do what was asked."""


class CorruptRecord(StoreError):
    """Bytes on disk that fail a check; `path` and `position` say where."""


class StoreClosed(StoreError):
    """The store is closed, by its owner or because a write or fsync failed; nothing was changed."""


class StoreFailed(OutcomeUnknown, StoreClosed):
    """A write or fsync failed under this request and closed the store."""


class StoreLocked(StoreError):
    """Another process holds the store's lock."""


def _rebuild(kind: type[BrokerError], message: str, details: dict[str, Any]) -> BrokerError:
    """Pickle support: errors cross process boundaries inside Spark tasks."""
    return kind(message, **details)
