"""Around a Flight call: errors that say what they are, and bounds."""

from __future__ import annotations

import json

import pytest
from pyarrow import flight

from dueline.errors import LimitExceeded, NotFound
from dueline.flight import protocol
from dueline.server.flight.answering import answered, check_size, handler


def failing(error: Exception) -> flight.FlightError:
    def fail() -> None:
        raise error

    with pytest.raises(flight.FlightError) as caught:
        answered(fail)
    return caught.value


def test_a_request_is_decoded_and_its_answer_encoded() -> None:
    def verb(request: protocol.Discard) -> protocol.Discarded:
        return protocol.Discarded(token_count=len(request.tokens))

    assert json.loads(handler(protocol.Discard, verb)(b'{"tokens":["a","b"]}')) == {
        "token_count": 2
    }


def test_our_errors_keep_their_kind_and_others_are_our_mistake(
    caplog: pytest.LogCaptureFixture,
) -> None:
    found = failing(NotFound("no such plan"))
    assert json.loads(found.extra_info)["kind"] == "NotFound"
    assert caplog.records == []

    found = failing(ZeroDivisionError("oh"))
    plain = json.loads(found.extra_info)
    assert plain["kind"] == "OutcomeUnknown"
    assert "ZeroDivisionError: oh" in plain["message"]
    assert len(caplog.records) == 1

    own = flight.FlightUnauthorizedError("no")
    assert failing(own) is own
    assert answered(lambda: 3) == 3


def test_sizes_are_bounded() -> None:
    check_size("ticket", 10, 10)
    with pytest.raises(LimitExceeded, match="expected at most 10 bytes, found 11"):
        check_size("ticket", 11, 10)
