"""Shortages: of disk space, which may be kept back for this, and of descriptors."""

from __future__ import annotations

import errno
from pathlib import Path

import pytest

from dueline.errors import Unavailable
from dueline.store.shortage import Disk, full_disk_is_unavailable, with_room

PATH = Path("somewhere")


@pytest.mark.parametrize(
    ("code", "words"),
    [
        (errno.ENOSPC, "disk full: .*somewhere"),
        (errno.EDQUOT, "disk full: .*somewhere"),
        (errno.EMFILE, "too many open files: .*somewhere"),
        (errno.ENFILE, "too many open files: .*somewhere"),
    ],
)
def test_a_shortage_is_no_broken_disk(code: int, words: str) -> None:
    with pytest.raises(Unavailable, match=words), full_disk_is_unavailable(PATH):
        raise OSError(code, "as the system says")


def test_other_errors_stay_what_they_are() -> None:
    with pytest.raises(OSError, match="broken"), full_disk_is_unavailable(PATH):
        raise OSError(errno.EIO, "broken")


class Scarce:
    """Works when so many portions were given back."""

    def __init__(self, needed: int, kept: int, code: int = errno.ENOSPC) -> None:
        self.needed, self.kept, self.code = needed, kept, code

    def work(self) -> str:
        if self.needed:
            raise OSError(self.code, "full")
        return "done"

    def spend(self) -> bool:
        if not self.kept:
            return False
        self.kept -= 1
        self.needed -= 1
        return True


def test_what_is_kept_back_is_spent_until_it_works() -> None:
    scarce = Scarce(needed=2, kept=3)

    assert with_room(scarce.work, scarce.spend) == "done"
    assert scarce.kept == 1


@pytest.mark.parametrize("scarce", [Scarce(2, 1), Scarce(1, 5, errno.EIO)])
def test_what_cannot_be_helped_is_raised(scarce: Scarce) -> None:
    with pytest.raises(OSError, match="full"):
        with_room(scarce.work, scarce.spend)


def test_without_anything_kept_back_nothing_is_tried_again() -> None:
    with pytest.raises(OSError, match="full"):
        with_room(Scarce(1, 1).work, None)


def test_how_full_a_disk_is() -> None:
    assert Disk(used_bytes=30, free_bytes=10).used_ratio == 0.75
    assert Disk(used_bytes=0, free_bytes=0).used_ratio == 0.0
