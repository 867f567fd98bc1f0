"""A whole broker as a process, with a thread that carries messages over instead of Spark.

    python -m tests.remoting.process FOLDER NAME_SERVER_PORT REMOTING_PORT

It prints `ready` when it serves, and ends when it is killed or its standard input is closed.
"""

from __future__ import annotations

import sys
import threading
from pathlib import Path

from tests.unit.server.local import carry, running, small_config

TURN_S = 0.02
AHEAD_MS = 500
LEVELS = "1s 1s 1s 1s 1s 1s 1s 1s 1s 1s 1s 1s 1s 1s 1s 1s 1s 1s"
"""Short, so that refused messages come again within the test."""


def main() -> None:
    folder, names, remoting = sys.argv[1:]
    config = small_config(
        Path(folder),
        **{
            "listen.name_server": f"127.0.0.1:{names}",
            "listen.remoting": f"127.0.0.1:{remoting}",
            "store.levels": LEVELS,
        },
    )
    stopping = threading.Event()
    with running(config) as broker:

        def carry_over() -> None:
            while not stopping.wait(TURN_S):
                carry(broker.store, ahead_ms=AHEAD_MS)

        carrier = threading.Thread(target=carry_over)
        carrier.start()
        sys.stdout.write("ready\n")
        sys.stdout.flush()
        sys.stdin.read()
        stopping.set()
        carrier.join()


if __name__ == "__main__":
    main()
