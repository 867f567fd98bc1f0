"""Many queues: what a new one costs those who send."""

from pathlib import Path

from tests.unit.store.making import SMALL, Wall
from tests.unit.store.watched import WatchedFiles

from dueline.message import Message
from dueline.store import Store

COUNT = 200


def test_nobody_waits_for_the_files_of_new_queues(tmp_path: Path) -> None:
    files = WatchedFiles()
    store = Store.open(tmp_path / "store", SMALL, clock=Wall().clock(), files=files)
    files.store = store

    store.put_all([Message(topic=f"t{number}", body=b"x") for number in range(COUNT)])
    touched_by_puts = list(files.touched)
    store.checkpoint()

    assert touched_by_puts == []
    assert len(set(files.touched)) >= COUNT
    assert files.waited_for == []
    files.store = None
    store.close()
