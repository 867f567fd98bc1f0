"""`dueline serve` on a disk that is full now and then, by its own messages or by a foreign file.

The broker is a real process on a small disk. A producer, a reader and a pipeline go on whatever
happens. In each round the disk becomes full at a random moment, sometimes the broker is killed or
stopped then and started while the disk is full, and at last there is room again. At the end the
whole history is looked at: what was acknowledged came once, what was refused never; while it was
full, reads and cancels were served and sends refused; with room again they were accepted.
"""

from __future__ import annotations

import os
import random
import signal
from collections.abc import Callable
from pathlib import Path

import pytest
from tests.conftest import IS_SOAK
from tests.faults.full_disk import TOPIC, Clients, History
from tests.ports import free_port
from tests.remoting.peer import Peer
from tests.serve.conftest import Served
from tests.small_disk import SmallDisk, mounted
from tests.waiting import wait_until

from dueline.wire import Command
from dueline.wire.codes import RequestCode

SEED = int(os.environ.get("DUELINE_SEED", "1"))
ROUNDS = 30 if IS_SOAK else 3
DISK_SIZE_BYTES = (256 if IS_SOAK else 24) << 20
FLAGS = (
    "--no-spark",
    *("--set", "store.commit_segment_size=1MiB"),
    *("--set", "store.delay_segment_size=1MiB"),
    *("--set", "store.queue_file_units=1000"),
    *("--set", "store.disk_used_ratio_max=1.0"),
)

pytestmark = [pytest.mark.slow]


class Round:
    """The broker, its clients and its disk."""

    def __init__(self, disk: SmallDisk, seed: str) -> None:
        self.disk = disk
        self.choose = random.Random(seed)
        self.history = History()
        self.clients = Clients(self.history, seed)
        self.port = free_port()
        self.broker = self.start()
        self.clients.start()

    def start(self) -> Served:
        remoting = f"127.0.0.1:{self.port}"
        served = Served(self.disk.path / "data", *FLAGS, "--remoting", remoting)
        self.clients.remoting, self.clients.flight = remoting, served.address
        return served

    def restart(self) -> None:
        """Killed, or stopped in order; then a group's offset is kept, also without free space."""
        is_killed = self.choose.random() < 0.5
        offset = ""
        if is_killed:
            self.broker.process.kill()
        else:
            end = int(self.ask(RequestCode.GET_MAX_OFFSET).ext["offset"])
            offset = str(self.choose.randrange(end + 1))
            self.ask(RequestCode.UPDATE_CONSUMER_OFFSET, commitOffset=offset)
            assert self.broker.stop(signal.SIGTERM) == 0, self.broker.output[-2000:]
        self.broker.end()
        self.broker = self.start()
        if not is_killed:
            answer = self.ask(RequestCode.QUERY_CONSUMER_OFFSET)
            assert answer.ext["offset"] == offset

    def ask(self, code: RequestCode, **ext: str) -> Command:
        with Peer(self.clients.remoting) as peer:
            answer = peer.call(code, {"consumerGroup": "g", "topic": TOPIC, "queueId": "0"} | ext)
        assert answer.code == 0, (answer.code, answer.remark)
        return answer

    def wait(self, what: str, condition: Callable[[], bool]) -> None:
        def is_true() -> bool:
            assert self.broker.process.poll() is None, f"it ended: {self.broker.output[-3000:]}"
            return condition()

        wait_until(is_true, what=f"{what} (seed {SEED})")

    def fill(self) -> None:
        """By a foreign file at a random moment; what that leaves is filled by messages."""
        refused = len(self.history.refused)
        goal = len(self.history.seen) + self.choose.randrange(20, 400)
        self.wait("messages", lambda: len(self.history.seen) >= goal)
        self.disk.fill(but_bytes=self.choose.choice((0, 8 << 10, 200 << 10, 1 << 20, 3 << 20)))
        if self.choose.random() < 0.3:
            self.restart()
        self.wait("refusals", lambda: len(self.history.refused) > refused + 50)

    def cancel_some(self) -> None:
        """A full disk does not keep anybody from taking back what is not due yet."""
        with Peer(self.clients.remoting) as peer:
            for name, handle in list(self.history.far.items())[:20]:
                del self.history.far[name]
                ext = {"topic": TOPIC, "recallHandle": handle, "producerGroup": "g"}
                answer = peer.call(RequestCode.RECALL_MESSAGE, ext)
                assert answer.code == 0, (answer.code, answer.remark)
                self.history.cancelled.add(name)

    def read_all(self) -> None:
        """What was shown before is still read while the disk is full."""
        with Peer(self.clients.remoting) as peer:
            assert peer.pull(TOPIC, 0).code == 0

    def make_room(self) -> None:
        accepted = len(self.history.due_ms)
        self.disk.free()
        self.wait("accepted sends", lambda: len(self.history.due_ms) > accepted + 50)


def test_a_full_disk_refuses_and_comes_back_by_itself(
    tmp_path: Path, record_property: Callable[[str, str], None]
) -> None:
    with mounted(tmp_path / "disk", DISK_SIZE_BYTES) as disk:
        run = Round(disk, f"{SEED}")
        try:
            for _ in range(ROUNDS):
                run.fill()
                run.cancel_some()
                run.read_all()
                if run.choose.random() < 0.6:
                    run.restart()
                    run.read_all()
                run.make_room()
            run.clients.send_no_more()
            run.wait("the rest", lambda: not run.history.missing())
        finally:
            run.clients.stop()
            run.broker.end()
    history = run.history
    record_property(
        "campaign",
        f"seed {SEED}: {len(history.due_ms)} acknowledged, {len(history.refused)} refused, "
        f"{len(history.unknown)} not known, {len(history.cancelled)} cancelled, "
        f"{len(history.seen)} seen",
    )
    history.check()
