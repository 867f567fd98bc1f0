import pytest

from dueline.errors import InvalidRequest
from dueline.flight.console import CONSOLE_ACTIONS, ListTopics, Send
from dueline.flight.operators import CONTROL_ACTIONS
from dueline.flight.protocol import ACTIONS


@pytest.mark.parametrize("count_max", [0, -1, 1_001])
def test_a_page_has_a_bound(count_max: int) -> None:
    with pytest.raises(InvalidRequest, match="expected 1 to 1000"):
        ListTopics(count_max=count_max).check()


@pytest.mark.parametrize(
    "send",
    [
        Send(topic="t", body=b"", delay_ms=1, deliver_at_ms=1),
        Send(topic="t", body=b"", delay_ms=1, delay_level=1),
    ],
)
def test_a_message_is_due_at_one_time(send: Send) -> None:
    with pytest.raises(InvalidRequest, match="found several"):
        send.check()


def test_actions_have_names_of_their_own() -> None:
    assert not CONSOLE_ACTIONS.keys() & (CONTROL_ACTIONS.keys() | ACTIONS.keys())
