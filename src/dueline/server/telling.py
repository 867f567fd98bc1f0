"""What the parent of `dueline serve` and its broker tell each other: a JSON object per line.

The parent writes orders to the broker's standard input and reads what it tells from its standard
output. The first order is `Begin`. The end of the input means that the parent has died.

    {"type":"begin","settings":{"data":"dueline-data",…}}
    {"type":"accepting","address":"127.0.0.1:8815",…}
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any, Final

import msgspec

from dueline.config import Config, settings

__all__ = [
    "Accepting",
    "AskFigures",
    "Begin",
    "Event",
    "Failed",
    "Filled",
    "Order",
    "PipelineIs",
    "PipelineReady",
    "PipelineTrouble",
    "Prepare",
    "Prepared",
    "Ready",
    "Refused",
    "ServingFigures",
    "Stop",
    "decode_event",
    "decode_order",
    "encode",
    "from_values",
    "to_values",
]


class _Line(msgspec.Struct, frozen=True, kw_only=True, tag_field="type", tag=str.lower):
    """A line; its type is the name of the class."""


# --- orders ---------------------------------------------------------------------------------------


class Begin(_Line, frozen=True, kw_only=True):
    """Open the store with these settings, by name, and serve."""

    settings: dict[str, Any]


class Prepare(_Line, frozen=True, kw_only=True):
    """Before `Begin`: load all that a broker with these settings uses, then tell `Prepared`."""

    settings: dict[str, Any]


class AskFigures(_Line, frozen=True, kw_only=True):
    """How is it going? The answer is `ServingFigures`."""


class PipelineIs(_Line, frozen=True, kw_only=True):
    """What the parent sees of the pipeline's process."""

    status: str
    pid: int | None
    start_count: int
    reason: str


class PipelineTrouble(_Line, frozen=True, kw_only=True):
    """The pipeline's process complained."""

    error: str


class Stop(_Line, frozen=True, kw_only=True):
    """Let the pipeline fill the runway, accept nothing new, tell `Filled`, close, end.

    `fills`: False if the pipeline goes on, for the broker that comes next.
    """

    fills: bool = True


# --- what the broker tells ------------------------------------------------------------------------


class Accepting(_Line, frozen=True, kw_only=True):
    """It serves. Addresses have the ports that were really taken; None is a door that is off."""

    address: str
    local_address: str
    name_server: str | None
    remoting: str | None
    grpc: str | None
    vip: str | None = None
    waiting_count: int
    cut_bytes: int
    damage_count: int
    file_count_max: int


class ServingFigures(_Line, frozen=True, kw_only=True):
    """The few figures of the status line; `dueline stats` has them all."""

    now_ms: int
    sent: int
    delivered: int
    dropped: int
    pending: int
    at_gate: int
    overdue: int
    next_due_ms: int | None
    late_count: int
    late_p50_ms: int | None
    late_p99_ms: int | None
    late_max_ms: int | None
    pipeline: str
    error: str


class PipelineReady(_Line, frozen=True, kw_only=True):
    """The pipeline has finished a batch: what is due now can be delivered."""


class Prepared(_Line, frozen=True, kw_only=True):
    """It has loaded what it needs, and waits for `Begin`."""


class Refused(_Line, frozen=True, kw_only=True):
    """It cannot start; it ends with status 2."""

    message: str


class Failed(_Line, frozen=True, kw_only=True):
    """It cannot go on; it ends with status 1."""

    message: str


class Filled(_Line, frozen=True, kw_only=True):
    """It needs the pipeline no longer; next it closes the store."""


class Ready(_Line, frozen=True, kw_only=True):
    """Of any other child: it does its work; `text` is a line for people."""

    text: str = ""


Order = Begin | Prepare | AskFigures | PipelineIs | PipelineTrouble | Stop
Event = Ready | Prepared | Accepting | ServingFigures | PipelineReady | Refused | Failed | Filled

_ENCODER: Final = msgspec.json.Encoder()
_ORDERS: Final[msgspec.json.Decoder[Order]] = msgspec.json.Decoder(Order)
_EVENTS: Final[msgspec.json.Decoder[Event]] = msgspec.json.Decoder(Event)


def encode(line: Order | Event) -> bytes:
    """A line, with its end."""
    return _ENCODER.encode(line) + b"\n"


def decode_order(line: bytes) -> Order:
    """Raises `msgspec.MsgspecError` for what is no order."""
    return _ORDERS.decode(line)


def decode_event(line: bytes) -> Event | None:
    """None for what is no event: a library's own words, which belong into the log."""
    try:
        return _EVENTS.decode(line)
    except msgspec.MsgspecError:
        return None


def to_values(config: Config) -> dict[str, Any]:
    """A configuration as plain values by name."""
    return {each.name: each.value_in(config) for each in settings()}


def from_values(values: Mapping[str, Any]) -> Config:
    """The configuration that `to_values` was given.

    A parent of the version before, which runs on after an upgrade, does not know every setting.
    """
    sections: dict[str, dict[str, Any]] = {"": {}}
    for each in settings():
        if each.name in values:
            sections.setdefault(each.section, {})[each.field] = values[each.name]
    config = Config(**sections.pop(""))
    inner = {name: replace(getattr(config, name), **fields) for name, fields in sections.items()}
    return replace(config, **inner)
