"""Many peers that send garbage, halves or nothing: real clients get everything, none early."""

from __future__ import annotations

import random
import resource
import socket
from contextlib import ExitStack

from tests.remoting.peer import Peer, records_of
from tests.remoting.serving import Broker

from dueline.clock import system_time_ms
from dueline.wire import Command, RequestCode

CROWD = 300


def test_crowd_of_strangers_disturbs_nobody(broker: Broker) -> None:
    soft, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    count = min(CROWD, (soft - 200) // 2)
    generator = random.Random(7)
    host, _, port = broker.address.rpartition(":")
    half = Command(code=RequestCode.HEART_BEAT, opaque=1).encode()[:-2]
    with ExitStack() as stack, Peer(broker.address) as peer:
        for number in range(count):
            one = stack.enter_context(socket.create_connection((host, int(port)), 30))
            one.sendall((b"", half, generator.randbytes(50))[number % 3])
        peer.send_message("orders")
        due = {}
        for number in range(50):
            delay_ms = 200 + 10 * number
            due[b"%d" % number] = system_time_ms() + delay_ms
            answer = peer.send_message("orders", b"%d" % number, TIMER_DELAY_MS=str(delay_ms))
            assert answer.code == 0

        arrived: dict[bytes, int] = {}
        offset = 1
        while len(arrived) < len(due):
            found = peer.pull("orders", offset, suspend_ms=30_000)
            assert found.code == 0
            now_ms = system_time_ms()
            for record in records_of(found):
                assert record.body not in arrived
                arrived[record.body] = now_ms
            offset = int(found.ext["nextBeginOffset"])

    assert arrived.keys() == due.keys()
    assert all(arrived[body] >= due[body] for body in due)
    assert list(arrived) == sorted(due, key=lambda body: due[body])
    assert broker.failures == []
