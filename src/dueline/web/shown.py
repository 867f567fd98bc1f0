"""How values look on pages: the filters of the templates."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Final

from dueline.times import show_span

__all__ = ["FILTERS"]

_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
_YEAR_9999_MS: Final = 253_402_300_799_999
_TONES: Final = {
    "pending": "on",
    "carried over": "on",
    "delivered": "good",
    "done": "good",
    "running": "on",
    "waiting": "warn",
    "stopped": "warn",
    "failed": "bad",
    "dropped": "warn",
    "expired": "warn",
}
_PREVIEW_LENGTH: Final = 120
_ENDING_LENGTH: Final = 12


def _moment(ms: int) -> datetime:
    return _EPOCH + timedelta(milliseconds=min(max(ms, 0), _YEAR_9999_MS))


def iso(ms: int) -> str:
    """For machines.

    >>> iso(1_500)
    '1970-01-01T00:00:01.500Z'
    """
    return f"{_moment(ms):%Y-%m-%dT%H:%M:%S}.{ms % 1000:03d}Z"


def utc(ms: int) -> str:
    """For people whose browser does not show their own zone.

    >>> utc(1_500)
    '1970-01-01 00:00:01.500 UTC'
    """
    return f"{_moment(ms):%Y-%m-%d %H:%M:%S}.{ms % 1000:03d} UTC"


def count(number: float) -> str:
    """With marks between thousands.

    >>> count(1234567)
    '1,234,567'
    """
    return f"{number:,}"


def size(size_bytes: int) -> str:
    """In the unit that suits it.

    >>> [size(each) for each in (17, 2_048, 5 << 30)]
    ['17 B', '2.0 KiB', '5.0 GiB']
    """
    value = float(size_bytes)
    for unit in ("B", "KiB", "MiB", "GiB"):
        if value < 1024:
            return f"{int(value)} B" if unit == "B" else f"{value:.1f} {unit}"
        value /= 1024
    return f"{value:.1f} TiB"


def shift(ms: int) -> str:
    """A distance with its sign.

    >>> shift(3_600_000), shift(-60_000)
    ('+1 h', '-1 m')
    """
    return f"{'-' if ms < 0 else '+'}{show_span(abs(ms))}"


def tone(word: str) -> str:
    """How a state is coloured."""
    return _TONES.get(word, "")


def preview(body: bytes) -> str:
    """The beginning of a body on one line."""
    text = body[: 4 * _PREVIEW_LENGTH].decode("utf-8", "backslashreplace")
    return " ".join(text.split())[:_PREVIEW_LENGTH]


def ending(unique_id: str) -> str:
    """The end of an id: where those of one sender differ.

    >>> ending("7F000001687D28E11C83EB24697E0424"), ending("order-17")
    ('…EB24697E0424', 'order-17')
    """
    is_short = len(unique_id) <= _ENDING_LENGTH + 1
    return unique_id if is_short else f"…{unique_id[-_ENDING_LENGTH:]}"


FILTERS: Final = {
    "iso": iso,
    "utc": utc,
    "span": show_span,
    "count": count,
    "size": size,
    "shift": shift,
    "tone": tone,
    "preview": preview,
    "ending": ending,
}
