"""Durations and times as people write them: one parser for commands, settings, client and Spark.

    durations   30s   1.5h   1h 30m   2 days   1w   500ms   PT30M   P1DT12H
    times       2027-01-01T10:00 (local)   2027-01-01T10:00+01:00   2027-01-01
    to come     friday 10:00   tomorrow 9:00   today 18:30   (local)

What has no one meaning is refused in words: a number without a unit, a month, a local time that a
change of the clocks skips or repeats.

**The past.** A time that somebody names is meant to come: one that is more than a minute past is
refused (`check_not_past`). Within that minute it means now, since clocks differ and programs take
their time. RocketMQ's clients keep RocketMQ's rule, that any past time means now.

Fractions of a millisecond are rounded up: never early. Pure functions; no clock is read here.
"""

from __future__ import annotations

import math
import re
from datetime import UTC, datetime, timedelta
from fractions import Fraction
from itertools import pairwise
from typing import Final

from dueline.errors import InvalidRequest

__all__ = [
    "PAST_MS_MAX",
    "Duration",
    "check_not_past",
    "duration_ms",
    "future_ms",
    "local",
    "parse_duration_ms",
    "parse_time_ms",
    "show_distance",
    "show_span",
    "show_time",
    "time_ms",
]

PAST_MS_MAX: Final = 60_000
"""A time so long ago still means now."""

Duration = timedelta | float | str
"""A duration in a program: a number means seconds."""

_SPANS: Final = (("d", 86_400_000), ("h", 3_600_000), ("m", 60_000), ("s", 1_000))
_UNIT_MS: Final = {
    **dict.fromkeys(("ms", "millisecond", "milliseconds"), 1),
    **dict.fromkeys(("s", "sec", "secs", "second", "seconds"), 1_000),
    **dict.fromkeys(("m", "min", "mins", "minute", "minutes"), 60_000),
    **dict.fromkeys(("h", "hr", "hrs", "hour", "hours"), 3_600_000),
    **dict.fromkeys(("d", "day", "days"), 86_400_000),
    **dict.fromkeys(("w", "week", "weeks"), 604_800_000),
}
_NUMBER: Final = r"([0-9]{1,15}(?:\.[0-9]{1,9})?)"
_PART: Final = re.compile(rf"\s*{_NUMBER}\s*([a-z]+)")
_ISO: Final = re.compile(
    rf"P(?:{_NUMBER}W)?(?:{_NUMBER}D)?(?:T(?=[0-9])(?:{_NUMBER}H)?(?:{_NUMBER}M)?(?:{_NUMBER}S)?)?"
)
_ISO_UNITS: Final = ("w", "d", "h", "m", "s")
_DAYS: Final = ("monday", "tuesday", "wednesday", "thursday", "friday", "saturday", "sunday")
_DAY_TIME: Final = re.compile(r"([a-z]+)\s+([0-9]{1,2}):([0-9]{2})(?::([0-9]{2}))?")
_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
_MILLISECOND: Final = timedelta(milliseconds=1)


def parse_duration_ms(text: str) -> int:
    """A duration in milliseconds.

    >>> [parse_duration_ms(text) for text in ("1m30s", "1.5h", "1h 30m", "PT30M", "1w")]
    [90000, 5400000, 5400000, 1800000, 604800000]

    Raises:
        InvalidRequest: no duration, or one whose length is not fixed.
    """
    word = text.strip()
    parts = _iso_parts(word) if word.startswith("P") else _parts(word)
    if not parts:
        raise InvalidRequest(f"duration: expected {_expected(word)}, found {text!r}", found=text)
    return math.ceil(sum(Fraction(number) * _UNIT_MS[unit] for number, unit in parts))


def _parts(word: str) -> list[tuple[str, str]]:
    found = _PART.findall(word)
    is_whole = re.fullmatch(rf"(?:{_PART.pattern})+", word) is not None
    return found if is_whole and all(unit in _UNIT_MS for _, unit in found) else []


def _iso_parts(word: str) -> list[tuple[str, str]]:
    match = _ISO.fullmatch(word)
    numbers = match.groups() if match is not None else ()
    return [(number, unit) for number, unit in zip(numbers, _ISO_UNITS, strict=False) if number]


