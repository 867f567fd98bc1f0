"""Honest clients beside eight hostile ones: `make bench-hostile`.

    python -m benchmarks.hostile [--seconds 60] [--rate 500] [--peers heartbeats,crowds] [--seed 1]

A real `dueline serve` with Spark; a steady 500 delayed messages a second (delays of 2 to 5 s),
first alone and then beside hostile peers, all at once. Prints what the honest clients saw both
times, and the broker's memory. Ends with 1 if a message was lost, early or twice, or if the broker
ended.

`--floods` instead: a broker with users, a quota and TLS, and each flood of `floods` by itself.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import sys
import tempfile
import time
from pathlib import Path

from benchmarks.hostile.campaign import Served, Stage, campaign
from benchmarks.hostile.floods import ENVIRONMENT, FLOODS, SETTINGS, add_greedy
from benchmarks.hostile.peers import PEERS


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--seconds", type=float, default=60.0, help="of each of the two parts")
    parser.add_argument("--rate", type=int, default=500, help="honest messages a second")
    parser.add_argument("--peers", default=",".join(PEERS), help="which, with commas between")
    parser.add_argument("--each", action="store_true", help="each peer alone as well")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--floods", action="store_true", help="each flood alone")
    arguments = parser.parse_args()
    names = [name for name in arguments.peers.split(",") if name]
    settings: tuple[str, ...] = ()
    together = [names]
    if arguments.floods:
        os.environ |= ENVIRONMENT
        names, settings, together = list(FLOODS), SETTINGS, []
    print(f"{platform.machine()}, {os.cpu_count()} processors, Python {platform.python_version()}")
    print(f"{arguments.rate}/s for {arguments.seconds:g} s, seed {arguments.seed}")
    with tempfile.TemporaryDirectory(prefix="dueline-hostile-") as folder:
        start_s = time.monotonic()
        with Served(Path(folder), *settings) as served:
            if arguments.floods:
                add_greedy(served.addresses)
            print(f"ready after {time.monotonic() - start_s:.1f} s", flush=True)
            stages = []
            is_each = arguments.each or arguments.floods
            alone = [[name] for name in names] if is_each else []
            for peers in ([], *alone, *together):
                stage = campaign(
                    served,
                    peers,
                    seconds=arguments.seconds,
                    rate=arguments.rate,
                    seed=arguments.seed,
                )
                _show(stage)
                stages.append(stage)
    return 0 if all(stage.is_sound for stage in stages) else 1


def _show(stage: Stage) -> None:
    seen = stage.seen
    print(f"\n{', '.join(stage.peers) or 'nobody else'}, load {os.getloadavg()[0]:.0f}")
    print(
        f"  late p50 {seen.late_p50_ms} ms, p99 {seen.late_p99_ms} ms, max {seen.late_max_ms} ms; "
        f"sends p99 {seen.send_p99_ms} ms, max {seen.send_max_ms} ms"
    )
    print(
        f"  {seen.acknowledged:,} acknowledged, {seen.again:,} sent again; lost {seen.lost}, "
        f"early {seen.early}, twice {seen.twice}"
    )
    print(
        f"  broker: {stage.before_mib:,.0f} MiB before, {stage.memory_mib:,.0f} MiB at the end, "
        f"{stage.peak_mib:,.0f} MiB at most, "
        f"{stage.file_count:,} files at most, {stage.cpu_s:.0f} s of processor time"
        f"{'' if stage.is_alive else '; IT ENDED'}",
        flush=True,
    )
    print(json.dumps(stage.to_json()), file=sys.stderr)


if __name__ == "__main__":
    sys.exit(main())
