"""Floods against a broker with users and TLS, each beside a steady honest client.

    loris        connections to every port that send a byte now and then: half a frame, half a
                 preface of HTTP/2, half a greeting of TLS
    signatures   sends with wrong signatures, one behind the other
    handshakes   TLS connections that end when they have begun, and some that stop in the middle
    greedy       a user who sends as fast as it can and has a quota of 200 a second

Each is a function of the broker's addresses and the time when it must end, as the peers of
`benchmarks.hostile.peers` are.
"""

from __future__ import annotations

import asyncio
import base64
import contextlib
import os
import ssl
import threading
import time
from collections.abc import Callable
from typing import Final

from benchmarks.hostile.wires import Addresses, again, send_ext, wire
from dueline.access_settings import SUPER_USER_VARIABLE
from dueline.client import AsyncProducer
from dueline.credentials import TOKEN, Credentials
from dueline.errors import BrokerError
from dueline.flight.operators import OperatorClient
from dueline.flight.users import AddUser, UserPolicy, UserSecret
from dueline.wire import RequestCode
from dueline.wire.http2.frames import PREFACE

__all__ = ["ENVIRONMENT", "FLOODS", "SETTINGS", "add_greedy"]

HONEST: Final = Credentials(name="honest", secret="a secret of the honest")
GREEDY: Final = Credentials(name="greedy", secret="a secret of the greedy")
SETTINGS: Final = (
    *("--set", "access.enabled=true"),
    *("--set", "quotas.rules=user:greedy=sends:200"),
)
ENVIRONMENT: Final = {SUPER_USER_VARIABLE: HONEST.token, TOKEN: HONEST.token}
"""Of the broker and of the honest client."""

_LORIS_COUNT: Final = 500
_LORIS_EVERY_S: Final = 2.0
_HANDSHAKE_THREADS: Final = 4
_GREEDY_IN_FLIGHT: Final = 256


def add_greedy(addresses: Addresses) -> None:
    """Make the user who has a quota."""
    policy = UserPolicy(resource="Topic:greedy", actions=("Pub",), decision="Allow")
    user = AddUser(name=GREEDY.name, secret=GREEDY.secret, policies=(policy,))
    with OperatorClient(addresses["flight"], HONEST) as client:
        client.ask(user, UserSecret)


def loris(addresses: Addresses, end_s: float) -> None:
    """Bytes, one by one."""
    asyncio.run(_loris(addresses, end_s))


async def _loris(addresses: Addresses, end_s: float) -> None:
    begun = {
        "remoting": b"\x00\x00\x01\x00\x00\x00\x00\x80" + b" " * 120,
        "name_server": b"\x16\x03\x01\x02\x00\x01\x00\x01" + bytes(120),
        "grpc": PREFACE,
    }
    async with asyncio.TaskGroup() as group:
        for number in range(_LORIS_COUNT):
            name = list(begun)[number % len(begun)]
            group.create_task(_drip(addresses[name], begun[name], end_s))


async def _drip(address: str, words: bytes, end_s: float) -> None:
    host, port = address.rsplit(":", 1)
    while time.monotonic() < end_s:
        with contextlib.suppress(OSError):
            _, writer = await asyncio.open_connection(host, int(port))
            with contextlib.closing(writer):
                for byte in words:
                    writer.write(bytes([byte]))
                    await writer.drain()
                    await asyncio.sleep(_LORIS_EVERY_S)
                    if time.monotonic() > end_s:
                        return
        await asyncio.sleep(0.05)


def signatures(addresses: Addresses, end_s: float) -> None:
    """A known name, and bytes that are nobody's signature."""

    def pour() -> None:
        with wire(addresses["remoting"]) as peer:
            for _ in range(200):
                wrong = base64.b64encode(os.urandom(20)).decode()
                ext = {
                    **send_ext("hostile-signed", {}),
                    "AccessKey": HONEST.name,
                    "Signature": wrong,
                }
                frames = [peer.frame(RequestCode.SEND_MESSAGE_V2, ext, b"x") for _ in range(64)]
                peer.socket.sendall(b"".join(frames))
                peer.call(RequestCode.SEND_MESSAGE_V2, ext, b"x")
                if time.monotonic() > end_s:
                    return

    again(pour, end_s)


def handshakes(addresses: Addresses, end_s: float) -> None:
    """To all ports that speak TLS, from several threads."""
    context = ssl.create_default_context()
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    ports = [addresses[name] for name in ("remoting", "name_server", "grpc")]

    def shake() -> None:
        for number in range(30):
            with wire(ports[number % len(ports)]) as peer:
                if number % 10 == 0:
                    peer.socket.sendall(b"\x16\x03\x01\x02\x00\x01\x00\x01")
                    time.sleep(0.2)
                else:
                    context.wrap_socket(peer.socket).close()
            if time.monotonic() > end_s:
                return

    threads = [
        threading.Thread(target=again, args=(shake, end_s)) for _ in range(_HANDSHAKE_THREADS)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()


def greedy(addresses: Addresses, end_s: float) -> None:
    """As much as it gets; a refusal is no reason to wait."""
    asyncio.run(_greedy(addresses["name_server"], end_s))


async def _greedy(name_server: str, end_s: float) -> None:
    async with AsyncProducer(name_server, attempts_max=1, credentials=GREEDY) as producer:

        async def take() -> None:
            while time.monotonic() < end_s:
                with contextlib.suppress(BrokerError):
                    await producer.send("greedy", b"more")

        async with asyncio.TaskGroup() as group:
            for _ in range(_GREEDY_IN_FLIGHT):
                group.create_task(take())


FLOODS: Final[dict[str, Callable[[Addresses, float], None]]] = {
    "loris": loris,
    "signatures": signatures,
    "handshakes": handshakes,
    "greedy": greedy,
}
