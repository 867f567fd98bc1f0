"""The commit log, compared with the states and with the consume queues.

Each delivered record's origin must be done, and delivered once. Each record that was visible at the
checkpoint must be the unit of its queue that it says it is, and each unit such a record.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from zlib import crc32

import numpy as np
import numpy.typing as npt

from dueline.audit.findings import Findings
from dueline.audit.groups import GroupWatch
from dueline.audit.keys import KeyCheck
from dueline.audit.numbers import NumberSet, Tally, mix
from dueline.audit.snapshot import Snapshot
from dueline.audit.walk import Batch, LogWalk
from dueline.message import SYS_COMMIT, SYS_TRANSACTION_MASK
from dueline.store import kernels, properties
from dueline.store.consume_queue import UNIT_DTYPE, UNIT_SIZE
from dueline.store.core import QUEUES
from dueline.store.files import POSITION_NAME, Files
from dueline.store.kernels import Int64s
from dueline.store.layout import HEADER_SIZE
from dueline.store.queue_folder import folds_case, queue_folder
from dueline.store.record import NO_OFFSET
from dueline.store.states import DELIVERED, FORGOTTEN, PENDING, TAKEN_BACK

__all__ = ["CheckedQueue", "CommitCheck"]

_PART = 1 << 18
UnitArray = npt.NDArray[np.void]


class CheckedQueue:
    """A queue as the checkpoint has it; `log_end` is the end that the log's records tell."""

    def __init__(self, topic: str, queue_id: int, start: int, end: int) -> None:
        self.topic = topic
        self.queue_id = queue_id
        self.start = start
        self.end = end
        self.log_end = end

    @property
    def name(self) -> str:
        return f"{QUEUES}/{self.topic}/{self.queue_id}"


