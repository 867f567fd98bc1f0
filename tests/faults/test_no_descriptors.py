"""`dueline serve` without a free file descriptor: what needs one is refused, and it goes on.

The limit of the running process is lowered to what it has open, as if connections had taken the
rest, and raised again later.
"""

from __future__ import annotations

import itertools
import resource
import signal
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from tests.children import broker_pid
from tests.ports import free_port
from tests.remoting.peer import Peer, records_of
from tests.serve.conftest import served
from tests.waiting import wait_until

from dueline.wire.codes import ResponseCode

ROUNDS = 3
SENDS = 60
TOPICS = 200

pytestmark = [pytest.mark.slow]


@contextmanager
def few_descriptors(pid: int) -> Iterator[None]:
    """No file can be opened by a process meanwhile."""
    limits = resource.prlimit(pid, resource.RLIMIT_NOFILE)
    highest = max(int(path.name) for path in Path(f"/proc/{pid}/fd").iterdir())
    resource.prlimit(pid, resource.RLIMIT_NOFILE, (highest + 1, limits[1]))
    try:
        yield
    finally:
        resource.prlimit(pid, resource.RLIMIT_NOFILE, limits)


class Sender:
    """Sends to topics of which most are new, and remembers the answers."""

    def __init__(self, peer: Peer) -> None:
        self._peer = peer
        self._numbers = itertools.count()
        self.accepted: set[str] = set()
        self.refused: set[str] = set()

    def send(self) -> bool:
        name = f"m{next(self._numbers)}"
        body = name.encode() + b" " + bytes(20_000)
        answer = self._peer.send_message(topic_of(name), body, names={"UNIQ_KEY": name})
        (self.refused if answer.code else self.accepted).add(name)
        assert answer.code in (0, ResponseCode.SERVICE_NOT_AVAILABLE), answer.remark
        return answer.code == 0


def topic_of(name: str) -> str:
    return f"t{int(name[1:]) % TOPICS}"


def read_all(peer: Peer) -> Counter[str]:
    found: Counter[str] = Counter()
    for topic in range(TOPICS):
        offset = 0
        while (answer := peer.pull(f"t{topic}", offset)).code == 0:
            found.update(r.body.partition(b" ")[0].decode() for r in records_of(answer))
            offset = int(answer.ext["nextBeginOffset"])
    return found


def test_a_broker_without_descriptors_refuses_and_comes_back(tmp_path: Path) -> None:
    remoting = f"127.0.0.1:{free_port()}"
    flags = ("--no-spark", "--remoting", remoting, "--set", "store.commit_segment_size=1MiB")
    with served(tmp_path / "data", *flags) as broker:
        assert broker.address
        with Peer(remoting) as peer:
            sender = Sender(peer)
            assert sender.send(), "the connection needs a descriptor of the broker's"
            for _ in range(ROUNDS):
                with few_descriptors(broker_pid(broker.process.pid)):
                    for _ in range(SENDS):
                        sender.send()
                wait_until(sender.send, what="an accepted send")
                assert broker.process.poll() is None, broker.output
            assert read_all(peer) == dict.fromkeys(sender.accepted, 1)
        assert broker.stop(signal.SIGTERM) == 0, broker.output
    assert sender.refused, "no descriptor was ever missing"
    with served(tmp_path / "data", *flags) as broker:
        assert broker.address
        with Peer(remoting) as peer:
            assert read_all(peer) == dict.fromkeys(sender.accepted, 1)
