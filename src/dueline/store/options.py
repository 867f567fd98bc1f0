"""The store's options, with their defaults and limits, in one typed place."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from dueline.errors import InvalidRequest
from dueline.message import BODY_SIZE_LIMIT, BODY_SIZE_MAX_DEFAULT, pack_host
from dueline.schedule import DEFAULT_LEVELS, DELAY_MAX_MS_DEFAULT, DelayLevels
from dueline.store.consume_queue import FILE_UNITS_DEFAULT
from dueline.store.draft import Rules
from dueline.store.log import SEGMENT_SIZE_BYTES_DEFAULT, SEGMENT_SIZE_BYTES_MAX
from dueline.store.room import RoomOptions
from dueline.store.thresholds import USUAL, Thresholds
from dueline.store.timeline import OPEN_UNITS_MAX_DEFAULT

__all__ = ["StoreOptions"]

_SEGMENT_SIZE_BYTES_MIN = 4096
_LEAST = {
    "queue_file_units": 1,
    "delay_max_ms": 1,
    "body_size_max": 1,
    "open_units_max": 1,
    "window_size_bytes_max": 1,
    "retention_ms": 0,
    "order_wait_ms": 0,
    "reserve_size_bytes": 0,
}

_ROW_EXTRA_BYTES: Final = 18 << 10
"""Header, topic, the longest properties of a row, and what is kept for its delivery."""


@dataclass(frozen=True, slots=True, kw_only=True)
class StoreOptions:
    """How a store is laid out and what it accepts.

    Attributes:
        flush: "sync" answers a put when it is on disk. "async" answers when the operating system
            has it: a power cut may then lose the last moments, a crash of the process alone does
            not.
    """

    commit_segment_size_bytes: int = SEGMENT_SIZE_BYTES_DEFAULT
    delay_segment_size_bytes: int = SEGMENT_SIZE_BYTES_DEFAULT
    queue_file_units: int = FILE_UNITS_DEFAULT
    flush: str = "sync"
    levels: str = DEFAULT_LEVELS
    delay_max_ms: int = DELAY_MAX_MS_DEFAULT
    body_size_max: int = BODY_SIZE_MAX_DEFAULT
    open_units_max: int = OPEN_UNITS_MAX_DEFAULT
    window_size_bytes_max: int = 256 << 20
    retention_ms: int = 72 * 3_600_000
    order_wait_ms: int = 5_000
    disk_used_ratio_max: float = 0.90
    delete_early: bool = False
    reserve_size_bytes: int = 0
    compact_live_ratio: float = 0.10
    host: str = "127.0.0.1"
    port: int = 10911
    thresholds: Thresholds = USUAL

    @property
    def row_body_size_max(self) -> int:
        """Rows with bodies of this size fit into both logs; below 0: none does."""
        smaller = min(self.commit_segment_size_bytes, self.delay_segment_size_bytes)
        return min(self.body_size_max, smaller - _ROW_EXTRA_BYTES)

    def check(self) -> None:
        """Refuse values that cannot work.

        Raises:
            InvalidRequest: names the option, what was expected and what was found.
        """
        for name in ("commit_segment_size_bytes", "delay_segment_size_bytes"):
            value = getattr(self, name)
            if not _SEGMENT_SIZE_BYTES_MIN <= value <= SEGMENT_SIZE_BYTES_MAX:
                raise _bad(name, f"{_SEGMENT_SIZE_BYTES_MIN} to {SEGMENT_SIZE_BYTES_MAX}", value)
        if self.flush not in ("sync", "async"):
            raise _bad("flush", "'sync' or 'async'", self.flush)
        for name, least in _LEAST.items():
            if getattr(self, name) < least:
                raise _bad(name, f"at least {least}", getattr(self, name))
        if self.body_size_max > BODY_SIZE_LIMIT:
            raise _bad("body_size_max", f"at most {BODY_SIZE_LIMIT}", self.body_size_max)
        if not 0 <= self.port <= 65_535:
            raise _bad("port", "0 to 65535", self.port)
        for name in ("disk_used_ratio_max", "compact_live_ratio"):
            if not 0 <= getattr(self, name) <= 1:
                raise _bad(name, "0 to 1", getattr(self, name))
        DelayLevels.parse(self.levels)
        pack_host(self.host, self.port)

    @property
    def room(self) -> RoomOptions:
        return RoomOptions(
            reserve_size_bytes=self.reserve_size_bytes,
            used_ratio_max=self.disk_used_ratio_max,
            is_deleting=self.delete_early,
        )

    @property
    def rules(self) -> Rules:
        return Rules(
            levels=DelayLevels.parse(self.levels),
            delay_max_ms=self.delay_max_ms,
            body_size_max=self.body_size_max,
        )


def _bad(name: str, expected: str, found: object) -> InvalidRequest:
    return InvalidRequest(f"{name}: expected {expected}, found {found!r}", field=name)
