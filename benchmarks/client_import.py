"""What it costs to import the client: time, memory, and which large packages come along.

Each measurement is a process of its own; the least time and memory of several counts, since a busy
machine adds to both. The first line is a bare Python, for comparison.

    python -m benchmarks.client_import --runs 10
"""

from __future__ import annotations

import argparse
import os
import platform
import subprocess
import sys
from dataclasses import dataclass
from typing import Final

LARGE: Final = ("numpy", "pyarrow", "pyspark", "grpc", "celery", "dramatiq")

IMPORTS: Final = (
    "sys",
    "asyncio",
    "dueline.client",
    "dueline.celery",
    "dueline.dramatiq",
)

_PROGRAM: Final = """
import resource, sys, time
start_s, start_cpu_s = time.perf_counter(), time.process_time()
try:
    import {name}
except ModuleNotFoundError:
    sys.exit(3)
took_ms = (time.perf_counter() - start_s) * 1000
cpu_ms = (time.process_time() - start_cpu_s) * 1000
unit_bytes = 1 if sys.platform == "darwin" else 1024
peak_mb = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * unit_bytes / 1e6
large = [each for each in {large} if each in sys.modules]
print(took_ms, cpu_ms, peak_mb, len(sys.modules), *large)
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Cost:
    """Of one import, in one process."""

    took_ms: float
    cpu_ms: float
    peak_mb: float
    module_count: int
    large: tuple[str, ...]


def measure(name: str) -> Cost | None:
    """Import `name` in a new process; None if it is not installed."""
    done = subprocess.run(
        [sys.executable, "-c", _PROGRAM.format(name=name, large=LARGE)],
        capture_output=True,
        text=True,
        check=False,
    )
    if done.returncode == 3:
        return None
    if done.returncode:
        raise RuntimeError(done.stderr)
    took, cpu, peak, count, *large = done.stdout.split()
    return Cost(
        took_ms=float(took),
        cpu_ms=float(cpu),
        peak_mb=float(peak),
        module_count=int(count),
        large=tuple(large),
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--runs", type=int, default=5, help="processes for each import")
    args = parser.parse_args()
    print(f"{platform.machine()}, {os.cpu_count()} processors, Python {platform.python_version()}")
    print(f"{'import':<18}{'ms':>8}{'CPU ms':>8}{'MB':>8}{'modules':>9}  large packages")
    for name in IMPORTS:
        found = [cost for cost in (measure(name) for _ in range(args.runs)) if cost is not None]
        if not found:
            print(f"{name:<18}  not installed")
            continue
        took_ms = min(cost.took_ms for cost in found)
        cpu_ms = min(cost.cpu_ms for cost in found)
        peak_mb = min(cost.peak_mb for cost in found)
        large = " ".join(found[0].large) or "-"
        times = f"{took_ms:>8.0f}{cpu_ms:>8.0f}"
        sizes = f"{peak_mb:>8.1f}{found[0].module_count:>9}"
        print(f"{name:<18}{times}{sizes}  {large}")


if __name__ == "__main__":
    main()
