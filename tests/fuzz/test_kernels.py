"""Compiled kernels look at no byte outside of their arrays, whatever they are given."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from tests.conftest import IS_SOAK

pytest.importorskip("numba")

ROOT = Path(__file__).parent.parent.parent


@pytest.mark.parametrize(
    ("switch", "count"),
    [
        ("NUMBA_DISABLE_JIT", 20_000 if IS_SOAK else 150),
        pytest.param("NUMBA_BOUNDSCHECK", 500_000, marks=pytest.mark.soak),
    ],
)
def test_kernels_stay_inside_their_arrays(
    switch: str, count: int, record_property: Callable[[str, str], None]
) -> None:
    command = [sys.executable, "-m", "tests.fuzz.kernel_child", "20", str(count)]
    done = subprocess.run(
        command, cwd=ROOT, env={**os.environ, switch: "1"}, capture_output=True, text=True
    )

    assert done.returncode == 0, done.stderr[-4_000:]
    record_property("campaign", done.stdout.strip())
    assert int(done.stdout.split()[2]) > count // 3
