import pytest

from dueline.client import Received
from dueline.commands.arrival import arrival
from dueline.schedule import DelayLevels

LEVELS = DelayLevels.parse("1s 5s")


def received(*, attempt: int = 0, store_ms: int = 9_000, **properties: str) -> Received:
    return Received(
        topic="t",
        body=b"\xffa",
        id="",
        tag=None,
        keys=(),
        properties=properties,
        queue_id=0,
        queue_offset=0,
        attempt=attempt,
        born_ms=1_000,
        store_ms=store_ms,
        position=0,
    )


@pytest.mark.parametrize(
    ("message", "due_ms"),
    [
        (received(), None),
        (received(TIMER_OUT_MS="8000"), 8_000),
        (received(TIMER_OUT_MS="soon"), None),
        (received(DELAY="2"), 6_000),
        (received(DELAY="99"), 6_000),
        (received(DELAY="0"), None),
        (received(DELAY="x"), None),
        (received(DELAY="2", attempt=1), None),
    ],
)
def test_due_time(message: Received, due_ms: int | None) -> None:
    found = arrival(message, now_ms=9_500, started_ms=0, levels=LEVELS)

    assert found.due_ms == due_ms
    assert found.late_ms == (None if due_ms is None else 9_500 - due_ms)
    assert found.body == "\\xffa"


def test_a_level_is_not_known_without_the_broker_s_levels() -> None:
    found = arrival(received(DELAY="2"), now_ms=9_500, started_ms=0, levels=None)

    assert found.late_ms is None


def test_what_was_there_before_came_when_it_was_stored() -> None:
    message = received(TIMER_OUT_MS="8000", store_ms=8_500)

    assert arrival(message, now_ms=99_000, started_ms=9_000, levels=None).late_ms == 500
