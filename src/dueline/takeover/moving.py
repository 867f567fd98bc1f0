"""Moving a RocketMQ store into one of ours, so that it can be stopped at any moment and run again.

Messages go over in batches, in the order of the source's log, and each batch is there as a whole
or not at all. What the store held before is written down first (`imports.json`). So an import that
was interrupted counts what has come since and goes on behind it: no message comes twice, none is
left out. Topics, groups and offsets are set last, and setting them again changes nothing.

A queue that is new here keeps its offsets: consumers that remember them themselves go on, too.
Where a queue has messages already, those that are taken over follow them and offsets are shifted.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Final

import numpy as np
import pyarrow as pa

from dueline.clock import Clock
from dueline.errors import InvalidRequest, StoreError
from dueline.message import HALF_TOPIC
from dueline.schedule import DEFAULT_LEVELS
from dueline.store import Files, Store, StoreOptions, properties
from dueline.store.imports import ImportEntry, Imports
from dueline.store.kernels import Int64s
from dueline.takeover.configuration import Tables
from dueline.takeover.rows import Choice, Classifier, Kind, Rows
from dueline.takeover.source import Mark, Source
from dueline.takeover.survey import Survey, survey

__all__ = ["Destination", "Moved", "Options", "take_over"]

ROWS_MAX: Final = 10_000
SIZE_BYTES_MAX: Final = 16 << 20
_RECORD_ROOM_BYTES: Final = 2_048  # what a record may grow by, and the end of its group

Progress = Callable[[str, int, int], None]
"""Called with what is done ("looking", "taking"), bytes of the log so far, and in all."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Options:
    """How an import is done."""

    messages: str = "unread"
    levels: str = DEFAULT_LEVELS
    skip_damaged: bool = False
    assume_pending: bool = False
    dry_run: bool = False

    @property
    def choice(self) -> Choice:
        return Choice(messages=self.messages, levels=self.levels)


@dataclass(frozen=True, slots=True, kw_only=True)
class Destination:
    """Where to: a data folder, whose store is in `store`."""

    folder: Path
    store: StoreOptions
    clock: Clock
    files: Files


@dataclass(slots=True, kw_only=True)
class Moved:
    """What an import did, or would do."""

    survey: Survey
    kinds: Counter[Kind] = field(default_factory=Counter)
    waiting_by_topic: Counter[str] = field(default_factory=Counter)
    visible_by_topic: Counter[str] = field(default_factory=Counter)
    internal_by_topic: Counter[str] = field(default_factory=Counter)
    due_min_ms: int | None = None
    due_max_ms: int | None = None
    overdue_count: int = 0
    before_count: int = 0  # messages that an interrupted import had taken
    topic_count: int = 0
    group_count: int = 0
    offset_count: int = 0
    kept_offset_count: int = 0
    finished_before_ms: int | None = None


def take_over(
    source: Source,
    to: Destination,
    options: Options,
    *,
    progress: Progress = lambda what, done, total: None,
) -> Moved:
    """Take over what the options choose.

    Raises:
        StoreLocked: a broker runs on the destination.
        InvalidRequest: the source has grown since it was taken over, or another choice was made.
        CorruptRecord, NotFound: see `survey`; nothing was written.
    """
    total = source.size_bytes
    if not options.dry_run:
        _check_unused(to)
    smaller = min(to.store.commit_segment_size_bytes, to.store.delay_segment_size_bytes)
    size_max = smaller - _RECORD_ROOM_BYTES
    found = survey(
        source,
        options.choice,
        size_max=size_max,
        skip_damaged=options.skip_damaged,
        assume_pending=options.assume_pending,
        progress=lambda done: progress("looking", done, total),
    )
    entry = _known_entry(Imports(to.folder, to.files), source, found, options)
    if entry is not None and entry.finished_ms is not None:
        return Moved(survey=found, finished_before_ms=entry.finished_ms)
    classifier = Classifier(source, options.choice, size_max=size_max, facts=found.facts)
    mover = _Mover(source, classifier, Moved(survey=found), now_ms=to.clock.now_ms())
    if options.dry_run:
        mover.run(None, progress=lambda done: progress("looking", done, total))
        mover.moved.topic_count, mover.moved.group_count = Tables(source).counts()
        return mover.moved
    store_options = replace(to.store, flush="sync")  # a batch must be there before the next one
    with Store.open(to.folder / "store", store_options, clock=to.clock, files=to.files) as store:
        imports = Imports(to.folder, to.files)  # again: nobody else can change it now
        entry = _known_entry(imports, source, found, options)
        if entry is None:
            entry = imports.begin(_begin(store, source, classifier, found, options))
        mover.resume(store, entry)
        mover.run(store, progress=lambda done: progress("taking", done, total))
        mover.verify(store, entry)
        Tables(source).apply(store, to.folder, entry, mover.moved, files=to.files)
        store.checkpoint()
        counts = {kind.name.lower(): count for kind, count in sorted(mover.moved.kinds.items())}
        imports.finish(entry, now_ms=to.clock.now_ms(), counts=counts)
    return mover.moved


