"""Files of strangers in the folders of a store, and who may read ours."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from tests.unit.store.making import Wall, bodies, carry_over, delayed, open_store, ordinary

STRAYS = (
    ".DS_Store",
    ".nfs000000000000000100000001",
    "orders~",
    "#notes#",
    "7",
    "00000000000000000000.bak",
)


def fill(path: Path, wall: Wall) -> list[bytes]:
    """A store with something in every folder."""
    with open_store(path, wall) as store:
        for number in range(12):
            store.put(ordinary(b"o%d" % number))
            store.put(delayed(5, b"d%d" % number))
            if number % 5 == 0:
                store.checkpoint()
        carry_over(store)
        wall.advance(5)
        store.open_gate()
        return bodies(store)


def folders_of(path: Path) -> list[Path]:
    return [path, *(found for found in path.rglob("*") if found.is_dir())]


@pytest.mark.parametrize("has_checkpoint", [True, False])
def test_strays_in_every_folder_do_not_matter_and_stay(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, has_checkpoint: bool
) -> None:
    wall = Wall()
    expected = fill(tmp_path, wall)
    assert len(expected) == 24
    folders = folders_of(tmp_path)
    assert len(folders) > 7
    for folder in folders:
        for name in STRAYS:
            (folder / name).write_bytes(b"not ours")
        (folder / "lost+found").mkdir()
        (folder / "lost+found").chmod(0)
    if not has_checkpoint:
        for copy in tmp_path.glob("checkpoint.json*"):
            copy.unlink()

    with open_store(tmp_path, wall) as store:
        assert bodies(store) == expected
        store.put(ordinary(b"more"))
        store.checkpoint()
        store.retain()
        assert bodies(store) == [*expected, b"more"]

    for folder in folders:
        assert {*STRAYS, "lost+found"} <= {found.name for found in folder.iterdir()}
        (folder / "lost+found").chmod(0o700)
    for name in ("commitlog", "delaylog", "timeline", "index"):
        lines = [line for line in caplog.messages if name in line and "ignored" in line]
        assert lines, f"{name}: nobody was told"
        assert all(".DS_Store" in line for line in lines)


def test_only_the_owner_may_read_a_store(tmp_path: Path) -> None:
    old_mask = os.umask(0)
    try:
        fill(tmp_path / "store", Wall())
    finally:
        os.umask(old_mask)

    for path in (tmp_path / "store", *(tmp_path / "store").rglob("*")):
        assert path.stat().st_mode & 0o077 == 0, path
