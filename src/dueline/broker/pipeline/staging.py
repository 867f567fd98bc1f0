"""Rows that tasks have sent and the driver has not committed yet, by token.

A token names one attempt of one task. Attempts die, so what nobody commits or discards is forgotten
after a while, and what all attempts together may keep in memory is bounded: beyond that a task is
refused, Spark retries it, and a pipeline that stages more than its broker can hold fails with a
message that says which number to change. What counts is the memory that is really held: whole
message bodies, however little of them the columns use, and something for each batch and token.

Rows come from outside: each batch is checked (`dueline.store.schema.sound`) before it is kept. What
they say is looked at when they are committed: a ROUTED row has nothing of a record in it.

Any thread may call; a token is written by one stream at a time.
"""

from __future__ import annotations

import threading
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Final

import pyarrow as pa

from dueline.clock import Clock
from dueline.errors import InvalidRequest, LimitExceeded, NotFound
from dueline.store.schema import ROUTE_NAMES, SCHEDULE_SCHEMA, routed_schema, sound

__all__ = ["Staging", "known_schema"]

SIZE_BYTES_MAX_DEFAULT: Final = 1 << 30
AGE_MS_MAX_DEFAULT: Final = 10 * 60_000
TOKEN_SIZE_MAX: Final = 256

STAGE_OVERHEAD_BYTES: Final = 2_048
BATCH_OVERHEAD_BYTES: Final = 8_192
"""What a token and a batch take beside their bytes: objects, in Python and in Arrow."""


@dataclass(slots=True, kw_only=True)
class _Stage:
    schema: pa.Schema
    touched_ms: int
    batches: list[pa.RecordBatch] = field(default_factory=list)
    row_count: int = 0
    size_bytes: int = 0
    is_complete: bool = False


