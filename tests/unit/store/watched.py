"""Files that know who waits for them."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from pathlib import Path

from tests.unit.store.making import QuickFiles

from dueline.store import Store
from dueline.store.core import QUEUES
from dueline.store.files import File


class WatchedFiles(QuickFiles):
    """Notes for each file of a queue that is touched whether a writer would have to wait."""

    def __init__(self) -> None:
        self.store: Store | None = None
        self.touched: list[str] = []
        self.waited_for: list[str] = []

    def walk(self, path: Path) -> Iterator[Path]:
        for each in super().walk(path):
            self._note(each)
            yield each

    def open(self, path: Path, *, writable: bool = False) -> File:
        self._note(path)
        return super().open(path, writable=writable)

    def new(self, path: Path) -> File:
        self._note(path)
        return super().new(path)

    def sync_path(self, path: Path) -> None:
        self._note(path)

    def make_unsynced_folder(self, path: Path) -> None:
        self._note(path)
        super().make_unsynced_folder(path)

    def _note(self, path: Path) -> None:
        if self.store is None or QUEUES not in path.parts:
            return
        name = path.relative_to(self.store.path).as_posix()
        self.touched.append(name)
        asking = threading.Thread(target=self._ask, args=(name,))
        asking.start()
        asking.join()

    def _ask(self, name: str) -> None:
        assert self.store is not None
        core = self.store._core
        for lock in (core.commit_lock, core.delay_lock, core.lock):
            if lock.acquire(blocking=False):
                lock.release()
            else:
                self.waited_for.append(name)
