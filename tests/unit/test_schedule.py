"""When a message is due: levels, delays, absolute times, and which of them counts."""

from __future__ import annotations

import pytest

from dueline.errors import InvalidRequest, LimitExceeded
from dueline.message import LEVEL_MAX
from dueline.schedule import DEFAULT_LEVELS, DelayLevels, Due, due_of

NOW_MS = 1_700_000_000_000
LEVELS = DelayLevels.parse("1s 5s 2m")
DAY_MS = 86_400_000


def due(**properties: str) -> Due | None:
    return due_of(properties, now_ms=NOW_MS, levels=LEVELS, delay_max_ms=DAY_MS)


def test_default_table_is_rocketmqs() -> None:
    levels = DelayLevels.parse(DEFAULT_LEVELS)

    assert levels.level_max == 18
    assert [levels.delay_ms(level) for level in (1, 2, 3, 4, 5, 14, 17, 18)] == [
        1_000,
        5_000,
        10_000,
        30_000,
        60_000,
        600_000,
        3_600_000,
        7_200_000,
    ]


def test_levels_have_units() -> None:
    assert DelayLevels.parse(" 1s  2m 3h\t4d ").delays_ms == (
        1_000,
        120_000,
        10_800_000,
        4 * DAY_MS,
    )


def test_level_table_prints_in_its_own_syntax() -> None:
    assert str(DelayLevels.parse("90s 60m 24h 48h")) == "90s 1h 1d 2d"
    assert DelayLevels.parse(str(LEVELS)) == LEVELS


@pytest.mark.parametrize(
    "text", ["", " ", "1", "s", "0s", "-1s", "1x", "1.5s", "1s,2s", "１s", "1ms"]
)
def test_bad_tables_are_refused(text: str) -> None:
    with pytest.raises(InvalidRequest, match="delay levels: expected"):
        DelayLevels.parse(text)


def test_a_table_has_no_more_levels_than_a_record_may_name() -> None:
    assert DelayLevels.parse("1s " * LEVEL_MAX).level_max == LEVEL_MAX
    with pytest.raises(InvalidRequest, match="at most 1048576, found 1048577"):
        DelayLevels.parse("1s " * (LEVEL_MAX + 1))


@pytest.mark.parametrize(
    ("level", "delay_ms"), [(1, 1_000), (3, 120_000), (4, 120_000), (99, 120_000)]
)
def test_level_over_the_table_is_its_last(level: int, delay_ms: int) -> None:
    assert due(DELAY=str(level)) == Due(due_ms=NOW_MS + delay_ms, level=min(level, 3))


@pytest.mark.parametrize("level", ["0", "-1", "-999999"])
def test_level_of_zero_or_less_is_an_ordinary_message(level: str) -> None:
    assert due(DELAY=level) is None


def test_without_a_property_it_is_an_ordinary_message() -> None:
    assert due() is None
    assert due(TAGS="x", TIMER_OUT_MS="99999999999999") is None


@pytest.mark.parametrize(
    ("properties", "delay_ms"),
    [
        ({"TIMER_DELAY_SEC": "3"}, 3_000),
        ({"TIMER_DELAY_MS": "3"}, 3),
        ({"TIMER_DELIVER_MS": str(NOW_MS + 7)}, 7),
        ({"TIMER_DELAY_SEC": "3", "TIMER_DELAY_MS": "9", "TIMER_DELIVER_MS": "1"}, 3_000),
        ({"TIMER_DELAY_MS": "9", "TIMER_DELIVER_MS": str(NOW_MS + 1)}, 9),
        ({"DELAY": "0", "TIMER_DELAY_MS": "9"}, 9),
    ],
)
def test_timers_by_precedence(properties: dict[str, str], delay_ms: int) -> None:
    assert due(**properties) == Due(due_ms=NOW_MS + delay_ms, level=0)


def test_a_level_goes_before_a_timer() -> None:
    assert due(DELAY="1", TIMER_DELAY_MS="77") == Due(due_ms=NOW_MS + 1_000, level=1)


@pytest.mark.parametrize(
    "properties",
    [
        {"TIMER_DELAY_SEC": "0"},
        {"TIMER_DELAY_MS": "-5"},
        {"TIMER_DELIVER_MS": str(NOW_MS)},
        {"TIMER_DELIVER_MS": "1"},
        {"TIMER_DELIVER_MS": "-1"},
    ],
)
def test_time_that_is_not_in_the_future_means_now(properties: dict[str, str]) -> None:
    assert due(**properties) is None


@pytest.mark.parametrize("name", ["DELAY", "TIMER_DELAY_SEC", "TIMER_DELAY_MS", "TIMER_DELIVER_MS"])
@pytest.mark.parametrize("text", ["", "x", "1.5", "1e3", "+1", " 1", "１", "-", "9" * 19])
def test_what_is_no_whole_number_is_refused(name: str, text: str) -> None:
    with pytest.raises(InvalidRequest) as caught:
        due(**{name: text})

    assert (caught.value.field, caught.value.found) == (name, text)


def test_longest_delay_is_accepted_and_the_next_is_not() -> None:
    assert due(TIMER_DELAY_MS=str(DAY_MS)) == Due(due_ms=NOW_MS + DAY_MS, level=0)

    with pytest.raises(LimitExceeded) as caught:
        due(TIMER_DELAY_MS=str(DAY_MS + 1))

    assert (caught.value.limit, caught.value.found) == (DAY_MS, DAY_MS + 1)
    assert str(caught.value).startswith("delay: expected at most 1 d, found more; ")
    assert "store.delay_max" in str(caught.value)
