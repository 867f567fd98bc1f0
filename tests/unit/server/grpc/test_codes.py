"""The table from errors to codes."""

from __future__ import annotations

import pytest

from dueline.broker.inflight import InvalidReceipt
from dueline.errors import (
    BrokerError,
    CorruptRecord,
    Forbidden,
    InvalidRequest,
    LimitExceeded,
    NotFound,
    StoreClosed,
    Unauthenticated,
    Unavailable,
)
from dueline.server.grpc.codes import Code, Refused, code_of, status

CASES: list[tuple[BaseException, int]] = [
    (Refused(Code.ILLEGAL_MESSAGE_TAG, "tag"), 40004),
    (InvalidReceipt("receipt"), 40013),
    (InvalidRequest("something"), 40000),
    (InvalidRequest("topic", field="topic"), 40002),
    (InvalidRequest("group", field="group"), 40003),
    (InvalidRequest("filter", what="filter"), 40010),
    (InvalidRequest("time", field="TIMER_DELIVER_MS"), 40012),
    (NotFound("something"), 40400),
    (NotFound("topic", what="topic"), 40402),
    (NotFound("group", what="group"), 40403),
    (Unauthenticated("who"), 40100),
    (Forbidden("may"), 40300),
    (LimitExceeded("busy"), 42900),
    (Unavailable("stopping"), 42900),
    (StoreClosed("closed"), 50001),
    (CorruptRecord("bytes"), 50001),
    (BrokerError("other"), 50001),
    (ZeroDivisionError("a mistake of ours"), 50001),
]


@pytest.mark.parametrize(("error", "code"), CASES)
def test_error_has_the_code_that_clients_know(error: BaseException, code: int) -> None:
    assert code_of(error) == code


def test_our_own_mistakes_are_not_shown_to_clients() -> None:
    assert "secret" not in status(ValueError("secret")).message
    assert status(InvalidRequest("expected a, found b")).message == "expected a, found b"
