"""One append to a log, from placing its records to indexing them: what all writers do alike.

    with Append(core, core.commit, sizes, numbers=control.NO_NUMBERS) as append:
        with core.lock:
            store_ms = append.stamp()         the gate stays shut from this time on
            …                                 queue offsets
        append.write(data)                    the records, their group's end, fsync
        with core.indexing():
            …                                 queues, timeline, keys

Making one finds a place and disk space, so a full disk is noticed before anything is written.
Records that were given `numbers` are one group, void without its end: a power cut leaves all of it
or nothing. The caller holds the log's lock throughout.

Nothing but this module sets `Core.in_flight_ms`, up to which the gate may open meanwhile: a record
that becomes visible must not come before one with an earlier store time.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterable, Iterator
from itertools import chain
from typing import Final, Generic, Self, TypeVar

import numpy as np
import numpy.typing as npt

from dueline.store import control
from dueline.store.core import Core
from dueline.store.files import Bytes, byte_view
from dueline.store.kernels import Int64s
from dueline.store.log import Log

__all__ = ["Append", "gate_shut"]

JOINED_SIZE_MAX: Final = 1 << 20

Rows = TypeVar("Rows", list[int], Int64s)
"""Few messages are placed with lists, which is quicker than arrays (`dueline.store.singles`)."""


class Append(Generic[Rows]):
    """An append that is under way.

    Attributes:
        positions: where the records go, without the end of their group.
    """

    __slots__ = ("_core", "_log", "_numbers", "_places", "_sizes", "_store_ms", "positions")

    def __init__(
        self,
        core: Core,
        log: Log,
        sizes: Rows,
        *,
        numbers: Int64s | None = None,
        may_spend: bool = False,
    ) -> None:
        """Find a place and disk space for records of these sizes; nothing is written.

        Args:
            numbers: what the end of their group lists; None: they are no group.
            may_spend: take space that the store keeps back, if there is no other.

        Raises:
            Unavailable: the disk is full; nothing was changed.
            StoreClosed: the disk failed; nothing was changed.
        """
        self._core = core
        self._log = log
        self._numbers = numbers
        self._sizes: Rows = sizes if numbers is None else _with_end(sizes, len(numbers))
        places, end = log.place(self._sizes)
        self._places: Rows = places
        self.positions: Rows = places if numbers is None else places[:-1]
        self._store_ms = 0
        core.reserve(log, end, may_spend=may_spend)

    def __enter__(self) -> Self:
        return self

    def stamp(self) -> int:
        """The store time of the records: now.

        For the commit log the caller holds `lock`, and the gate stays shut beyond this time.
        """
        self._store_ms = self._core.clock.now_ms()
        self.shut_gate(self._store_ms)
        return self._store_ms

    def shut_gate(self, first_ms: int) -> None:
        """Say that some records have an earlier store time than now: this one at least."""
        if self._log is self._core.commit:
            self._core.in_flight_ms = first_ms

    def write(self, data: Bytes) -> None:
        """Write the records' bytes, and their group's end; wait for the disk if the store is sync.

        Records that replace others are waited for in any case. Only the last group of a log is cut
        off without its end, and a power cut that takes the end from an earlier one would leave
        both: the messages, and those that they replace.

        Raises:
            StoreFailed: the write failed; the store is closed from now on.
        """
        if self._numbers is None or len(data) > JOINED_SIZE_MAX:
            self.write_parts([data])
        else:  # a copy is quicker than a second write
            self._write([b"".join((byte_view(data), self._group_end()))])

    @property
    def end_size(self) -> int:
        """How many bytes the end of their group takes."""
        return 0 if self._numbers is None else control.encoded_size(len(self._numbers))

    def write_with_room(self, data: npt.NDArray[np.uint8]) -> None:
        """As `write`, with room for their group's end, `end_size` bytes, behind the records."""
        if self._numbers is not None:
            data[len(data) - self.end_size :].data[:] = self._group_end()
        self._write([data])

    def write_parts(self, parts: Iterable[Bytes]) -> None:
        """As `write`, with the bytes in parts; each is written before the next one is asked for."""
        self._write(parts if self._numbers is None else chain(parts, [self._group_end()]))

    def _group_end(self) -> bytes:
        assert self._numbers is not None
        return control.group_end(self._places, self._store_ms, self._numbers)

    def _write(self, parts: Iterable[Bytes]) -> None:
        with self._core.closing_on_failure():
            self._log.append(self._places, self._sizes, parts)
            self._core.sync(self._log)
            if self._replaces and not self._core.is_sync:
                self._log.sync()

    @property
    def _replaces(self) -> bool:
        """Does the end of the group list messages that it replaces?"""
        is_listing = self._numbers is not None and len(self._numbers) > 0
        return is_listing and self._log is self._core.delay

    def __exit__(self, *_: object) -> None:
        if self._log is self._core.commit:
            self._core.in_flight_ms = None


@contextlib.contextmanager
def gate_shut(core: Core) -> Iterator[None]:
    """Open the gate up to now, then keep it shut: what waits now still waits at the end.

    The caller holds the commit lock, so that no append to that log is under way.
    """
    with core.lock:
        now_ms = core.clock.now_ms()
        core.open_gate(now_ms)
        core.in_flight_ms = now_ms
    try:
        yield
    finally:
        core.in_flight_ms = None


def _with_end(sizes: Rows, number_count: int) -> Rows:
    """The sizes of a group's records, and of its end."""
    size = control.encoded_size(number_count)
    if isinstance(sizes, list):
        return [*sizes, size]
    return np.concatenate((sizes, np.array([size], dtype=np.int64)))
