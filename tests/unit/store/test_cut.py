"""A cut for a backup: what it reads while others wait."""

from pathlib import Path

from tests.unit.store.making import SMALL, Wall, delayed, ordinary
from tests.unit.store.watched import WatchedFiles

from dueline.store import Store
from dueline.store.core import QUEUES


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
    assert queues <= set(files.touched)
    assert files.waited_for == []
    files.store = None
    store.close()