class CommitCheck:
    """Goes through the commit log once, then through the consume queues."""

    def __init__(self, snapshot: Snapshot, files: Files, findings: Findings) -> None:
        self._snapshot = snapshot
        self._files = files
        self._findings = findings
        self._numbers: dict[tuple[str, int], int] = {}
        self.queues: list[CheckedQueue] = []
        for topic, ranges in snapshot.checkpoint.queues.items():
            for queue_id, (start, end) in ranges.items():
                self._number_of(topic, int(queue_id), start, end)
        self._origins = NumberSet(snapshot.next_seq)
        self._tally = Tally(len(self.queues))
        self._unseen: list[int] = []  # positions of records that no queue shows
        self.walk: LogWalk = snapshot.commit.walk(files)
        self.groups = GroupWatch(self.walk, snapshot.whole_ends[1])
        self.at_gate_count = 0

    def _number_of(self, topic: str, queue_id: int, start: int = 0, end: int = 0) -> int:
        number = self._numbers.get((topic, queue_id))
        if number is None:
            number = self._numbers[topic, queue_id] = len(self.queues)
            self.queues.append(CheckedQueue(topic, queue_id, start, end))
        return number

    def run(self) -> None:
        keys = KeyCheck(
            self._snapshot.root / "index" / "commitlog",
            self._snapshot.checkpoint.commit_keys,
            self._files,
            self._findings,
        )
        for batch, controls in self.groups.batches(keys):
            for position, entry in controls:
                self._check_dropped(position, entry.numbers)
            self._check_origins(batch)
            self._add_visible(batch)
        self._check_delivered()
        self._check_queues()

    # Origins

    def _check_dropped(self, position: int, numbers: Int64s) -> None:
        numbers = numbers[numbers < self._snapshot.next_seq]
        wrong = numbers[self._snapshot.states.of(numbers) == PENDING]
        if len(wrong) and not self._is_cut(position):
            self._findings.loss(
                "dropped",
                f"commitlog {position}",
                f"message {int(wrong[0])} and {len(wrong) - 1} more were dropped by a transform, "
                "but count as pending",
            )

    def _is_cut(self, position: int) -> bool:
        """Does it belong to a torn last group, which never happened?"""
        return position >= self._snapshot.whole_ends[1]

    def _check_origins(self, batch: Batch) -> None:
        rows = np.flatnonzero(batch.columns.is_delayed)
        origins = batch.columns.number[rows]
        inside = origins < self._snapshot.next_seq
        rows, origins = rows[inside], origins[inside]
        for origin in self._origins.add(origins)[:10].tolist():
            self._findings.loss(
                "origin",
                f"message {origin}",
                f"delayed message {origin} was delivered twice: two records in the commit log",
            )
        pending = self._snapshot.states.of(origins) == PENDING
        pending &= batch.positions[rows] < self._snapshot.whole_ends[1]
        for origin in origins[pending][:10].tolist():
            self._findings.loss(
                "origin",
                f"message {origin}",
                f"delayed message {origin} is in the commit log, but counts as pending: it would "
                "be delivered again",
            )

    def _check_delivered(self) -> None:
        """As long as nothing was deleted, each delivered message has its record."""
        if self._snapshot.commit.start > 0 or not self._snapshot.commit.bases:
            return
        states = self._snapshot.states
        for start in range(states.base, self._snapshot.next_seq, _PART):
            seqs = np.arange(start, min(start + _PART, self._snapshot.next_seq), dtype=np.int64)
            delivered = seqs[states.of(seqs) == DELIVERED]
            for seq in delivered[~self._origins.has(delivered)][:100].tolist():
                self._findings.loss(
                    "delivered message",
                    f"message {seq}",
                    f"delayed message {seq} counts as delivered, but the commit log has no sound "
                    "record of it",
                    "restore a backup",
                )

    # Consume queues

    def _add_visible(self, batch: Batch) -> None:
        """Enter what the queues show, or should show."""
        headers = batch.columns.headers
        kind = headers["sys_flag"] & SYS_TRANSACTION_MASK
        rows = np.flatnonzero(np.isin(kind, (0, SYS_COMMIT)))
        if not len(rows):
            return
        numbers = self._queue_numbers(batch, rows)
        offsets = headers["queue_offset"][rows].astype(np.int64)
        positions = batch.positions[rows]
        self._note_ends(numbers, offsets)
        saved = self._snapshot.checkpoint
        is_known = (positions < saved.commit_end) & (headers["store_ms"][rows] <= saved.index_ms)
        # Held back at the gate for what was late, and so not in a queue.
        is_known &= ~np.isin(positions, np.array(saved.waiting, dtype=np.int64))
        self._note_unseen(batch, rows, positions, offsets, is_known)
        starts = np.array([queue.start for queue in self.queues])[numbers]
        ends = np.array([queue.end for queue in self.queues])[numbers]
        chosen = np.flatnonzero(is_known & (offsets >= starts) & (offsets < ends))
        tags = properties.values(batch.columns.texts.take(rows[chosen]), "TAGS")
        hashes = mix(
            offsets[chosen],
            positions[chosen],
            batch.sizes[rows[chosen]],
            properties.tags_codes(tags),
        )
        self._tally.add(numbers[chosen], hashes)

    def _queue_numbers(self, batch: Batch, rows: Int64s) -> Int64s:
        topics = batch.columns.topics.take(rows).dictionary_encode()
        names = [value.decode("utf-8", "replace") for value in topics.dictionary.to_pylist()]
        queue_ids = batch.columns.headers["queue_id"][rows].astype(np.int64)
        combined = topics.indices.to_numpy().astype(np.int64) << 32 | queue_ids
        distinct, inverse = np.unique(combined, return_inverse=True)
        found = [self._number_of(names[key >> 32], key & 0xFFFFFFFF) for key in distinct.tolist()]
        if len(self.queues) > len(self._tally.counts):
            grown = Tally(len(self.queues))
            grown.counts[: len(self._tally.counts)] = self._tally.counts
            grown.digests[: len(self._tally.digests)] = self._tally.digests
            self._tally = grown
        result: Int64s = np.array(found, dtype=np.int64)[inverse]
        return result

    def _note_ends(self, numbers: Int64s, offsets: Int64s) -> None:
        order = np.argsort(numbers, kind="stable")
        starts = np.flatnonzero(np.r_[True, np.diff(numbers[order]) != 0])
        latest = np.maximum.reduceat(offsets[order], starts)
        for number, offset in zip(numbers[order][starts].tolist(), latest.tolist(), strict=True):
            self.queues[number].log_end = max(self.queues[number].log_end, offset + 1)

    def _note_unseen(
        self,
        batch: Batch,
        rows: Int64s,
        positions: Int64s,
        offsets: Int64s,
        is_known: npt.NDArray[np.bool_],
    ) -> None:
        """Records that wait at the gate, and such as should be in a queue and say no offset."""
        unseen = offsets == NO_OFFSET
        if not bool(unseen.any()):
            return
        origins = batch.columns.number[rows]
        states = self._snapshot.states.of(np.where(batch.columns.is_delayed[rows], origins, 0))
        is_cancelled = batch.columns.is_delayed[rows] & np.isin(states, (*TAKEN_BACK, FORGOTTEN))
        self.at_gate_count += int((unseen & ~is_cancelled).sum())
        self._unseen += positions[unseen & is_known & ~is_cancelled][:1000].tolist()

    def _check_queues(self) -> None:
        files = _QueueFiles(self._snapshot, self._files, self._findings)
        own = Tally(len(self.queues))
        for number, queue in enumerate(self.queues):
            for first, units in files.judge(queue):
                hashes = mix(
                    np.arange(first, first + len(units)),
                    units["position"],
                    units["size"],
                    units["tags_code"],
                )
                own.add(np.full(len(units), number, dtype=np.int64), hashes)
        differing = own.differs(self._tally).tolist()
        for number in differing:
            _QueueDetail(self.queues[number], files, self.walk, self._findings).run(
                claim_count=int(self._tally.counts[number])
            )
        if not differing:
            for position in self._unseen[:100]:
                self._findings.loss(
                    "consume queue",
                    f"commitlog {position}",
                    f"the record at {position} was visible, but no queue shows it",
                )


