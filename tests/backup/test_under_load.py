"""A broker under load is backed up again and again; each copy accounts for every message.

The broker is a process with all its parts; a thread takes Spark's place, another one makes
checkpoints, deletes and compacts all the time. Frames made by hand send messages for now, soon and
much later, others are cancelled, and `dueline backup` runs as a process beside it. Then the broker
is killed, and each backup is restored, checked and opened by a broker of its own. The oracle is
what clients were told, with the times when they were told:

    nothing lost     acknowledged before the backup began: received, or pending with its due time
    none early       not received before its due time
    once             nothing is received twice
    cancelled        cancelled before the backup began: never received, not pending
    nothing else     whatever is received was sent
"""

from __future__ import annotations

import json
import os
import random
import subprocess
import sys
import threading
from collections import Counter
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from pathlib import Path

import pytest
from tests.ports import free_ports
from tests.remoting.raw import Raw
from tests.waiting import wait_until

from dueline.client import Reader
from dueline.clock import system_time_ms
from dueline.flight.operators import Found, LookUp, OperatorClient
from dueline.flight.protocol import Answers, Cancel

IS_SOAK = os.environ.get("DUELINE_SOAK") == "1"
BACKUPS = 20 if IS_SOAK else 2
SEED = int(os.environ.get("DUELINE_SEED", "20270101"))
ROOT = Path(__file__).resolve().parents[2]
TOPIC = "load"
QUEUE_COUNT = 4
FAR_MS = 3_600_000
SEND_MESSAGE = 10

pytestmark = [pytest.mark.slow]


@dataclass(slots=True)
class History:
    """What clients were told."""

    due_ms: dict[str, int] = field(default_factory=dict)
    sent: set[str] = field(default_factory=set)
    cancelled: set[str] = field(default_factory=set)
    cancelling: set[str] = field(default_factory=set)
    lock: threading.Lock = field(default_factory=threading.Lock)

    def copy(self) -> History:
        with self.lock:
            return History(dict(self.due_ms), set(self.sent), set(self.cancelled))


class Process:
    """A broker on a folder."""

    def __init__(self, folder: Path) -> None:
        self.flight, self.names, self.remoting = free_ports(3)
        command = [sys.executable, "-m", "tests.backup.process", str(folder)]
        command += [str(port) for port in (self.flight, self.names, self.remoting)]
        self._process = subprocess.Popen(
            command, cwd=ROOT, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )
        assert self._process.stdout is not None
        assert self._process.stdout.readline() == "ready\n"
        self.housekeeping: list[str] = []
        self._listener = threading.Thread(target=self._listen, args=(self._process.stdout,))
        self._listener.start()

    def _listen(self, lines: Iterable[str]) -> None:
        self.housekeeping.extend(lines)

    def has_compacted(self) -> bool:
        return any("compacted_segments=1" in line for line in list(self.housekeeping))

    @property
    def address(self) -> str:
        return f"127.0.0.1:{self.flight}"

    def kill(self) -> None:
        self._process.kill()
        self._listener.join()
        self._process.communicate()


def produce(kind: int, port: int, history: History, stopping: threading.Event) -> None:
    """Send until it is enough, several frames in flight at a time."""
    choose = random.Random(f"{SEED} {kind}")
    number = 0
    with Raw(port) as raw:
        while not stopping.is_set():
            batch = {}
            for _ in range(8):
                name = f"{kind}-{number}"
                number += 1
                delay_ms = choose.choice((0, choose.randrange(300, 4_000), FAR_MS))
                due_ms = system_time_ms() + delay_ms if delay_ms else 0
                with history.lock:
                    history.sent.add(name)
                batch[send(raw, name, due_ms, number % QUEUE_COUNT)] = (name, due_ms)
            while batch:
                header, _ = raw.read()
                name, due_ms = batch.pop(header["opaque"])
                if header["code"] == 0:
                    with history.lock:
                        history.due_ms[name] = due_ms


def send(raw: Raw, name: str, due_ms: int, queue_id: int) -> int:
    properties = {"UNIQ_KEY": f"id-{name}", "KEYS": f"key-{name}"}
    if due_ms:
        properties["TIMER_DELIVER_MS"] = str(due_ms)
    text = "\x02".join(f"{key}\x01{value}" for key, value in properties.items())
    fields = {
        "producerGroup": "p",
        "topic": TOPIC,
        "defaultTopic": "TBW102",
        "defaultTopicQueueNums": str(QUEUE_COUNT),
        "queueId": str(queue_id),
        "sysFlag": "0",
        "bornTimestamp": "1",
        "flag": "0",
        "properties": text,
    }
    return raw.send(SEND_MESSAGE, fields, name.encode() + b" " * 900)