class Staging:
    """Staged rows in memory, bounded in bytes and age."""

    def __init__(
        self,
        clock: Clock,
        *,
        size_bytes_max: int = SIZE_BYTES_MAX_DEFAULT,
        age_ms_max: int = AGE_MS_MAX_DEFAULT,
    ) -> None:
        self._clock = clock
        self._size_bytes_max: Final = size_bytes_max
        self._age_ms_max: Final = age_ms_max
        self._stages: dict[str, _Stage] = {}
        self._lock = threading.Lock()
        self.size_bytes = 0

    def keep(self, token: str, schema: pa.Schema, batches: Iterable[pa.RecordBatch]) -> int:
        """Keep a stream of rows under a token, checked as they come; returns how many.

        Raises:
            InvalidRequest: the token is in use or no token of ours, or rows are not sound.
            LimitExceeded: all stages together would be too large.
            NotFound: the stage was discarded in the meantime.
        """
        with self.writing(token, schema):
            for batch in batches:
                self.add(token, batch)
        return self.row_count(token)

    @contextmanager
    def writing(self, token: str, schema: pa.Schema) -> Iterator[None]:
        """The life of one stream: complete if the block ends well, forgotten if it raises.

        Raises:
            InvalidRequest: the token is in use, or no token of ours.
            LimitExceeded: all stages together would be too large.
        """
        if not 0 < len(token) <= TOKEN_SIZE_MAX:
            raise InvalidRequest(
                f"token: expected 1 to {TOKEN_SIZE_MAX} characters, found {len(token)}"
            )
        with self._lock:
            self._expire()
            if token in self._stages:
                raise InvalidRequest(
                    f"token {token!r}: expected a new one, found it in use; a token belongs to one "
                    "attempt of one task",
                    token=token,
                )
            stage = _Stage(schema=schema, touched_ms=self._clock.now_ms())
            self._reserve(stage, STAGE_OVERHEAD_BYTES)
            self._stages[token] = stage
        try:
            yield
        except BaseException:
            self.discard([token])
            raise
        with self._lock:
            if self._stages.get(token) is stage:
                stage.is_complete = True

    def add(self, token: str, batch: pa.RecordBatch) -> None:
        """Keep one batch of the token's stream.

        Raises:
            InvalidRequest: rows that are not sound.
            LimitExceeded: all stages together would be too large.
            NotFound: the stage was discarded in the meantime.
        """
        if not batch.num_rows:
            return
        with self._lock:
            stage = self._stage(token)
            self._reserve(stage, BATCH_OVERHEAD_BYTES + _held_bytes(batch))
        batch = sound(batch, stage.schema)
        with self._lock:
            if self._stage(token) is not stage:
                raise NotFound(f"token {token!r}: expected one stream, found another since")
            stage.batches.append(batch)
            stage.row_count += batch.num_rows
            stage.touched_ms = self._clock.now_ms()

    def _reserve(self, stage: _Stage, size_bytes: int) -> None:
        """Count bytes to a stage; the caller holds the lock."""
        found = self.size_bytes + size_bytes
        if found > self._size_bytes_max:
            raise LimitExceeded(
                f"staged rows: expected at most {self._size_bytes_max} bytes, found {found}; let "
                "the source take fewer rows at a time (option row_count_max) or give the broker "
                "more memory for them",
                limit=self._size_bytes_max,
                found=found,
            )
        stage.size_bytes += size_bytes
        self.size_bytes = found

    def row_count(self, token: str) -> int:
        with self._lock:
            return self._stage(token).row_count

    def take_routed(self, tokens: Sequence[str]) -> list[pa.RecordBatch]:
        """As `take`, for ROUTED rows, which have the same columns under all tokens of a batch."""
        with self._lock:
            first = self._stage(tokens[0]).schema if tokens else routed_schema()
        return self.take(tokens, routed_schema(first.names))

    def take(self, tokens: Sequence[str], schema: pa.Schema) -> list[pa.RecordBatch]:
        """Remove and return the batches of these tokens, in the order of the tokens.

        Raises:
            NotFound: a token is unknown, too old or incomplete; then nothing is removed.
            InvalidRequest: a token has rows of another schema; then nothing is removed.
        """
        with self._lock:
            stages = [self._stage(token) for token in tokens]
            for token, stage in zip(tokens, stages, strict=True):
                if not stage.is_complete:
                    raise NotFound(f"token {token!r}: expected all its rows, found a part of them")
                if not stage.schema.equals(schema):
                    raise InvalidRequest(
                        f"token {token!r}: expected rows of {schema.names}, found "
                        f"{stage.schema.names}",
                        token=token,
                    )
            self._drop(tokens)
        return [batch for stage in stages for batch in stage.batches]

    def discard(self, tokens: Iterable[str]) -> int:
        """Forget these tokens; returns how many were known."""
        with self._lock:
            return self._drop(tokens)

    def __len__(self) -> int:
        with self._lock:
            self._expire()
            return len(self._stages)

    def _stage(self, token: str) -> _Stage:
        stage = self._stages.get(token)
        if stage is None:
            raise NotFound(
                f"token {token!r}: expected staged rows, found none; they were committed, "
                f"discarded, older than {self._age_ms_max} ms, or the broker was restarted",
                token=token,
            )
        return stage

    def _expire(self) -> None:
        oldest_ms = self._clock.now_ms() - self._age_ms_max
        self._drop([token for token, stage in self._stages.items() if stage.touched_ms < oldest_ms])

    def _drop(self, tokens: Iterable[str]) -> int:
        dropped = [stage for token in tokens if (stage := self._stages.pop(token, None))]
        self.size_bytes -= sum(stage.size_bytes for stage in dropped)
        return len(dropped)


def _held_bytes(batch: pa.RecordBatch) -> int:
    """The memory that a batch keeps alive: its buffers are mostly parts of one message body."""
    held: dict[int, int] = {}
    for column in batch.columns:
        for buffer in column.buffers():
            while buffer is not None:
                whole, buffer = buffer, buffer.parent
                if buffer is None:
                    held[whole.address] = max(whole.size, held.get(whole.address, 0))
    return sum(held.values())


def known_schema(found: pa.Schema) -> pa.Schema:
    """Our own copy of the schema that a stream has; a peer's may carry any metadata.

    Raises:
        InvalidRequest: neither routed rows nor a schedule.
    """
    for known in (SCHEDULE_SCHEMA, routed_schema(found.names)):
        if found.equals(known):
            return known
    raise InvalidRequest(
        f"staged rows: expected {', '.join(ROUTE_NAMES)} and columns of a message in their order, "
        f"or the columns of a schedule, found {found.names!r:.500}"
    )
