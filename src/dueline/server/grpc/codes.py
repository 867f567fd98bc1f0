"""Status codes of the protocol, and the one table from our errors to them.

Errors of a request travel in the `Status` of its answer; the call itself succeeds. A protocol rule
that a request breaks is a `Refused` with its code; every other error that Dueline raises on purpose
is looked up in `_TABLE`, from the most special class to the most general.

TOO_MANY_REQUESTS is a refusal: nothing of the request is in the store. What may be there or not
(`OutcomeUnknown`) is an INTERNAL_SERVER_ERROR; clients send again after both.
"""

from __future__ import annotations

import enum
from typing import Any, Final

from dueline.broker.inflight import InvalidReceipt
from dueline.errors import (
    BrokerError,
    Forbidden,
    InvalidRequest,
    LimitExceeded,
    NotFound,
    OutcomeUnknown,
    StoreError,
    Unauthenticated,
    Unavailable,
)
from dueline.server.grpc.stubs import message_class

__all__ = ["Code", "Refused", "code_of", "ok", "status"]

_Status: Final = message_class("Status")


class Code(enum.IntEnum):
    """What clients know."""

    OK = 20000
    MULTIPLE_RESULTS = 30000
    BAD_REQUEST = 40000
    ILLEGAL_TOPIC = 40002
    ILLEGAL_CONSUMER_GROUP = 40003
    ILLEGAL_MESSAGE_TAG = 40004
    ILLEGAL_MESSAGE_KEY = 40005
    ILLEGAL_MESSAGE_GROUP = 40006
    ILLEGAL_MESSAGE_PROPERTY_KEY = 40007
    INVALID_TRANSACTION_ID = 40008
    ILLEGAL_MESSAGE_ID = 40009
    ILLEGAL_FILTER_EXPRESSION = 40010
    ILLEGAL_INVISIBLE_TIME = 40011
    ILLEGAL_DELIVERY_TIME = 40012
    INVALID_RECEIPT_HANDLE = 40013
    MESSAGE_PROPERTY_CONFLICT_WITH_TYPE = 40014
    UNRECOGNIZED_CLIENT_TYPE = 40015
    MESSAGE_CORRUPTED = 40016
    CLIENT_ID_REQUIRED = 40017
    ILLEGAL_POLLING_TIME = 40018
    ILLEGAL_OFFSET = 40019
    UNAUTHORIZED = 40100
    FORBIDDEN = 40300
    NOT_FOUND = 40400
    MESSAGE_NOT_FOUND = 40401
    TOPIC_NOT_FOUND = 40402
    CONSUMER_GROUP_NOT_FOUND = 40403
    OFFSET_NOT_FOUND = 40404
    MESSAGE_BODY_TOO_LARGE = 41301
    MESSAGE_BODY_EMPTY = 41302
    PRECONDITION_FAILED = 42800
    TOO_MANY_REQUESTS = 42900
    MESSAGE_PROPERTIES_TOO_LARGE = 43101
    INTERNAL_SERVER_ERROR = 50001
    NOT_IMPLEMENTED = 50100


class Refused(InvalidRequest):
    """A request that breaks a rule of the protocol, with the code that says so."""

    def __init__(self, code: Code, message: str) -> None:
        super().__init__(message)
        self.code: Final = code

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self), (self.code, self.message)


_NOT_FOUND: Final = {
    "topic": Code.TOPIC_NOT_FOUND,
    "group": Code.CONSUMER_GROUP_NOT_FOUND,
    "delayed message": Code.MESSAGE_NOT_FOUND,
}
_SUBJECTS: Final = {
    "filter": Code.ILLEGAL_FILTER_EXPRESSION,
    "permission": Code.FORBIDDEN,
    "offset": Code.ILLEGAL_OFFSET,
    "delivered message": Code.PRECONDITION_FAILED,
}
_FIELDS: Final = {
    "topic": Code.ILLEGAL_TOPIC,
    "group": Code.ILLEGAL_CONSUMER_GROUP,
    "properties": Code.MESSAGE_PROPERTIES_TOO_LARGE,
    "TIMER_DELIVER_MS": Code.ILLEGAL_DELIVERY_TIME,
    "delay": Code.ILLEGAL_DELIVERY_TIME,
    "body": Code.MESSAGE_BODY_TOO_LARGE,
    "invisible duration": Code.ILLEGAL_INVISIBLE_TIME,
}
_TABLE: Final[tuple[tuple[type[BaseException], Code], ...]] = (
    (InvalidReceipt, Code.INVALID_RECEIPT_HANDLE),
    (Unauthenticated, Code.UNAUTHORIZED),
    (Forbidden, Code.FORBIDDEN),
    (NotFound, Code.NOT_FOUND),
    (InvalidRequest, Code.BAD_REQUEST),
    (LimitExceeded, Code.TOO_MANY_REQUESTS),
    (Unavailable, Code.TOO_MANY_REQUESTS),
    (OutcomeUnknown, Code.INTERNAL_SERVER_ERROR),
    (StoreError, Code.INTERNAL_SERVER_ERROR),
    (BrokerError, Code.INTERNAL_SERVER_ERROR),
)


def code_of(error: BaseException) -> Code:
    """The code that tells a client what went wrong."""
    if isinstance(error, Refused):
        return error.code
    details = getattr(error, "details", {})
    if isinstance(error, NotFound) and details.get("what") in _NOT_FOUND:
        return _NOT_FOUND[details["what"]]
    if isinstance(error, InvalidRequest | LimitExceeded):
        if details.get("what") in _SUBJECTS:
            return _SUBJECTS[details["what"]]
        if details.get("field") in _FIELDS:
            return _FIELDS[details["field"]]
    for kind, code in _TABLE:
        if isinstance(error, kind):
            return code
    return Code.INTERNAL_SERVER_ERROR


def status(error: BaseException) -> Any:
    """The `Status` for an error."""
    text = error.message if isinstance(error, BrokerError) else "the broker failed; see its log"
    return _Status(code=code_of(error), message=text)


_OK: Final = _Status(code=Code.OK, message="OK")


def ok() -> Any:
    """The `Status` of success, to be copied from; some clients show its message."""
    return _OK
