"""Answers, and the one table that says which code an error becomes.

RocketMQ's clients act on the code: a producer sends again after 1, 14, 16 and 17 (5.x also after
2), and gives up after any other; a consumer waits three seconds after an unknown one. The remark is
for people.

2 and 14 are refusals: the message is not in the store. What may be there and may not be
(`OutcomeUnknown`) is answered with 1, after which producers send again, perhaps a second time.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final

from dueline.errors import (
    BrokerError,
    Forbidden,
    InvalidRequest,
    LimitExceeded,
    NotFound,
    OutcomeUnknown,
    StoreClosed,
    StoreError,
    Unauthenticated,
    Unavailable,
)
from dueline.wire.codes import ResponseCode

__all__ = ["OK", "Refused", "Response", "answer_of", "code_of", "message_code_of"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Response:
    """What a request is answered with; `chunks` are sent as they are, after `body`."""

    code: int = ResponseCode.SUCCESS
    ext: Mapping[str, str] = field(default_factory=dict)
    body: bytes = b""
    remark: str | None = None
    chunks: tuple[memoryview, ...] = ()


OK: Final = Response()


class Refused(BrokerError):
    """A refusal that only this protocol knows; `code` is its response code."""

    def __init__(self, code: ResponseCode, message: str) -> None:
        super().__init__(message, code=code)


_BY_SUBJECT: Final[Mapping[str, ResponseCode]] = {
    "topic": ResponseCode.TOPIC_NOT_EXIST,
    "group": ResponseCode.SUBSCRIPTION_GROUP_NOT_EXIST,
    "filter": ResponseCode.SUBSCRIPTION_PARSE_FAILED,
    "closed topic": ResponseCode.NO_PERMISSION,
    "subscription": ResponseCode.SUBSCRIPTION_NOT_EXIST,
    "newest subscription": ResponseCode.SUBSCRIPTION_NOT_LATEST,
    "permission": ResponseCode.NO_PERMISSION,
    "message": ResponseCode.MESSAGE_ILLEGAL,
    "recall handle": ResponseCode.ILLEGAL_OPERATION,
    "delayed message": ResponseCode.ILLEGAL_OPERATION,
    "delivered message": ResponseCode.ILLEGAL_OPERATION,
}
_BY_CLASS: Final[tuple[tuple[type[BrokerError], ResponseCode], ...]] = (
    (Unauthenticated, ResponseCode.NO_PERMISSION),
    (Forbidden, ResponseCode.NO_PERMISSION),
    (InvalidRequest, ResponseCode.INVALID_PARAMETER),
    (LimitExceeded, ResponseCode.SYSTEM_BUSY),
    (NotFound, ResponseCode.SYSTEM_ERROR),
    (Unavailable, ResponseCode.SERVICE_NOT_AVAILABLE),
    (OutcomeUnknown, ResponseCode.SYSTEM_ERROR),
    (StoreClosed, ResponseCode.SERVICE_NOT_AVAILABLE),
    (StoreError, ResponseCode.SYSTEM_ERROR),
    (BrokerError, ResponseCode.SYSTEM_ERROR),
)


def code_of(error: BrokerError) -> ResponseCode:
    """The response code of an error."""
    if isinstance(error, Refused):
        return ResponseCode(error.details["code"])
    subject = error.details.get("what")
    if isinstance(subject, str) and subject in _BY_SUBJECT:
        return _BY_SUBJECT[subject]
    return next(code for kind, code in _BY_CLASS if isinstance(error, kind))


def message_code_of(error: BrokerError) -> ResponseCode:
    """The same where the store refused one message: what is wrong is the message itself."""
    if isinstance(error, InvalidRequest | LimitExceeded):
        return ResponseCode.MESSAGE_ILLEGAL
    return code_of(error)


def answer_of(error: BaseException, *, is_message: bool = False) -> Response:
    """The answer that tells a peer of an error."""
    if not isinstance(error, BrokerError):
        return Response(
            code=ResponseCode.SYSTEM_ERROR,
            remark=f"the broker failed: {type(error).__name__}; its log has more",
        )
    code = message_code_of(error) if is_message else code_of(error)
    return Response(code=code, remark=error.message)
