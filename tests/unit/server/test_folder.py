import os
import stat
import subprocess
import sys
from pathlib import Path

import pytest

from dueline.errors import StoreLocked, Unavailable
from dueline.server.folder import ServeLock, make_folder

HOLDING = """
import sys
from pathlib import Path
from dueline.server.folder import ServeLock
lock = ServeLock(Path(sys.argv[1]))
"""
WAITING = f"""{HOLDING}
print("locked", flush=True)
sys.stdin.read()
"""
LEAVING = f"""{HOLDING}
import subprocess
child = subprocess.Popen(
    [sys.executable, "-c", "import sys; print('locked', flush=True); sys.stdin.read()"],
    pass_fds=[lock.descriptor],
)
child.wait()
"""


def holder(script: str, folder: Path) -> "subprocess.Popen[str]":
    process = subprocess.Popen(
        [sys.executable, "-c", script, str(folder)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    assert process.stdout is not None
    assert process.stdout.readline() == "locked\n"
    return process


def test_folders_are_made_for_their_owner_alone(tmp_path: Path) -> None:
    make_folder(tmp_path / "a" / "b")
    make_folder(tmp_path / "a" / "b")

    assert {stat.S_IMODE(each.stat().st_mode) for each in (tmp_path / "a").rglob("*")} == {0o700}


def test_a_folder_that_cannot_be_made_is_told(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")

    with pytest.raises(Unavailable, match="expected to write into it, found: Not a directory"):
        make_folder(tmp_path / "file" / "data")


def test_a_folder_is_served_once_and_who_serves_it_is_told(tmp_path: Path) -> None:
    with holder(WAITING, tmp_path) as first:
        with pytest.raises(StoreLocked, match=f"in use by process {first.pid};"):
            ServeLock(tmp_path)
        first.communicate()

    lock = ServeLock(tmp_path)
    assert (tmp_path / "serve.lock").read_text() == f"{os.getpid()}\n"
    lock.release()


def test_what_a_killed_parent_leaves_is_waited_for(tmp_path: Path) -> None:
    with holder(LEAVING, tmp_path) as parent:
        parent.kill()
        parent.wait()

        with pytest.raises(StoreLocked, match="in use by"):
            ServeLock(tmp_path, seconds_max=0.1)
        assert parent.stdin is not None
        parent.stdin.close()  # the child's input too: it ends

        ServeLock(tmp_path).release()


def test_a_parent_that_nobody_has_looked_after_is_gone_too(tmp_path: Path) -> None:
    with holder(WAITING, tmp_path) as zombie:
        zombie.kill()

        ServeLock(tmp_path).release()
