"""Times and distances as people write them into forms and queries."""

from __future__ import annotations

from dueline.errors import InvalidRequest
from dueline.times import future_ms, parse_duration_ms, parse_time_ms

__all__ = ["moment_ms", "shift_ms"]


def moment_ms(text: str, now_ms: int, *, name: str) -> int:
    """A time: `now`, `+2h`, `-30m`, `tomorrow 9:00`, `2027-01-01T10:00Z`, or ms since 1970.

    >>> [moment_ms(text, 5_000, name="x") for text in ("now", "+1s", "-2s", "7000")]
    [5000, 6000, 3000, 7000]

    Raises:
        InvalidRequest: it is none; says what was expected.
    """
    word = text.strip()
    if word == "now":
        return now_ms
    if word[:1] in ("+", "-"):
        return now_ms + shift_ms(word, name=name)
    if word.isascii() and word.isdigit() and len(word) < 16:
        return int(word)
    try:
        return parse_time_ms(word)
    except InvalidRequest:
        try:
            return future_ms(word, now_ms, name=name)
        except InvalidRequest as error:
            raise InvalidRequest(f"{name}: {error.message}", field=name) from error


def shift_ms(text: str, *, name: str) -> int:
    """A distance, forward or backward.

    >>> shift_ms("1h", name="x"), shift_ms("-30m", name="x")
    (3600000, -1800000)

    Raises:
        InvalidRequest: it is none; says what was expected.
    """
    word = text.strip()
    try:
        found = parse_duration_ms(word.lstrip("+-"))
    except InvalidRequest as error:
        raise InvalidRequest(f"{name}: {error.message}", field=name) from error
    return -found if word.startswith("-") else found
