import time
from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta
from zoneinfo import ZoneInfo

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dueline.commands.times import show_clock
from dueline.errors import InvalidRequest
from dueline.times import (
    PAST_MS_MAX,
    check_not_past,
    duration_ms,
    future_ms,
    parse_duration_ms,
    parse_time_ms,
    show_span,
    show_time,
    time_ms,
)

MINUTE_MS, HOUR_MS, DAY_MS = 60_000, 3_600_000, 86_400_000
BERLIN = "CET-1CEST,M3.5.0,M10.5.0/3"
KOLKATA = "IST-5:30"


@pytest.fixture
def zone(monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[[str], None]]:
    """Be in another zone."""

    def be_in(name: str) -> None:
        monkeypatch.setenv("TZ", name)
        time.tzset()

    yield be_in
    monkeypatch.undo()
    time.tzset()


@pytest.mark.parametrize(
    ("text", "expected_ms"),
    [
        ("0s", 0),
        ("500ms", 500),
        ("30s", 30_000),
        ("1m30s", 90_000),
        (" 2h ", 2 * HOUR_MS),
        ("1d1h1m1s1ms", 90_061_001),
        ("1 s", 1_000),
        ("1w", 7 * DAY_MS),
        ("1.5h", 90 * MINUTE_MS),
        ("1h 30m", 90 * MINUTE_MS),
        ("2 days 1 hour", 49 * HOUR_MS),
        ("30 min", 30 * MINUTE_MS),
        ("0.0001s", 1),
        ("PT30M", 30 * MINUTE_MS),
        ("P1DT12H", 36 * HOUR_MS),
        ("P2W", 14 * DAY_MS),
        ("PT1.5S", 1_500),
    ],
)
def test_durations(text: str, expected_ms: int) -> None:
    assert parse_duration_ms(text) == expected_ms


@pytest.mark.parametrize(
    "text",
    [
        *("", "5", "s", "-1s", "1s2", "1" * 16 + "s", "1M", "soon", "1,5h", "1y"),
        *("P", "PT", "P1M", "P1Y", "-PT1S", "P1DT", "pt30m", "P1D 12h"),
    ],
)
def test_bad_durations_are_refused(text: str) -> None:
    with pytest.raises(InvalidRequest, match="duration: expected"):
        parse_duration_ms(text)


def test_a_number_without_unit_is_told_how_to_be_written() -> None:
    with pytest.raises(InvalidRequest, match="such as 5s for seconds or 5m for minutes, found '5'"):
        parse_duration_ms("5")


@given(st.integers(0, 10**12))
def test_whole_milliseconds_are_what_they_are_however_they_are_said(expected_ms: int) -> None:
    assert parse_duration_ms(f"{expected_ms}ms") == expected_ms
    assert duration_ms(timedelta(milliseconds=expected_ms)) == expected_ms
    assert parse_duration_ms(f"{expected_ms // 1000}.{expected_ms % 1000:03d}s") == expected_ms


@pytest.mark.parametrize(
    ("value", "expected_ms"),
    [(5, 5_000), (0.25, 250), (timedelta(microseconds=1), 1), ("30m", 1_800_000), (0, 0)],
)
def test_programs_may_say_a_timedelta_seconds_or_text(
    value: timedelta | float | str, expected_ms: int
) -> None:
    assert duration_ms(value) == expected_ms


@pytest.mark.parametrize(
    "value", [-1, -0.5, timedelta(seconds=-1), "-5s", float("nan"), float("inf"), True, None, []]
)
def test_what_is_no_duration_is_refused_in_words(value: object) -> None:
    with pytest.raises(InvalidRequest, match="expected"):
        duration_ms(value)  # type: ignore[arg-type]


def test_times_without_a_zone_are_local(zone: Callable[[str], None]) -> None:
    zone(KOLKATA)

    assert parse_time_ms("1970-01-02T05:30") == DAY_MS
    assert parse_time_ms("1970-01-02") == DAY_MS - 19_800_000
    assert parse_time_ms("1970-01-02T00:00Z") == DAY_MS
    assert parse_time_ms("1970-01-02T01:00:00.250+01:00") == 86_400_250


