"""When a message is due: delay levels, arbitrary delays, absolute times.

A producer says *when* through message properties, as RocketMQ's clients do. In order of precedence:

    DELAY             a level, 1 … n of the configured table (more than n means n);
                      0 or less: not delayed
    TIMER_DELAY_SEC   seconds from acceptance
    TIMER_DELAY_MS    milliseconds from acceptance
    TIMER_DELIVER_MS  an absolute time in milliseconds since 1970

A message that waits keeps its due time in TIMER_OUT_MS, or else its level, and where it goes in
REAL_TOPIC and REAL_QID.

The answer is a `Due`: the promise that is fixed when the message is accepted. A time that is not
in the future means "now", which is an ordinary message. Pure functions; no clock is read here.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from dueline.errors import InvalidRequest, LimitExceeded
from dueline.message import LEVEL_MAX
from dueline.times import show_span

__all__ = [
    "DEFAULT_LEVELS",
    "DELAY_MAX_MS_DEFAULT",
    "DELAY_NAMES",
    "DUE_NAME",
    "LEVEL_NAME",
    "REAL_QUEUE_NAME",
    "REAL_TOPIC_NAME",
    "TIMER_NAMES",
    "WAITING_NAMES",
    "DelayLevels",
    "Due",
    "due_of",
    "too_far",
]

LEVEL_NAME: Final = "DELAY"
TIMER_NAMES: Final = ("TIMER_DELAY_SEC", "TIMER_DELAY_MS", "TIMER_DELIVER_MS")
DELAY_NAMES: Final = frozenset((LEVEL_NAME, *TIMER_NAMES))
"""The properties by which a sender says when a message is due."""
DUE_NAME: Final = "TIMER_OUT_MS"
REAL_TOPIC_NAME: Final = "REAL_TOPIC"
REAL_QUEUE_NAME: Final = "REAL_QID"
WAITING_NAMES: Final = DELAY_NAMES | {DUE_NAME, REAL_TOPIC_NAME, REAL_QUEUE_NAME}
"""What the record of a message that waits may have, and the message itself has not."""

DEFAULT_LEVELS: Final = "1s 5s 10s 30s 1m 2m 3m 4m 5m 6m 7m 8m 9m 10m 20m 30m 1h 2h"
DELAY_MAX_MS_DEFAULT: Final = 10 * 366 * 86_400_000
_UNIT_MS: Final = {"s": 1_000, "m": 60_000, "h": 3_600_000, "d": 86_400_000}
_LEVEL_UNITS: Final = frozenset("smhd")
_DIGITS_MAX: Final = 18


@dataclass(frozen=True, slots=True, kw_only=True)
class Due:
    """A fixed promise: not before `due_ms`. `level` is 0 for an arbitrary time."""

    due_ms: int
    level: int


@dataclass(frozen=True, slots=True)
class DelayLevels:
    """The configured table of delays; level n is entry n - 1.

    >>> DelayLevels.parse("1s 5s 2h").delay_ms(9)
    7200000
    """

    delays_ms: tuple[int, ...]

    @classmethod
    def parse(cls, text: str) -> DelayLevels:
        """Read RocketMQ's `messageDelayLevel` syntax: numbers with a unit s, m, h or d."""
        words = text.split()
        if not words:
            raise InvalidRequest("delay levels: expected at least one, such as '1s 5s', found none")
        if len(words) > LEVEL_MAX:
            raise InvalidRequest(
                f"delay levels: expected at most {LEVEL_MAX}, found {len(words)}", found=len(words)
            )
        return cls(tuple(_parse_level(word) for word in words))

    @property
    def level_max(self) -> int:
        return len(self.delays_ms)

    def clamp(self, level: int) -> int:
        """The level that is really used: at most the table's last."""
        return min(level, self.level_max)

    def delay_ms(self, level: int) -> int:
        """The delay of a level of 1 or more, clamped to the table."""
        return self.delays_ms[self.clamp(level) - 1]

    def __str__(self) -> str:
        return " ".join(_format_level(delay_ms) for delay_ms in self.delays_ms)


def due_of(
    properties: Mapping[str, str], *, now_ms: int, levels: DelayLevels, delay_max_ms: int
) -> Due | None:
    """When a message with these properties is due, or None if it is an ordinary one.

    Raises:
        InvalidRequest: a delay property that is not a whole number.
        LimitExceeded: further away than `delay_max_ms`.
    """
    if LEVEL_NAME in properties:
        level = _whole_number(LEVEL_NAME, properties[LEVEL_NAME])
        if level > 0:
            level = levels.clamp(level)
            return Due(due_ms=now_ms + levels.delay_ms(level), level=level)
    due_ms = _timer_due_ms(properties, now_ms)
    if due_ms is None or due_ms <= now_ms:
        return None
    if due_ms - now_ms > delay_max_ms:
        raise too_far(due_ms - now_ms, delay_max_ms)
    return Due(due_ms=due_ms, level=0)


def too_far(delay_ms: int, delay_max_ms: int, *, where: str = "", **place: int) -> LimitExceeded:
    """The error for a delay that is too long."""
    most, found = show_span(delay_max_ms), show_span(delay_ms)
    return LimitExceeded(
        f"{where}delay: expected at most {most}, found {found if found != most else 'more'}; "
        "choose an earlier time or raise the broker's setting store.delay_max",
        field="delay",
        limit=delay_max_ms,
        found=delay_ms,
        **place,
    )


def _timer_due_ms(properties: Mapping[str, str], now_ms: int) -> int | None:
    if "TIMER_DELAY_SEC" in properties:
        return now_ms + 1_000 * _whole_number("TIMER_DELAY_SEC", properties["TIMER_DELAY_SEC"])
    if "TIMER_DELAY_MS" in properties:
        return now_ms + _whole_number("TIMER_DELAY_MS", properties["TIMER_DELAY_MS"])
    if "TIMER_DELIVER_MS" in properties:
        return _whole_number("TIMER_DELIVER_MS", properties["TIMER_DELIVER_MS"])
    return None


def _whole_number(name: str, text: str) -> int:
    digits = text[1:] if text[:1] == "-" else text
    if digits.isascii() and digits.isdigit() and len(digits) <= _DIGITS_MAX:
        return int(text)
    raise InvalidRequest(
        f"property {name}: expected a whole number of at most {_DIGITS_MAX} digits, found {text!r}",
        field=name,
        found=text,
    )


def _parse_level(word: str) -> int:
    number, unit = word[:-1], word[-1]
    if unit in _LEVEL_UNITS and number.isascii() and number.isdigit() and int(number[:19]) > 0:
        return int(number) * _UNIT_MS[unit]
    raise InvalidRequest(
        f"delay levels: expected a number above 0 with unit s, m, h or d, found {word!r}",
        found=word,
    )


def _format_level(delay_ms: int) -> str:
    for unit in "dhms":
        if delay_ms % _UNIT_MS[unit] == 0:
            return f"{delay_ms // _UNIT_MS[unit]}{unit}"
    return f"{delay_ms}ms"