def _check_unused(to: Destination) -> None:
    """Find out at once, not after a long look at the source, that a broker runs there."""
    if (to.folder / "store").is_dir():
        to.files.lock(to.folder / "store" / "lock").release()


def _known_entry(
    imports: Imports, source: Source, found: Survey, options: Options
) -> ImportEntry | None:
    """The entry of an earlier import of this source; None if there was none.

    Raises:
        InvalidRequest: going on would take messages twice, or leave some out.
    """
    entry = next((each for each in imports.entries if _is_same(each, source, found)), None)
    unfinished = imports.unfinished
    if unfinished is not None and entry is not unfinished:
        raise InvalidRequest(
            f"expected no unfinished import, found one from {unfinished.source}; finish it first: "
            f"`dueline import {unfinished.source}`"
        )
    if entry is None:
        return None
    if found.mark is not None and entry.mark is not None and found.mark.end != entry.mark["end"]:
        raise InvalidRequest(
            f"{source.path}: expected the store as it was when it was taken over (its log ended at "
            f"{entry.mark['end']}), found one that ends at {found.mark.end}: a broker ran on it "
            "since. Messages that it delivered would come twice; import into a new folder"
        )
    if entry.choice != asdict(options.choice):
        raise InvalidRequest(
            f"{source.path}: expected the choice of the earlier import ({entry.choice}), found "
            f"{asdict(options.choice)}; import into a new folder for another one"
        )
    return entry


def _is_same(entry: ImportEntry, source: Source, found: Survey) -> bool:
    if entry.mark is None:
        return found.mark is None and entry.source == str(source.path)
    return source.has(Mark(**entry.mark))


def _begin(
    store: Store, source: Source, classifier: Classifier, found: Survey, options: Options
) -> ImportEntry:
    """Write down what the store holds, and let new queues begin where they stood."""
    firsts = {name: span.first for name, span in found.queues.items()}
    if options.messages != "none":
        firsts = classifier.read_ends() | firsts
    here = store.begin_queues(firsts)
    queues: dict[str, dict[str, list[int]]] = {}
    for (topic, queue_id), first in firsts.items():
        queues.setdefault(topic, {})[str(queue_id)] = [first, here[topic, queue_id]]
    queues[HALF_TOPIC] = {"0": [0, store.offset_range(HALF_TOPIC, 0)[1]]}
    return ImportEntry(
        source=str(source.path),
        mark=None if found.mark is None else asdict(found.mark),
        choice=asdict(options.choice),
        started_ms=store.clock.now_ms(),
        next_seq=store.stats()["accepted_delayed"],
        queues=queues,
    )


def _visible_done(store: Store, entry: ImportEntry) -> int:
    """How many messages have come into queues since an import began."""
    return sum(
        store.offset_range(topic, int(queue_id))[1] - here
        for topic, queues in entry.queues.items()
        for queue_id, (_, here) in queues.items()
    )


