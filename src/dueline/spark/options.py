"""The options of the data source, parsed once and strictly.

Spark hands options over as strings with names in any case. A name that is not known, a value that
is not of its kind and a missing broker are errors, with the name and what was expected: an option
that is silently ignored is found out about in production.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Final, Self

from dueline.errors import InvalidRequest
from dueline.spark.schema import MESSAGE_COLUMNS
from dueline.times import parse_duration_ms

__all__ = ["Options"]

_SPARK_OWN: Final = frozenset({"checkpointlocation", "path", "queryname", "outputmode"})
"""Options that Spark puts beside ours."""

_ADDRESS: Final = re.compile(r"(\[[0-9a-fA-F:.]+\]|[^\s:,\[\]]+):([0-9]{1,5})")


@dataclass(frozen=True, slots=True, kw_only=True)
class Options:
    """What a user may say about a read or a write; the comments are the reference."""

    brokers: tuple[str, ...]
    """Flight addresses, `host:port,host:port`: one for each shard. Required."""

    columns: tuple[str, ...] = tuple(MESSAGE_COLUMNS.names)
    """Stream read: the columns that rows have, beside those that they always have."""

    ahead_ms: int = 5_000
    """Stream read, `ahead`: how long before its due time a message may be carried over."""

    lead_ms: int = 1_500
    """Stream read, `lead`: a batch is started when a message is due so soon; what a batch takes."""

    wait_ms: int = 1_000
    """Stream read, `wait`: how long one question may wait for an answer while nothing is due."""

    keep_warm_ms: int | None = None
    """Stream read, `keep_warm`: run a batch without rows after so long a rest; off by default."""

    row_count_max: int = 200_000
    """Stream read: the most rows of one shard in a batch; its broker bounds the bytes."""

    slice_count_max: int = 4
    """Stream and batch read: the most partitions of one shard."""

    slice_row_count_min: int = 20_000
    """Stream and batch read: no task for fewer rows than this, if another can take them."""

    transport: str = "auto"
    """Stream read: `files` maps the delay log (same machine), `flight` never does, `auto` looks."""

    is_transformed: bool = True
    """Stream read, `transformed`: may the query do other than pass messages on?"""

    missing: str = "error"
    """Stream write: rows that were read and did not arrive. `drop` if a transform may filter."""

    view: str | None = None
    """Batch read: `pending` is what waits, `messages` what consumers of a topic can read, `ledger`
    every delayed message within retention, with its outcome."""

    topic: str | None = None
    """Batch read of `messages`: the topic; a filter on the column does as well."""

    action: str | None = None
    """Batch write of rows of `view=pending`: `cancel`, `deliver` (now) or `reschedule`."""

    shift_ms: int | None = None
    """Batch write, `shift` with `action=reschedule`: by so much later, or earlier: `-1h`."""

    rejects: str | None = None
    """Batch write: a folder for rows that cannot be accepted; without it, one fails the job."""

    report: str | None = None
    """Batch write: a file on the driver's machine that gets the counts, as JSON."""

    @classmethod
    def parse(cls, given: Mapping[str, str]) -> Self:
        """Read Spark's options.

        Raises:
            InvalidRequest: unknown, missing or malformed options.
        """
        values: dict[str, Any] = {}
        for name, text in given.items():
            if name.lower() in _SPARK_OWN:
                continue
            if name.lower() not in _PARSERS:
                raise InvalidRequest(
                    f"option {name}: expected one of {', '.join(sorted(_PARSERS))}", option=name
                )
            field, parse = _PARSERS[name.lower()]
            values[field] = parse(name, text)
        if "brokers" not in values:
            raise InvalidRequest(
                "option brokers: expected host:port of the broker's Flight service, such as "
                "127.0.0.1:8815, found nothing",
                option="brokers",
            )
        return cls(**values)


def _addresses(name: str, text: str) -> tuple[str, ...]:
    addresses = tuple(part.strip() for part in text.split(",") if part.strip())
    for address in addresses:
        match = _ADDRESS.fullmatch(address)
        if match is None or not 0 < int(match.group(2)) < 65_536:
            raise InvalidRequest(f"option {name}: expected host:port, found {address!r}")
    if not addresses or len(set(addresses)) != len(addresses):
        raise InvalidRequest(f"option {name}: expected different addresses, found {text!r}")
    return addresses


def _columns(name: str, text: str) -> tuple[str, ...]:
    columns = tuple(part.strip() for part in text.split(","))
    unknown = [column for column in columns if column not in MESSAGE_COLUMNS.names]
    if unknown:
        raise InvalidRequest(
            f"option {name}: expected some of {', '.join(MESSAGE_COLUMNS.names)}, found {unknown}",
            option=name,
        )
    return columns


def _duration(name: str, text: str) -> int:
    try:
        return parse_duration_ms(text)
    except InvalidRequest as error:
        raise InvalidRequest(f"option {name}: {error.message}", option=name) from error


def _flag(name: str, text: str) -> bool:
    if text in ("true", "false"):
        return text == "true"
    raise InvalidRequest(f"option {name}: expected true or false, found {text!r}", option=name)


def _shift(name: str, text: str) -> int:
    is_earlier = text.startswith("-")
    span_ms = _duration(name, text[is_earlier:])
    return -span_ms if is_earlier else span_ms


def _positive(name: str, text: str) -> int:
    if text.isascii() and text.isdigit() and 0 < int(text) < 1 << 53:
        return int(text)
    raise InvalidRequest(f"option {name}: expected a number above 0, found {text!r}", option=name)


def _text(name: str, text: str) -> str:
    if text:
        return text
    raise InvalidRequest(f"option {name}: expected a value, found nothing", option=name)


def _one_of(*allowed: str) -> Callable[[str, str], str]:
    def parse(name: str, text: str) -> str:
        if text in allowed:
            return text
        raise InvalidRequest(
            f"option {name}: expected {' or '.join(allowed)}, found {text!r}", option=name
        )

    return parse


_PARSERS: Final[dict[str, tuple[str, Callable[[str, str], Any]]]] = {
    "brokers": ("brokers", _addresses),
    "columns": ("columns", _columns),
    "ahead": ("ahead_ms", _duration),
    "lead": ("lead_ms", _duration),
    "wait": ("wait_ms", _duration),
    "keep_warm": ("keep_warm_ms", _duration),
    "row_count_max": ("row_count_max", _positive),
    "slice_count_max": ("slice_count_max", _positive),
    "slice_row_count_min": ("slice_row_count_min", _positive),
    "transport": ("transport", _one_of("auto", "flight", "files")),
    "transformed": ("is_transformed", _flag),
    "missing": ("missing", _one_of("error", "drop")),
    "view": ("view", _one_of("pending", "messages", "ledger")),
    "topic": ("topic", _text),
    "action": ("action", _one_of("cancel", "deliver", "reschedule")),
    "shift": ("shift_ms", _shift),
    "rejects": ("rejects", _text),
    "report": ("report", _text),
}