class _QueueFiles:
    """The files of the consume queues, with the checks that the checkpoint keeps."""

    def __init__(self, snapshot: Snapshot, files: Files, findings: Findings) -> None:
        self._snapshot = snapshot
        self._files = files
        self._findings = findings
        self.suspect: set[tuple[str, int]] = set()  # queue and first offset of files to be remade
        self._file_units = 0
        self._folds_case = folds_case(files, snapshot.root / QUEUES)

    def judge(self, queue: CheckedQueue) -> Iterator[tuple[int, UnitArray]]:
        """As `units`; files that are missing or fail their check are told."""
        if queue.start < queue.end:
            self._check_listed(queue, self._listed(queue))
            yield from self.units(queue, compare=True)

    def units(
        self, queue: CheckedQueue, *, compare: bool = False
    ) -> Iterator[tuple[int, UnitArray]]:
        """Units [start, end) as the files have them, with the offset of the first of each part."""
        for base, path, size in self._listed(queue):
            first, end = max(base, queue.start), min(base + size // UNIT_SIZE, queue.end)
            if first >= end:
                continue
            data = self._read(path)
            if data is None:
                continue
            if compare:
                self._compare(queue, base, data)
            units = np.frombuffer(data, dtype=UNIT_DTYPE, count=len(data) // UNIT_SIZE)
            part = units[first - base : end - base]
            if len(part):
                yield first, part

    def _listed(self, queue: CheckedQueue) -> list[tuple[int, Path, int]]:
        folder = queue_folder(
            self._snapshot.root / QUEUES, queue.topic, queue.queue_id, folds_case=self._folds_case
        )
        found = []
        for name in self._files.names(folder, POSITION_NAME):
            path = folder / name
            try:
                found.append((int(name) // UNIT_SIZE, path, path.stat().st_size))
            except FileNotFoundError:
                continue
        return found

    def _check_listed(self, queue: CheckedQueue, found: list[tuple[int, Path, int]]) -> None:
        sizes = [size for _, _, size in found]
        usual = max(set(sizes), key=sizes.count) if sizes else self._file_units * UNIT_SIZE
        self._file_units = self._file_units or usual // UNIT_SIZE
        expected = self._file_units * UNIT_SIZE
        for base, path, size in found:
            if size == 0:
                text = "empty; made again from the log when it is read"
                self._findings.repair("consume queue", f"{queue.name}/{path.name}", text)
                self.suspect.add((queue.name, base))
            elif size != expected:
                self._findings.loss(
                    "consume queue",
                    f"{queue.name}/{path.name}",
                    f"expected {expected} bytes, found {size}: the store may refuse to open",
                    "stop the broker and remove the file: it is made again from the log",
                )
                self.suspect.add((queue.name, base))
        if not self._file_units:
            self._findings.repair(
                "consume queue", queue.name, "no files; they are made again from the log"
            )
            self.suspect.add((queue.name, -1))
            return
        bases = {base for base, _, _ in found}
        first = queue.start - queue.start % self._file_units
        for base in range(first, queue.end, self._file_units):
            if base not in bases:
                self._note_missing(queue, base, min(bases, default=queue.end))

    def _note_missing(self, queue: CheckedQueue, base: int, first_base: int) -> None:
        self.suspect.add((queue.name, base))
        is_trimmed = self._snapshot.commit.start > self._snapshot.checkpoint.commit_start
        if is_trimmed and base < first_base:
            return  # retention has been here since the checkpoint
        name = f"{base * UNIT_SIZE:020d}"
        self._findings.repair(
            "consume queue",
            f"{queue.name}/{name}",
            f"missing: offsets {base} to {base + self._file_units}; made again from the log when "
            "they are read",
        )

    def _read(self, path: Path) -> bytes | None:
        try:
            return self._files.read(path)
        except FileNotFoundError:
            return None

    def _compare(self, queue: CheckedQueue, base: int, data: bytes) -> None:
        checks = self._snapshot.checkpoint.queue_checks.get(queue.topic, {})
        check = checks.get(str(queue.queue_id), {}).get(str(base))
        if check is None or (queue.name, base) in self.suspect:
            return
        count, crc = check
        if crc32(data[: count * UNIT_SIZE]) != crc:
            self.suspect.add((queue.name, base))
            self._findings.repair(
                "consume queue",
                f"{queue.name}/{base * UNIT_SIZE:020d}",
                f"units {base} to {base + count}: their CRC does not match; made again from the "
                "log when they are read",
            )

    def is_suspect(self, queue: CheckedQueue, offset: int) -> bool:
        if not self._file_units:
            return True
        return (queue.name, offset - offset % self._file_units) in self.suspect


class _QueueDetail:
    """A queue that differs from the log: unit by unit."""

    def __init__(
        self, queue: CheckedQueue, files: _QueueFiles, walk: LogWalk, findings: Findings
    ) -> None:
        self._queue = queue
        self._queue_files = files
        self._walk = walk
        self._findings = findings

    def run(self, *, claim_count: int) -> None:
        queue = self._queue
        held = 0
        for first, units in self._queue_files.units(queue):
            held += len(units)
            for start in range(0, len(units), _PART):
                self._check(first + start, units[start : start + _PART])
        if claim_count > held and not any(
            name == queue.name for name, _ in self._queue_files.suspect
        ):
            self._findings.loss(
                "consume queue",
                queue.name,
                f"{claim_count} records of the log belong to offsets {queue.start} to {queue.end}, "
                f"{held} units are there: some records are not shown",
            )

    def _check(self, first: int, units: UnitArray) -> None:
        """Compare units with the records they point to."""
        positions = units["position"].astype(np.int64)
        bases = positions - positions % max(self._walk.segment_size_bytes, 1)
        for base in np.unique(bases).tolist():
            rows = np.flatnonzero(bases == base)
            good = self._compare(base, first, units, rows)
            for row in rows[~good][:200].tolist():
                self._tell(first + row, units[row])

    def _compare(
        self, base: int, first: int, units: UnitArray, rows: Int64s
    ) -> npt.NDArray[np.bool_]:
        try:
            file = self._walk.files.open(self._walk.folder / f"{base:020d}")
        except FileNotFoundError:
            return np.zeros(len(rows), dtype=np.bool_)
        try:
            data = file.view()
            starts = units["position"][rows].astype(np.int64) - base
            sizes = units["size"][rows].astype(np.int64)
            inside = (starts >= 0) & (sizes > 0) & (starts + sizes <= len(data))
            at = np.where(inside, starts, 0)
            headers = kernels.headers(data, at)
            good = inside & (headers["size"] == sizes)
            good &= headers["position"] == units["position"][rows]
            good &= headers["queue_id"] == self._queue.queue_id
            good &= headers["queue_offset"] == first + rows
            good &= ~self._in_damage(units["position"][rows].astype(np.int64))
            result: npt.NDArray[np.bool_] = good
            return result
        finally:
            file.close()

    def _in_damage(self, positions: Int64s) -> npt.NDArray[np.bool_]:
        found = np.zeros(len(positions), dtype=np.bool_)
        for damage in self._walk.damage:
            found |= (positions >= damage.start) & (positions < damage.end)
        return found

    def _tell(self, offset: int, unit: np.void) -> None:
        queue = self._queue
        position, size = int(unit["position"]), int(unit["size"])
        subject = f"{queue.name} offset {offset}"
        if bool(self._in_damage(np.array([position]))[0]):
            text = f"its record at {position} is damaged: the message is lost"
            self._findings.loss("visible message", subject, text, "restore a backup")
        elif position < (self._walk.bases[0] if self._walk.bases else 0):
            return  # deleted by retention; opening trims the queue
        elif self._queue_files.is_suspect(queue, offset):
            return  # its file is made again
        elif self._claims(position, size, offset):
            text = f"the record at {position} says another offset; it is put right when it is read"
            self._findings.repair("queue offset", subject, text)
        else:
            text = f"expected to point to its record, found position {position}, size {size}"
            self._findings.loss("consume queue", subject, text)

    def _claims(self, position: int, size: int, offset: int) -> bool:
        """Is it the right record but for its queue offset, the one field without a check?"""
        base = position - position % self._walk.segment_size_bytes
        try:
            file = self._walk.files.open(self._walk.folder / f"{base:020d}")
        except FileNotFoundError:
            return False
        try:
            data = file.view()
            at = position - base
            if at < 0 or at + HEADER_SIZE > len(data):
                return False
            header = kernels.headers(data, np.array([at], dtype=np.int64))[0]
            return (
                int(header["size"]) == size
                and int(header["position"]) == position
                and int(header["queue_id"]) == self._queue.queue_id
                and int(header["queue_offset"]) != offset
            )
        finally:
            file.close()
