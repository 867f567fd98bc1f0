"""A whole broker as a process, with threads that carry messages over and keep house all the time.

    python -m tests.backup.process FOLDER FLIGHT_PORT NAME_SERVER_PORT REMOTING_PORT

It prints `ready` when it serves, and ends when it is killed or its standard input is closed.
"""

from __future__ import annotations

import sys
import threading
from pathlib import Path

from tests.unit.server.local import carry, running, small_config

CARRY_S = 0.02
HOUSE_S = 0.1
AHEAD_MS = 500


def main() -> None:
    folder, flight, names, remoting = sys.argv[1:]
    config = small_config(
        Path(folder),
        **{
            "listen.flight": f"127.0.0.1:{flight}",
            "listen.name_server": f"127.0.0.1:{names}",
            "listen.remoting": f"127.0.0.1:{remoting}",
            "store.commit_segment_size": "256KiB",
            "store.delay_segment_size": "128KiB",
            "store.queue_file_units": "200",
            "store.compact_live_ratio": "0.5",
        },
    )
    stopping = threading.Event()
    with running(config) as broker:

        def carry_over() -> None:
            while not stopping.wait(CARRY_S):
                carry(broker.store, ahead_ms=AHEAD_MS)

        def keep_house() -> None:
            while not stopping.wait(HOUSE_S):
                broker.store.checkpoint()
                kept = broker.store.retain()
                if kept.compacted_segments or kept.delay_segments:
                    sys.stdout.write(f"{kept}\n")
                    sys.stdout.flush()

        threads = [threading.Thread(target=work) for work in (carry_over, keep_house)]
        for thread in threads:
            thread.start()
        sys.stdout.write("ready\n")
        sys.stdout.flush()
        sys.stdin.read()
        stopping.set()
        for thread in threads:
            thread.join()


if __name__ == "__main__":
    main()
