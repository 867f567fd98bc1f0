"""A cut for a backup: what it reads while others wait."""

import threading
from collections.abc import Iterator
from pathlib import Path

from tests.unit.store.making import SMALL, QuickFiles, Wall, delayed, ordinary

from dueline.store import Store
from dueline.store.core import QUEUES
from dueline.store.files import File


class WatchedFiles(QuickFiles):
    """Notes, for each queue file that is looked at, whether a writer would have to wait."""

    def __init__(self) -> None:
        self.store: Store | None = None
        self.looked_at: list[str] = []
        self.waited_for: list[str] = []

    def walk(self, path: Path) -> Iterator[Path]:
        for each in super().walk(path):
            self._note(each)
            yield each

    def open(self, path: Path, *, writable: bool = False) -> File:
        self._note(path)
        return super().open(path, writable=writable)

    def _note(self, path: Path) -> None:
        if self.store is None or QUEUES not in path.parts:
            return
        name = path.relative_to(self.store.path).as_posix()
        self.looked_at.append(name)
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


def test_nobody_waits_while_the_files_of_queues_are_looked_at(tmp_path: Path) -> None:
    files = WatchedFiles()
    store = Store.open(tmp_path / "store", SMALL, clock=Wall().clock(), files=files)
    for number in range(20):
        store.put(ordinary(b"x", topic=f"topic-{number}"))
    store.put(delayed(60_000))
    store.checkpoint()
    files.store = store

    cut = store.cut()

    queues = {file.path for file in cut.files if file.path.startswith(QUEUES)}
    assert len(queues) == 20
    assert queues <= set(files.looked_at)
    assert files.waited_for == []
    files.store = None
    store.close()
