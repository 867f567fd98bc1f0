"""Topics that differ in capitals only, on disks that tell them apart and on others."""

from __future__ import annotations

from itertools import product
from pathlib import Path

import numpy as np
import pytest

from dueline.store.consume_queue import UNIT_DTYPE, QueueUnits
from dueline.store.consume_queues import ConsumeQueues
from dueline.store.files import File, Files
from dueline.store.queue_folder import queue_folder


class FoldingFiles(Files):
    """A disk that keeps names as they were given first, and takes others for the same."""

    def __init__(self, root: Path) -> None:
        self._root = root

    def real(self, path: Path) -> Path:
        """The path as it is spelled on this disk."""
        found = self._root
        for name in path.relative_to(self._root).parts:
            names = [entry.name for entry in found.iterdir()] if found.is_dir() else []
            same = [each for each in names if each.lower() == name.lower()]
            found = found / (same[0] if same else name)
        return found

    def open(self, path: Path, *, writable: bool = False) -> File:
        return super().open(self.real(path), writable=writable)

    def new(self, path: Path) -> File:
        return super().new(self.real(path))

    def exists(self, path: Path) -> bool:
        return super().exists(self.real(path))

    def make_one_folder(self, path: Path) -> None:
        super().make_one_folder(self.real(path))

    def sync_path(self, path: Path) -> None:
        super().sync_path(self.real(path))


def units_of(position: int) -> QueueUnits:
    return np.array([(position, 91, 0)], dtype=UNIT_DTYPE)


def fill(queues: ConsumeQueues, topics: list[str]) -> None:
    for number, topic in enumerate(topics):
        queues.append_to(queues.number_of(topic, 0), units_of(number).tobytes())
    queues.flush(queues.begin_flush())


def opened_again(files: Files, queues: ConsumeQueues, folder: Path) -> dict[str, list[int]]:
    again = ConsumeQueues(files, folder, 4)
    again.restore(queues.ranges(), queues.checks())
    return {queue.name[0]: queue.read(0, 9)["position"].tolist() for queue in again}


TOPICS = ["Orders", "orders", "ORDERS", "oRders-1"]


@pytest.mark.parametrize("is_folding", [True, False])
def test_topics_that_differ_in_capitals_share_no_file(tmp_path: Path, is_folding: bool) -> None:
    files = FoldingFiles(tmp_path) if is_folding else Files()
    folder = tmp_path / "consumequeue"
    queues = ConsumeQueues(files, folder, 4)

    fill(queues, TOPICS)

    assert opened_again(files, queues, folder) == {
        topic: [number] for number, topic in enumerate(TOPICS)
    }
    assert len(list(folder.iterdir())) == len(TOPICS)
    plain = ["orders"] if is_folding else TOPICS
    assert {path.name for path in folder.iterdir()} & set(TOPICS) == set(plain)


def test_folders_of_an_earlier_version_are_read(tmp_path: Path) -> None:
    folder = tmp_path / "consumequeue"
    queues = ConsumeQueues(Files(), folder, 4)
    fill(queues, ["Orders", "plain"])

    found = opened_again(FoldingFiles(tmp_path), queues, folder)

    assert found == {"Orders": [0], "plain": [1]}
    assert sorted(path.name for path in folder.iterdir()) == ["Orders~1", "plain"]


def test_no_two_names_are_the_same_in_lower_case() -> None:
    topics = ["".join(letters) for letters in product("aAbB1", repeat=4)]

    names = {
        queue_folder(Path("q"), topic, 0, folds_case=True).as_posix().lower() for topic in topics
    }

    assert len(names) == len(topics)
