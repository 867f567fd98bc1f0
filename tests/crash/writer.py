"""A process that works on a store until it is killed, and says what it does on a pipe.

    python -m tests.crash.writer FOLDER ROUND SEED FLUSH

Several threads work at once. Each line is a JSON list: what is about to be done ("try", number,
verb, …), and that it was answered ("done", number). A line is written in one piece before the
thread's next operation begins.
"""

from __future__ import annotations

import json
import os
import random
import sys
import threading
import traceback
from pathlib import Path

import pyarrow as pa

from dueline.message import Message
from dueline.store import Answer, Store, StoreOptions, restore

OPTIONS = StoreOptions(
    commit_segment_size_bytes=256 << 10,
    delay_segment_size_bytes=256 << 10,
    queue_file_units=500,
    open_units_max=400,
    disk_used_ratio_max=1.0,
    compact_live_ratio=0.5,
)
THREADS = 4
OUTPUT = threading.Lock()


class Writer:
    """Random operations on one store; unique ids carry the round, so that none comes twice."""

    def __init__(self, store: Store, round_number: int, thread: int, rng: random.Random) -> None:
        self._store = store
        self._round = round_number
        self._rng = rng
        self._count = thread * 1_000_000
        self._delayed: list[str] = []

    def run(self) -> None:
        """Work until the process is killed; an error ends all of it."""
        try:
            while True:
                self._step()
        except BaseException:  # noqa: BLE001 - a thread must not die alone
            traceback.print_exc()
            os._exit(1)

    def _step(self) -> None:
        self._count += 1
        verbs = (self._put, self._put, self._put_many, self._deliver, self._cancel, self._tend)
        weights = (30, 30, 4, 8, 6, 2)
        self._rng.choices(verbs, weights)[0]()
        say("done", self._count)

    def _put(self) -> None:
        uid = f"r{self._round}-{self._count}"
        queue_id = self._rng.randrange(2)
        delay_ms = self._rng.choice((0, 0, 1, 20, 200, 3_600_000))
        properties = {"UNIQ_KEY": uid}
        if delay_ms:
            properties["TIMER_DELAY_MS"] = str(delay_ms)
            self._delayed.append(uid)
        say("try", self._count, "put", queue_id, uid)
        self._store.put(
            Message(topic="t", queue_id=queue_id, body=uid.encode(), properties=properties)
        )

    def _put_many(self) -> None:
        uids = [f"r{self._round}-{self._count}-{row}" for row in range(self._rng.randint(1, 150))]
        say("try", self._count, "put_many", 0, *uids)
        self._delayed += uids[:3]
        self._store.put_many(
            pa.table(
                {
                    "topic": ["t"] * len(uids),
                    "body": [uid.encode() for uid in uids],
                    "unique_id": uids,
                    "delay_ms": [self._rng.randint(1, 500) for _ in uids],
                }
            )
        )

    def _deliver(self) -> None:
        say("try", self._count, "deliver", 0)
        until_ms = self._store.clock.now_ms() + 200
        corner = self._store.next_corner(until_ms=until_ms, row_count_max=300)
        batch = self._store.read_window(self._store.window(corner))
        self._store.deliver([restore.deliveries(batch)])
        self._store.open_gate()

    def _cancel(self) -> None:
        if not self._delayed:
            return
        uid = self._rng.choice(self._delayed)
        say("try", self._count, "cancel", 0, uid)
        if self._store.cancel(uid) is Answer.CANCELLED:
            say("cancelled", self._count, uid)

    def _tend(self) -> None:
        say("try", self._count, "tend", 0)
        self._store.checkpoint()
        self._store.retain()


def say(*values: object) -> None:
    line = json.dumps(values).encode() + b"\n"
    with OUTPUT:
        os.write(1, line)


def main() -> None:
    folder, round_number, seed, flush = sys.argv[1:]
    options = StoreOptions(
        **{name: getattr(OPTIONS, name) for name in OPTIONS.__slots__ if name != "flush"},
        flush=flush,
    )
    say("opening", 0)
    store = Store.open(Path(folder), options)
    for thread in range(THREADS):
        rng = random.Random(f"{seed} {round_number} {thread}")
        writer = Writer(store, int(round_number), thread, rng)
        threading.Thread(target=writer.run).start()


if __name__ == "__main__":
    main()
