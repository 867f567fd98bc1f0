"""The process that Spark forks its workers from."""

import subprocess
import sys

import pytest

pytestmark = pytest.mark.slow

# In a process of its own, since this one has loaded and started much else.
COUNT_THREADS = """
import os, importlib
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
from dueline.spark.daemon import PRELOADED
for name in PRELOADED:
    importlib.import_module(name)
folder = "/proc/self/task"
tasks = (open(f"{folder}/{each}/comm").read().strip() for each in os.listdir(folder))
print(*sorted(name for name in tasks if not name.startswith("python")))
"""


def test_what_is_loaded_before_a_fork_starts_no_thread_that_a_fork_would_break() -> None:
    result = subprocess.run(
        [sys.executable, "-c", COUNT_THREADS], capture_output=True, text=True, check=True
    )

    # The allocator's own thread: it takes care of forks itself.
    assert set(result.stdout.split()) <= {"jemalloc_bg_thd"}
