"""Kernels are compiled once, kept for the next process, and never in anybody's way."""

import os
import subprocess
import sys
from pathlib import Path

import pytest
from tests.waiting import PATIENCE_S

from dueline import compiled

pytest.importorskip("numba")

CRCS = "dueline.store.crc_kernels"
SCRIPT = f"""
import logging, sys
import numpy as np
logging.basicConfig(level="INFO", stream=sys.stdout, format="%(message)s")
from dueline import compiled
assert compiled.ready("{CRCS}") is None
print("loaded", compiled.load(["{CRCS}"]))
crc = compiled.ready("{CRCS}").crc
print("crc", crc(np.frombuffer(b"123456789", dtype=np.uint8), 0, 9))
print("hits", sum(getattr(crc, "stats").cache_hits.values()))
"""
"""0xCBF43926 is the check value that the definition of CRC-32 gives for these nine digits."""


def start(cache: Path, script: str = SCRIPT, **environ: str) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, "-c", script],
        env={**os.environ, "XDG_CACHE_HOME": str(cache), **environ},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )


def finish(process: subprocess.Popen[str]) -> list[str]:
    out, _ = process.communicate(timeout=PATIENCE_S)
    assert process.returncode == 0, out
    return out.splitlines()


def test_processes_that_start_at_once_compile_once_and_a_damaged_cache_is_made_anew(
    tmp_path: Path,
) -> None:
    both = [finish(each) for each in [start(tmp_path), start(tmp_path)]]

    assert all(f"crc {0xCBF43926}" in lines for lines in both)
    assert [lines[-1] for lines in both] == ["hits 1", "hits 1"], "a third process compiles"

    for file in (tmp_path / "dueline" / "kernels").rglob("*.nbc"):
        file.write_bytes(file.read_bytes()[:100])
    damaged = finish(start(tmp_path))

    assert any("made anew" in line for line in damaged)
    assert f"crc {0xCBF43926}" in damaged
    assert finish(start(tmp_path))[-1] == "hits 1"


def test_if_no_other_process_can_compile_this_one_does(tmp_path: Path) -> None:
    script = SCRIPT.replace("assert", "sys.executable = '/nowhere/python'\nassert", 1)
    lines = finish(start(tmp_path, script))

    assert any("compiled in this process" in line for line in lines)
    assert f"crc {0xCBF43926}" in lines
    assert lines[-1] == "hits 0"


def test_who_compiles_for_another_process_ends_with_it(tmp_path: Path) -> None:
    script = """
import pathlib, sys, time
from dueline import compiled
compiled._import_all = lambda names: time.sleep(3600)
print("begun", flush=True)
compiled.make(pathlib.Path(sys.argv[0]), [])
"""
    process = subprocess.Popen(
        [sys.executable, "-c", script], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    assert process.stdin is not None
    assert process.stdout is not None
    assert process.stdout.readline() == "begun\n"

    process.stdin.close()

    assert process.wait(PATIENCE_S) == 1
    process.stdout.close()


def test_without_numba_the_log_says_so_and_nothing_else_happens(tmp_path: Path) -> None:
    script = f"""
import logging, sys
logging.basicConfig(level="INFO", stream=sys.stdout, format="%(message)s")
sys.modules["numba"] = sys.modules["llvmlite"] = None
from dueline import compiled
thread = compiled.load_soon(["{CRCS}"], then=lambda: print("then"))
thread.join()
print(compiled.ready("{CRCS}"))
"""
    lines = finish(start(tmp_path, script))

    assert len(lines) == 3
    assert "Numba cannot be used" in lines[0]
    assert "slower" in lines[0]
    assert lines[1:] == ["then", "None"]


def test_without_a_place_to_write_to_kernels_are_compiled_all_the_same(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    lines = finish(start(tmp_path / "file"))

    assert f"crc {0xCBF43926}" in lines
    assert any("not kept" in line for line in lines)


def test_what_is_not_in_the_cache_yet_is_compiled_elsewhere_too(tmp_path: Path) -> None:
    """Who compiled may have been stopped when it had some modules."""
    finish(start(tmp_path))
    script = """
from dueline import compiled
assert compiled.load(["dueline.store.stamp_kernels"])
restamp = compiled.ready("dueline.store.stamp_kernels").restamp
print("hits", sum(getattr(restamp, "stats").cache_hits.values()))
"""

    assert finish(start(tmp_path, script))[-1] == "hits 1"


def test_each_module_is_ready_as_soon_as_it_is_there(tmp_path: Path) -> None:
    """Here the one behind it cannot be loaded at all."""
    script = f"""
from dueline import compiled
print("loaded", compiled.load(["{CRCS}", "dueline.store.no_such_kernels"]))
print("ready", compiled.ready("{CRCS}") is not None)
"""

    assert finish(start(tmp_path, script))[-2:] == ["loaded False", "ready True"]


def test_what_is_switched_off_is_not_ready() -> None:
    assert compiled.load([CRCS])
    with compiled.switched_off():
        assert compiled.ready(CRCS) is None
    assert compiled.ready(CRCS) is not None
    assert compiled.load([CRCS])


def test_another_number_that_is_compiled_in_is_another_folder(tmp_path: Path) -> None:
    sources = compiled._sources()

    # Kernels themselves, modules that they import, and what those import.
    for words in (b"CRC-32 of slices", b"ROW_BODY_START,\n", b"SEND_MESSAGE_V2 = 310"):
        assert any(words in source for source in sources), words
    assert len(set(sources)) == len(sources)