def _expected(word: str) -> str:
    if re.fullmatch(_NUMBER, word):
        return f"a number and its unit, such as {word}s for seconds or {word}m for minutes"
    if word.startswith("P"):
        return "weeks, days, hours, minutes and seconds, such as PT30M or P1DT12H"
    return "number and unit ms, s, m, h, d or w (such as 30s, 1.5h or 1h 30m)"


def duration_ms(value: Duration, *, name: str = "delay") -> int:
    """What a program says: a timedelta, a number of seconds, or text such as `30m`.

    >>> [duration_ms(value) for value in (timedelta(minutes=1), 0.5, "30m")]
    [60000, 500, 1800000]

    Raises:
        InvalidRequest: something else, or less than nothing.
    """
    if isinstance(value, str):
        return parse_duration_ms(value)
    if isinstance(value, timedelta):
        found_ms = -(-value // _MILLISECOND)
    elif isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value):
        seconds, parts = value.as_integer_ratio()
        found_ms = -(-seconds * 1_000 // parts)  # exact, and a fourth of a Fraction's time
    else:
        raise InvalidRequest(
            f"{name}: expected a timedelta, a number of seconds or text such as '30m', "
            f"found {value!r:.100}",
            field=name,
        )
    if found_ms < 0:
        raise InvalidRequest(f"{name}: expected 0 or more, found {value!r:.100}", field=name)
    return found_ms


def parse_time_ms(text: str) -> int:
    """A date, or a date and time, as milliseconds since 1970; local if no zone is said.

    >>> parse_time_ms("2027-01-01T10:00:00Z")
    1798797600000

    Raises:
        InvalidRequest: anything else, or a local time that is skipped or comes twice.
    """
    try:
        moment = datetime.fromisoformat(text)
    except ValueError as error:
        raise InvalidRequest(
            f"time: expected a date and time such as 2027-01-01T10:00 (local) or "
            f"2027-01-01T10:00+01:00, found {text!r}"
        ) from error
    if moment.tzinfo is None:
        _check_local(moment, text)
        moment = moment.astimezone()
    return _since_epoch_ms(moment)


def _check_local(moment: datetime, text: str) -> None:
    """Refuse local times that do not exist, or exist twice."""
    first, second = (moment.replace(fold=fold).astimezone() for fold in (0, 1))
    if first.astimezone(UTC) == second.astimezone(UTC):
        return
    offsets = f"{_iso(first)} or {_iso(second)}"
    if first.replace(tzinfo=None) != moment:
        raise InvalidRequest(
            f"time: {text} does not exist here: the clocks are set forward over it; "
            f"choose another, such as {offsets}"
        )
    raise InvalidRequest(
        f"time: {text} comes twice here, since the clocks are set back; say which: {offsets}"
    )


def _iso(moment: datetime) -> str:
    return moment.isoformat(timespec="minutes")


def time_ms(value: datetime | str, *, name: str = "deliver_at") -> int:
    """What a program says: a datetime with a time zone, or text as `parse_time_ms` reads it.

    Raises:
        InvalidRequest: no zone, or a time that its zone skips.
    """
    if isinstance(value, str):
        return parse_time_ms(value)
    if not isinstance(value, datetime):
        raise InvalidRequest(
            f"{name}: expected a datetime or text such as '2027-01-01T10:00+01:00', "
            f"found {value!r:.100}",
            field=name,
        )
    if value.tzinfo is None:
        raise InvalidRequest(
            f"{name}: expected a time with a time zone, found one without; "
            "use datetime.now(timezone.utc) or astimezone()",
            field=name,
        )
    if value.tzinfo is UTC:  # where every time exists
        return _since_epoch_ms(value)
    there = value.astimezone(UTC).astimezone(value.tzinfo)
    if there.replace(tzinfo=None, fold=0) != value.replace(tzinfo=None, fold=0):
        raise InvalidRequest(
            f"{name}: {value.replace(tzinfo=None).isoformat()} does not exist in {value.tzinfo}: "
            f"the clocks are set forward over it; choose another, such as {there.isoformat()}",
            field=name,
        )
    return _since_epoch_ms(value)


def future_ms(value: datetime | str, now_ms: int, *, name: str = "time") -> int:
    """A time that somebody names and that is to come; text may name a day of the next seven.

    A weekday is the next one at that time, today's if that has not passed.

    Raises:
        InvalidRequest: no time, or one that is over.
    """
    day = _DAY_TIME.fullmatch(value.strip().lower()) if isinstance(value, str) else None
    if day is not None and isinstance(value, str):
        at_ms = _day_time_ms(day, value, now_ms)
    else:
        at_ms = time_ms(value, name=name)
    check_not_past(at_ms, now_ms, name=name)
    return at_ms


def _day_time_ms(day: re.Match[str], text: str, now_ms: int) -> int:
    word, hour, minute, second = day.groups(default="0")
    clock = (int(hour), int(minute), int(second))
    distances = _distances(word, local(now_ms).weekday())
    if not distances or clock[0] > 23 or clock[1] > 59 or clock[2] > 59:
        raise InvalidRequest(
            f"time: expected today, tomorrow or a weekday in English and a time of day, such as "
            f"friday 10:00, found {text!r}"
        )
    for distance in distances:
        date = local(now_ms).date() + timedelta(days=distance)
        at_ms = parse_time_ms(f"{date}T{clock[0]:02}:{clock[1]:02}:{clock[2]:02}")
        if at_ms > now_ms:
            break
    return at_ms


def _distances(word: str, today: int) -> list[int]:
    """In how many days it is: a weekday of today is today, or in a week if its time has passed."""
    if word in ("today", "tomorrow"):
        return [int(word == "tomorrow")]
    found = [number for number, name in enumerate(_DAYS) if word in (name, name[:3])]
    return [(number - today) % 7 + week for number in found for week in (0, 7)]


def check_not_past(at_ms: int, now_ms: int, *, name: str = "time") -> None:
    """Refuse a time that somebody named and that is over.

    Raises:
        InvalidRequest: it is more than a minute ago.
    """
    if now_ms - at_ms > PAST_MS_MAX:
        raise InvalidRequest(
            f"{name}: expected a time to come, found {show_time(at_ms)}, "
            f"{show_span(now_ms - at_ms)} ago; for now, leave it out",
            field=name,
        )


def local(at_ms: int) -> datetime:
    """A moment in the local zone."""
    return (_EPOCH + timedelta(milliseconds=at_ms)).astimezone()


def show_time(at_ms: int) -> str:
    """Date, time and zone: `2027-01-01 10:00:00.000 CET`."""
    moment = local(at_ms)
    return f"{moment:%Y-%m-%d %H:%M:%S}.{at_ms % 1000:03d} {moment:%Z}"


def show_distance(at_ms: int, now_ms: int) -> str:
    """How far a time is from now.

    >>> [show_distance(at_ms, 100_000) for at_ms in (160_000, 100_000, 40_000)]
    ['in 1 m', 'in 0 ms', '1 m ago']
    """
    left_ms = at_ms - now_ms
    return f"in {show_span(left_ms)}" if left_ms >= 0 else f"{show_span(-left_ms)} ago"


def show_span(span_ms: int) -> str:
    """A span in its two largest units.

    >>> [show_span(ms) for ms in (0, 12, 1_500, 90_000, 7_500_000, -40)]
    ['0 ms', '12 ms', '1.5 s', '1 m 30 s', '2 h 5 m', '-40 ms']
    """
    if span_ms < 0:
        return f"-{show_span(-span_ms)}"
    if span_ms < 1_000:
        return f"{span_ms} ms"
    if span_ms < 60_000:
        return f"{span_ms / 1000:.3g} s"
    for (unit, unit_ms), (lesser, lesser_ms) in pairwise(_SPANS):
        if span_ms >= unit_ms:
            rest = span_ms % unit_ms // lesser_ms
            return f"{span_ms // unit_ms} {unit}" + (f" {rest} {lesser}" if rest else "")
    raise AssertionError(span_ms)


def _since_epoch_ms(moment: datetime) -> int:
    return -(-(moment - _EPOCH) // _MILLISECOND)