class _Mover:
    """Walks the source's log and hands on what is taken."""

    def __init__(
        self, source: Source, classifier: Classifier, moved: Moved, *, now_ms: int
    ) -> None:
        self._source = source
        self._classifier = classifier
        self.moved = moved
        self._now_ms = now_ms
        self._waiting_left = 0  # so many are there already
        self._visible_left = 0

    def resume(self, store: Store, entry: ImportEntry) -> None:
        """Go on behind what is there since the import began."""
        self._waiting_left = store.stats()["accepted_delayed"] - entry.next_seq
        self._visible_left = _visible_done(store, entry)
        self.moved.before_count = self._waiting_left + self._visible_left

    def run(self, store: Store | None, *, progress: Callable[[int], None]) -> None:
        """Hand on everything; without a store only count."""
        for batch in self._source.batches():
            rows = self._classifier.classify(batch)
            self._count(rows)
            if store is not None:
                self._take(store, rows)
            progress(int(batch.positions[-1]) + int(batch.sizes[-1]) - self._source.start)

    def _take(self, store: Store, rows: Rows) -> None:
        waiting = rows.of(Kind.WAITING)
        skipped = min(self._waiting_left, len(waiting))
        self._waiting_left -= skipped
        for part in _parts(rows, waiting[skipped:]):
            store.adopt_waiting(rows.batch.records.take(pa.array(part)), rows.due_ms[part])
        visible = rows.of(Kind.VISIBLE, Kind.HALF)
        skipped = min(self._visible_left, len(visible))
        self._visible_left -= skipped
        for part in _parts(rows, visible[skipped:]):
            store.adopt_visible(rows.batch.records.take(pa.array(part)))
        store.maintain()

    def verify(self, store: Store, entry: ImportEntry) -> None:
        """Compare the store with what should be in it now.

        Raises:
            StoreError: somebody else has written to it since the import began.
        """
        kinds = self.moved.kinds
        expected = (kinds[Kind.WAITING], kinds[Kind.VISIBLE] + kinds[Kind.HALF])
        waiting = store.stats()["accepted_delayed"] - entry.next_seq
        if (waiting, _visible_done(store, entry)) != expected:
            raise StoreError(
                f"expected {expected[0]} delayed and {expected[1]} ordinary messages more than "
                f"when the import began, found {waiting} and {_visible_done(store, entry)}: the "
                "store was used in between; import into a new folder"
            )

    def _count(self, rows: Rows) -> None:
        moved = self.moved
        kinds, counts = np.unique(rows.kinds, return_counts=True)
        moved.kinds.update({Kind(kind): count for kind, count in
                            zip(kinds.tolist(), counts.tolist(), strict=True)})  # fmt: skip
        waiting = rows.of(Kind.WAITING)
        if len(waiting):
            texts = rows.columns.texts.take(pa.array(waiting))
            moved.waiting_by_topic.update(_tally(properties.values(texts, "REAL_TOPIC")))
            due_ms = rows.due_ms[waiting]
            low, high = int(due_ms.min()), int(due_ms.max())
            moved.due_min_ms = low if moved.due_min_ms is None else min(low, moved.due_min_ms)
            moved.due_max_ms = high if moved.due_max_ms is None else max(high, moved.due_max_ms)
            moved.overdue_count += int(np.count_nonzero(due_ms <= self._now_ms))
        for kind, tally in (
            (Kind.VISIBLE, moved.visible_by_topic),
            (Kind.INTERNAL, moved.internal_by_topic),
        ):
            chosen = rows.of(kind)
            if len(chosen):
                tally.update(_tally(rows.columns.topics.take(pa.array(chosen))))


def _tally(names: pa.BinaryArray) -> dict[str, int]:
    return {
        (one["values"] or b"").decode("utf-8", "replace"): one["counts"]
        for one in names.value_counts().to_pylist()
    }


def _parts(rows: Rows, chosen: Int64s) -> Iterator[Int64s]:
    """Rows in groups of a bounded number and size."""
    ends = np.cumsum(rows.batch.sizes[chosen], dtype=np.int64)
    start = 0
    while start < len(chosen):
        before = int(ends[start - 1]) if start else 0
        fit = int(np.searchsorted(ends, before + SIZE_BYTES_MAX, side="right"))
        stop = max(start + 1, min(start + ROWS_MAX, fit))
        yield chosen[start:stop]
        start = stop