def test_a_local_time_that_does_not_exist_is_refused(zone: Callable[[str], None]) -> None:
    zone(BERLIN)

    with pytest.raises(InvalidRequest, match="2027-03-28T02:30 does not exist here"):
        parse_time_ms("2027-03-28T02:30")

    assert parse_time_ms("2027-03-28T03:00") - parse_time_ms("2027-03-28T01:59") == MINUTE_MS


def test_a_local_time_that_comes_twice_is_refused_with_both(zone: Callable[[str], None]) -> None:
    zone(BERLIN)

    with pytest.raises(InvalidRequest) as caught:
        parse_time_ms("2027-10-31T02:30")

    assert "comes twice" in str(caught.value)
    first, second = "2027-10-31T02:30+02:00", "2027-10-31T02:30+01:00"
    assert f"{first} or {second}" in str(caught.value)
    assert parse_time_ms(second) - parse_time_ms(first) == HOUR_MS


@pytest.mark.parametrize("text", ["tomorrow", "10:00", "", "2027-13-01"])
def test_other_times_are_refused_with_an_example(text: str) -> None:
    with pytest.raises(InvalidRequest, match="expected a date and time such as"):
        parse_time_ms(text)


def test_programs_may_say_a_datetime_with_a_zone_or_text() -> None:
    assert time_ms(datetime(1970, 1, 2, tzinfo=UTC)) == DAY_MS
    assert time_ms(datetime(1970, 1, 2, microsecond=1, tzinfo=UTC)) == DAY_MS + 1
    assert time_ms("1970-01-02T00:00Z") == DAY_MS


@pytest.mark.parametrize(
    ("value", "words"),
    [
        (datetime(2027, 1, 1), "expected a time with a time zone"),  # noqa: DTZ001 - the mistake
        (datetime(2027, 3, 28, 2, 30, tzinfo=ZoneInfo("Europe/Berlin")), "does not exist in"),
        (1_800_000_000, "expected a datetime"),
    ],
)
def test_what_is_no_time_is_refused_in_words(value: datetime, words: str) -> None:
    with pytest.raises(InvalidRequest, match=words):
        time_ms(value)


def test_the_past_is_refused_but_for_a_minute() -> None:
    now_ms = 1_800_000_000_000

    check_not_past(now_ms - PAST_MS_MAX, now_ms)
    with pytest.raises(InvalidRequest, match=r"expected a time to come, found .*, 2 h ago"):
        check_not_past(now_ms - 2 * HOUR_MS, now_ms)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("friday 10:00", "2026-11-20T10:00+05:30"),
        ("Fri 10:00:30", "2026-11-20T10:00:30+05:30"),
        ("tomorrow 9:05", "2026-11-19T09:05+05:30"),
        ("today 18:30", "2026-11-18T18:30+05:30"),
        ("wednesday 18:30", "2026-11-18T18:30+05:30"),  # it is wednesday, and not 18:30 yet
        ("wednesday 9:00", "2026-11-25T09:00+05:30"),  # it was nine this morning
        ("tuesday 9:00", "2026-11-24T09:00+05:30"),
        ("2026-11-20T10:00Z", "2026-11-20T10:00+00:00"),
    ],
)
def test_a_day_of_the_next_seven_may_be_named(
    zone: Callable[[str], None], text: str, expected: str
) -> None:
    zone(KOLKATA)
    now_ms = parse_time_ms("2026-11-18T12:00")  # a wednesday

    assert future_ms(text, now_ms) == parse_time_ms(expected)


@pytest.mark.parametrize("text", ["frisday 10:00", "friday 25:00", "friday 10:61", "next 10:00"])
def test_other_days_are_refused_with_an_example(text: str) -> None:
    with pytest.raises(InvalidRequest, match="such as friday 10:00, found"):
        future_ms(text, 1_800_000_000_000)


@pytest.mark.parametrize("text", ["today 9:00", "2001-01-01T00:00Z"])
def test_a_time_to_come_has_not_passed(zone: Callable[[str], None], text: str) -> None:
    zone(KOLKATA)

    with pytest.raises(InvalidRequest, match="expected a time to come"):
        future_ms(text, parse_time_ms("2026-11-18T12:00"))


def test_times_are_shown_local_with_their_zone(zone: Callable[[str], None]) -> None:
    zone(KOLKATA)

    assert show_time(86_400_007) == "1970-01-02 05:30:00.007 IST"
    assert show_clock(86_400_250) == "05:30:00.250 IST"


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
