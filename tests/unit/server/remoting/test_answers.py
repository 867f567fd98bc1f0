"""One table says which code an error becomes."""

from __future__ import annotations

import pytest

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
from dueline.server.remoting.answers import Refused, answer_of, code_of, message_code_of
from dueline.wire.codes import ResponseCode


@pytest.mark.parametrize(
    ("error", "code"),
    [
        (InvalidRequest("x"), 29),
        (InvalidRequest("x", what="filter"), 23),
        (NotFound("x"), 1),
        (NotFound("x", what="topic"), 17),
        (NotFound("x", what="group"), 26),
        (Unauthenticated("x"), 16),
        (Forbidden("x"), 16),
        (LimitExceeded("x", limit=1), 2),
        (Unavailable("x"), 14),
        (StoreClosed("x"), 14),
        (CorruptRecord("x"), 1),
        (BrokerError("x"), 1),
        (Refused(ResponseCode.NO_PERMISSION, "x"), 16),
    ],
)
def test_each_error_has_its_code(error: BrokerError, code: int) -> None:
    assert code_of(error) == code
    assert answer_of(error).remark == "x"


@pytest.mark.parametrize(
    ("error", "code"),
    [(InvalidRequest("x"), 13), (LimitExceeded("x"), 13), (Unavailable("x"), 14)],
)
def test_refused_message_is_illegal_and_not_busy(error: BrokerError, code: int) -> None:
    assert message_code_of(error) == code


def test_failure_of_ours_is_told_without_its_text() -> None:
    answer = answer_of(KeyError("secret"))

    assert answer.code == 1
    assert "secret" not in (answer.remark or "")
