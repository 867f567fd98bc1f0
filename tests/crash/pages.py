"""Power cuts that lose single pages, not only the end, of what is written between two syncs.

`PagedFiles` calls back before every sync of a log. What was written since the sync before is then
on its way to the disk, page by page and in any order: `lost_pages` says which sets of pages may be
missing, and `Snapshot.restore` makes the folder as it is without them. A lost page reads as it did
before: zeros, or old bytes.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import combinations
from pathlib import Path

from dueline.testing import SECTOR_SIZE, FaultyFiles

PAGE_SIZE = 4_096
LOGS = ("commitlog", "delaylog", "receipts")
LOSABLE = (*LOGS, "consumequeue", "synced")
EXHAUSTIVE_PAGES_MAX = 5

Page = tuple[Path, int]


class PagedFiles(FaultyFiles):
    """Calls `on_stretch` when a log is about to be synced."""

    def __init__(self, root: Path, on_stretch: Callable[[Snapshot], None]) -> None:
        super().__init__()
        self._root = root
        self._on_stretch = on_stretch
        self.is_watching = True

    def step(self, kind: str, path: Path, *, needs_space: bool | None = None) -> bool:
        if self.is_watching and kind == "sync" and any(part in str(path) for part in LOGS):
            self._on_stretch(self.snapshot())
        return super().step(kind, path, needs_space=needs_space)

    def snapshot(self) -> Snapshot:
        contents = {path: path.read_bytes() for path in self._root.rglob("*") if path.is_file()}
        before: dict[Page, dict[int, bytes]] = {}
        for path, unsynced in self._unsynced.items():
            is_losable = any(part in str(path) for part in LOSABLE) and path.suffix != ".tmp"
            if path in contents and is_losable:
                for sector, versions in unsynced.sectors.items():
                    page = sector * SECTOR_SIZE // PAGE_SIZE
                    before.setdefault((path, page), {})[sector] = versions[0]
        return Snapshot(self._root, contents, before)


@dataclass(frozen=True, slots=True)
class Snapshot:
    """A folder at one moment, and its unsynced pages as they were before."""

    root: Path
    contents: dict[Path, bytes]
    before: dict[Page, dict[int, bytes]]

    def lost_pages(self, rng: random.Random, count_max: int) -> Iterator[frozenset[Page]]:
        """Which pages may be lost together: every set of few pages, otherwise some of them."""
        pages = sorted(self.before)
        if len(pages) <= EXHAUSTIVE_PAGES_MAX:
            every = [
                frozenset(chosen)
                for count in range(len(pages) + 1)
                for chosen in combinations(pages, count)
            ]
            yield from every if len(every) <= count_max else rng.sample(every, count_max)
            return
        for number in range(count_max):
            lost = (0.1, 0.5, 0.9)[number % 3]
            yield frozenset(page for page in pages if rng.random() < lost)

    def restore(self, target: Path, lost: frozenset[Page]) -> None:
        """Make `target` the folder without these pages."""
        for path, content in self.contents.items():
            data = bytearray(content)
            for page in lost:
                if page[0] == path:
                    for sector, before in self.before[page].items():
                        data[sector * SECTOR_SIZE : (sector + 1) * SECTOR_SIZE] = before
            place = target / path.relative_to(self.root)
            place.parent.mkdir(parents=True, exist_ok=True)
            place.write_bytes(data[: len(content)])
