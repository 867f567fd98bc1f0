"""A folder is mapped only where it is the very folder that the broker means."""

import sys
from pathlib import Path

import pytest
from msgspec.structs import replace

from dueline.flight.access import access_to, is_here
from dueline.flight.protocol import FileAccess

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="no boot id: nothing is mapped")


def told(folder: Path) -> FileAccess:
    access = access_to(folder, 1 << 20)
    assert access is not None
    return access


def test_the_same_folder_of_the_same_machine_is_here(tmp_path: Path) -> None:
    assert is_here(told(tmp_path))


def test_another_machine_is_not_here(tmp_path: Path) -> None:
    assert not is_here(replace(told(tmp_path), machine="another boot"))


def test_another_folder_of_the_same_name_is_not_here(tmp_path: Path) -> None:
    folder = tmp_path / "delay_log"
    folder.mkdir()
    access = told(folder)
    folder.rename(tmp_path / "elsewhere")
    folder.mkdir()  # as a container may have one, at the same path

    assert not is_here(access)


def test_a_folder_that_is_not_there_is_not_here(tmp_path: Path) -> None:
    assert not is_here(replace(told(tmp_path), folder=str(tmp_path / "missing")))
