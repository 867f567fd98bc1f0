"""A segment: opened when needed, patched, cut, replaced and removed."""

from __future__ import annotations

import threading
from pathlib import Path

import numpy as np
import pytest
from tests.unit.store.making import int64s

from dueline.errors import NotFound
from dueline.store.files import File, Files
from dueline.store.segment import Segment
from dueline.testing import FaultyFiles

SIZE = 4096


def made(tmp_path: Path, files: Files | None = None) -> Segment:
    segment = Segment(files or Files(), tmp_path / "segment", 8_192, writable=True)
    segment.create(SIZE)
    return segment


def test_a_missing_file_is_named_with_its_position(tmp_path: Path) -> None:
    segment = Segment(Files(), tmp_path / "gone", 8_192)

    with pytest.raises(NotFound, match=r"position 8192: .*gone") as caught:
        _ = segment.file

    assert isinstance(caught.value.__cause__, FileNotFoundError)


def test_many_threads_open_a_file_once(tmp_path: Path) -> None:
    made(tmp_path).close()
    opened: list[File] = []

    class CountingFiles(Files):
        def open(self, path: Path, *, writable: bool = False) -> File:
            opened.append(super().open(path, writable=writable))
            return opened[-1]

    segment = Segment(CountingFiles(), tmp_path / "segment", 0)
    start = threading.Barrier(8)
    found: list[File] = []

    def look() -> None:
        start.wait()
        found.append(segment.file)

    threads = [threading.Thread(target=look) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(opened) == 1
    assert found == opened * 8
    segment.close()


def test_a_closed_segment_opens_again_and_a_removed_one_does_not(tmp_path: Path) -> None:
    segment = made(tmp_path)
    segment.file.write_at(0, b"kept")

    segment.close()
    assert segment.file.read_at(0, 4) == b"kept"

    segment.remove()
    assert not segment.path.exists()
    segment.path.write_bytes(b"another")
    with pytest.raises(NotFound):
        _ = segment.file


def test_patches_are_synced_once(tmp_path: Path) -> None:
    files = FaultyFiles()
    segment = made(tmp_path, files)
    files.is_tracing = True

    segment.sync_patches()
    assert not [line for line in files.trace if line.startswith("sync ")]

    segment.scatter(int64s(10, 20), np.array([[1, 2], [3, 4]], dtype=np.uint8))
    segment.sync_patches()
    segment.sync_patches()

    assert len([line for line in files.trace if line.startswith("sync ")]) == 1
    assert bytes(segment.file.read_at(9, 4)) == bytes([0, 1, 2, 0])
    assert bytes(segment.file.read_at(19, 4)) == bytes([0, 3, 4, 0])
    segment.close()


def test_what_is_cut_is_zeros_and_what_is_before_it_stays(tmp_path: Path) -> None:
    segment = made(tmp_path)
    segment.file.write_at(0, b"x" * 3_000)

    segment.zero_from(1_000)

    assert segment.file.read_at(0, SIZE) == b"x" * 1_000 + bytes(SIZE - 1_000)
    segment.close()


def test_readers_of_a_replaced_segment_keep_what_they_have(tmp_path: Path) -> None:
    segment = made(tmp_path)
    segment.file.write_at(0, b"old")
    before = segment.file.view()

    segment.replace(SIZE, iter([(100, b"new")]))

    assert bytes(before[:3]) == b"old"
    assert segment.file.read_at(98, 6) == b"\0\0new\0"
    assert segment.file.size_bytes == SIZE
    segment.close()