def cancel(address: str, history: History, stopping: threading.Event) -> None:
    """Take back most of what is far away, so that segments become sparse."""
    choose = random.Random(f"{SEED} cancel")
    while not stopping.wait(0.05):
        now_ms = system_time_ms()
        with history.lock:
            names = [
                name
                for name, due_ms in history.due_ms.items()
                if due_ms > now_ms + FAR_MS // 2
                and name not in history.cancelling
                and not name.endswith("7")
            ]
            names = choose.sample(names, min(len(names), 40))
            history.cancelling |= set(names)
        if not names:
            continue
        with OperatorClient(address) as client:
            answers = client.call(Cancel(keys=tuple(f"id-{name}" for name in names)), Answers)
        with history.lock:
            for name, answer in zip(names, answers.answers, strict=True):
                assert answer == "cancelled", (name, answer)
                history.cancelled.add(name)


def wait_for_load(history: History, count: int) -> None:
    wait_until(lambda: len(history.due_ms) >= count, what=f"{count} acknowledged messages")


def run_dueline(*words: str) -> tuple[int, str]:
    """A command as a process, with its exit code and all that it printed."""
    script = "import sys; from dueline.cli import main; sys.exit(main(sys.argv[1:]))"
    ran = subprocess.run(
        [sys.executable, "-c", script, *words],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    )
    return ran.returncode, ran.stdout + ran.stderr


def test_each_backup_under_load_accounts_for_every_acknowledged_message(
    tmp_path: Path, record_property: Callable[[str, str], None]
) -> None:
    history, stopping = History(), threading.Event()
    process = Process(tmp_path / "data")
    threads = [
        threading.Thread(target=produce, args=(kind, process.remoting, history, stopping))
        for kind in range(2)
    ]
    threads.append(threading.Thread(target=cancel, args=(process.address, history, stopping)))
    for thread in threads:
        thread.start()
    backups: list[tuple[Path, History]] = []
    try:
        wait_until(process.has_compacted, what="a segment that is sparse and was compacted")
        for number in range(BACKUPS):
            wait_for_load(history, 1_500 * (number + 1))
            known = history.copy()
            code, out = run_dueline(
                "backup", str(tmp_path / "dest"), "--broker", process.address, "--json"
            )
            assert code == 0, out
            backups.append((Path(json.loads(out)["folder"]), known))
            live_code, live = run_dueline("check", str(tmp_path / "data"))
            assert live_code == 0, live
    finally:
        stopping.set()
        for thread in threads:
            thread.join()
        process.kill()

    record_property(
        "campaign",
        f"seed {SEED}: {len(backups)} backups, {len(history.due_ms)} acknowledged, "
        f"{len(history.cancelled)} cancelled",
    )
    for number, (folder, known) in enumerate(backups):
        target = tmp_path / f"restored-{number}"
        code, out = run_dueline("restore", str(folder), str(target))
        assert code == 0, out
        check_restored(target, known, history)


def check_restored(folder: Path, known: History, whole: History) -> None:
    """Open a restored folder with a broker of its own, and compare it with what was told."""
    process = Process(folder)
    try:
        with (
            OperatorClient(process.address) as client,
            Reader(f"127.0.0.1:{process.names}", TOPIC) as reader,
        ):
            near = {
                name: due_ms
                for name, due_ms in known.due_ms.items()
                if due_ms < system_time_ms() + FAR_MS // 2 and name not in known.cancelled
            }
            seen: list[tuple[str, int]] = []

            def has_all() -> bool:
                messages = reader.receive_many(1000, timeout_s=0.2)
                for message in messages:
                    name = message.body.decode().strip()
                    seen.append((name, min(message.store_ms, system_time_ms())))
                return not messages and near.keys() <= {name for name, _ in seen}

            wait_until(has_all, what="everything that was acknowledged")
            check_seen(seen, known, whole)
            check_far(client, near, known, whole)
    finally:
        process.kill()


def check_seen(seen: list[tuple[str, int]], known: History, whole: History) -> None:
    counts = Counter(name for name, _ in seen)
    assert [name for name, count in counts.items() if count > 1] == [], "twice"
    assert counts.keys() <= whole.sent, "never sent"
    assert not counts.keys() & known.cancelled, "cancelled and received"
    early = [(name, came) for name, came in seen if came < whole.due_ms.get(name, 0)]
    assert early == []


def check_far(client: OperatorClient, near: dict[str, int], known: History, whole: History) -> None:
    """What is due much later is pending, or was cancelled."""
    far = sorted(known.due_ms.keys() - near.keys())
    assert far
    for name in random.Random(SEED).sample(far, min(300, len(far))):
        found = client.ask(LookUp(key=f"id-{name}"), Found).messages
        state = found[0].state if found else "gone"
        if name in known.cancelled:
            assert state in ("cancelled", "gone"), (name, state)
        elif name not in whole.cancelling:
            assert state == "pending", (name, state)
        else:
            assert state in ("pending", "cancelled", "gone"), (name, state)
        if state == "pending":
            assert found[0].due_ms == known.due_ms[name], name
