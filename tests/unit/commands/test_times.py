import time
from collections.abc import Iterator

import pytest

from dueline.commands.times import parse_at_ms, show_clock, show_span, show_time
from dueline.errors import InvalidRequest


@pytest.fixture
def in_kolkata(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """A zone that is half an hour off."""
    monkeypatch.setenv("TZ", "IST-5:30")
    time.tzset()
    yield
    monkeypatch.undo()
    time.tzset()


@pytest.mark.usefixtures("in_kolkata")
def test_times_without_a_zone_are_local() -> None:
    assert parse_at_ms("1970-01-02T05:30") == 86_400_000
    assert parse_at_ms("1970-01-02") == 86_400_000 - 19_800_000
    assert parse_at_ms("1970-01-02T00:00Z") == 86_400_000
    assert parse_at_ms("1970-01-02T01:00:00.250+01:00") == 86_400_250


@pytest.mark.usefixtures("in_kolkata")
def test_times_are_shown_local_with_their_zone() -> None:
    assert show_time(86_400_007) == "1970-01-02 05:30:00.007 IST"
    assert show_clock(86_400_250) == "05:30:00.250 IST"


@pytest.mark.parametrize("text", ["tomorrow", "10:00", "", "2027-13-01"])
def test_other_times_are_refused_with_an_example(text: str) -> None:
    with pytest.raises(InvalidRequest, match="expected a date and time such as"):
        parse_at_ms(text)


@pytest.mark.parametrize(
    ("span_ms", "text"),
    [
        (999, "999 ms"),
        (1_000, "1 s"),
        (12_340, "12.3 s"),
        (59_999, "60 s"),
        (60_000, "1 m"),
        (3_600_000 + 120_000, "1 h 2 m"),
        (10 * 86_400_000 + 5 * 3_600_000, "10 d 5 h"),
    ],
)
def test_spans_are_shown_in_their_largest_units(span_ms: int, text: str) -> None:
    assert show_span(span_ms) == text
