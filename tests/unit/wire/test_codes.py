"""Numbers that clients compare: a sample that was read off a wire, and what must stay distinct."""

import re
from pathlib import Path

import pytest
from tests.unit.wire.capture import JSON_FRAMES, OF_BROKERS

from dueline.wire.codes import Language, RequestCode, ResponseCode, Serialization


def test_captured_codes_are_known() -> None:
    requests = {c.fields["code"] for c in JSON_FRAMES if not c.fields["flag"] & 1}
    responses = {c.fields["code"] for c in JSON_FRAMES if c.fields["flag"] & 1}

    assert requests - set(OF_BROKERS) <= set(RequestCode)
    assert responses <= set(ResponseCode)


def test_serializations_and_languages_are_numbered_without_gaps() -> None:
    assert list(Serialization) == [0, 1]
    assert list(Language) == list(range(14))


@pytest.mark.parametrize(
    ("code", "number"),
    [
        (RequestCode.SEND_MESSAGE_V2, 310),
        (RequestCode.PULL_MESSAGE, 11),
        (RequestCode.HEART_BEAT, 34),
        (RequestCode.GET_ROUTE_INFO_BY_TOPIC, 105),
        (ResponseCode.PULL_NOT_FOUND, 19),
        (ResponseCode.PULL_RETRY_IMMEDIATELY, 20),
        (ResponseCode.PULL_OFFSET_MOVED, 21),
        (ResponseCode.TOPIC_NOT_EXIST, 17),
    ],
)
def test_codes_that_clients_act_upon(code: int, number: int) -> None:
    assert code == number


def test_every_request_is_documented() -> None:
    page = Path(__file__).parents[3] / "docs" / "protocol" / "remoting.md"
    requests = page.read_text().partition("## Requests")[2]

    numbers = {int(number) for number in re.findall(r"\d+", requests)}
    assert {code.name for code in RequestCode if code not in numbers} == set()
