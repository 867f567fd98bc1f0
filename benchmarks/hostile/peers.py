"""Eight peers that mean harm, each in its own way, for a while.

Each is a function of the broker's addresses and the time when it must end; its loops are bounded in
count too, and it takes no for an answer: a refusal, a closed connection and silence are what a
broker should have for it. They run in processes of low priority, since on another machine they
would not use the broker's processors.

    python -m benchmarks.hostile.peers NAME ADDRESSES-AS-JSON SECONDS
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import sys
import time
import uuid
from collections.abc import Callable
from typing import Any, Final

import pyarrow as pa
from pyarrow import flight

import grpc
from benchmarks.hostile.floods import FLOODS
from benchmarks.hostile.wires import Addresses, Wire, again, send_ext, wire
from dueline.flight import protocol
from dueline.message import parse_message_id
from dueline.server.grpc.schema import METHODS, SERVICE
from dueline.server.grpc.stubs import message_class
from dueline.store.schema import SCHEDULE_SCHEMA
from dueline.wire import Command, RequestCode

__all__ = ["PEERS"]


def _pull_ext(topic: str, *, offset: int = 0, suspend_ms: int = 0, **more: str) -> dict[str, str]:
    return {
        **{"consumerGroup": "hostile", "topic": topic, "queueId": "0", "queueOffset": str(offset)},
        **{"maxMsgNums": "32", "commitOffset": "0", "subVersion": "0"},
        "sysFlag": str(4 | (2 if suspend_ms else 0)),
        "suspendTimeoutMillis": str(suspend_ms),
        **{"subscription": "*", "expressionType": "TAG", **more},
    }


def heartbeats(addresses: Addresses, end_s: float) -> None:
    """2 MB of JSON as only lenient readers take it."""
    producers = ",".join(f"{{groupName:'g{number}'}}" for number in range(100_000))
    body = f"{{clientID:'hostile',consumerDataSet:[],producerDataSet:[{producers}]}}".encode()

    def beat() -> None:
        with wire(addresses["remoting"]) as peer:
            for _ in range(20):
                peer.call(RequestCode.HEART_BEAT, {}, body)

    again(beat, end_s)


def conditions(addresses: Addresses, end_s: float) -> None:
    """Pulls with SQL92 conditions of 64 KiB, each another one."""
    _fill(addresses, "hostile-conditions", count=64, size_bytes=100)

    def pull() -> None:
        with wire(addresses["remoting"]) as peer:
            for number in range(50):
                marker = f"{time.monotonic_ns()}{number}"
                condition = f"a = {marker} OR " + " OR ".join(["b = 1"] * 6_000)
                ext = _pull_ext("hostile-conditions", subscription=condition)
                peer.call(RequestCode.PULL_MESSAGE, {**ext, "expressionType": "SQL92"})

    again(pull, end_s)


def _fill(addresses: Addresses, topic: str, *, count: int, size_bytes: int) -> None:
    with contextlib.suppress(OSError), wire(addresses["remoting"]) as peer:
        for _ in range(count):
            peer.call(
                RequestCode.SEND_MESSAGE_V2, send_ext(topic, {"b": "2"}), os.urandom(size_bytes)
            )


def pipelines(addresses: Addresses, end_s: float) -> None:
    """Pulls one behind the other, whose answers nobody reads."""
    _fill(addresses, "hostile-bodies", count=32, size_bytes=100_000)

    def pour() -> None:
        peers = [Wire(addresses["remoting"]) for _ in range(8)]
        try:
            for peer in peers:
                frame = peer.frame(RequestCode.PULL_MESSAGE, _pull_ext("hostile-bodies"))
                peer.socket.sendall(frame * 400)
            _wait(min(end_s, time.monotonic() + 3))
        finally:
            for peer in peers:
                peer.socket.close()

    again(pour, end_s)


def replies(addresses: Addresses, end_s: float) -> None:
    """Replies to a client that does not read."""

    def pour() -> None:
        name = f"hostile-{uuid.uuid4().hex}"
        with wire(addresses["remoting"]) as deaf, wire(addresses["remoting"]) as talker:
            client = {"clientID": name, "producerDataSet": [{"groupName": name}]}
            deaf.call(
                RequestCode.HEART_BEAT, {}, json.dumps({**client, "consumerDataSet": []}).encode()
            )
            ext = send_ext("hostile-reply", {"REPLY_TO_CLIENT": name})
            for _ in range(200):
                talker.call(RequestCode.SEND_REPLY_MESSAGE_V2, ext, bytes(1 << 20))
                if time.monotonic() > end_s:
                    return

    again(pour, end_s)


def tables(addresses: Addresses, end_s: float) -> None:
    """Everything that a name server and a broker remember for anybody who asks."""
    value = "v" * 10_000_000

    def grow() -> None:
        mark = uuid.uuid4().hex
        with wire(addresses["name_server"]) as names:
            for number in range(10):
                ext = {"namespace": mark, "key": f"{number}", "value": value}
                with contextlib.suppress(OSError):
                    names.call(RequestCode.PUT_KEY_VALUE_CONFIG, ext)
        with wire(addresses["remoting"]) as peer:
            for number in range(500):
                group = f"{mark}-{number}" + "g" * 150
                ext = {"consumerGroup": group, "topic": "hostile-bodies", "queueId": "0"}
                peer.call(RequestCode.UPDATE_CONSUMER_OFFSET, {**ext, "commitOffset": "1"})
                send = send_ext("hostile-bodies", {"k": "v"})
                peer.call(RequestCode.SEND_MESSAGE_V2, {**send, "a": group}, b"x")

    again(grow, end_s)


def stagings(addresses: Addresses, end_s: float) -> None:
    """Empty batches, staged by the thousand and never committed."""
    empty = pa.RecordBatch.from_pylist([], schema=SCHEDULE_SCHEMA)

    def stage() -> None:
        with flight.connect(f"grpc+tcp://{addresses['flight']}") as client:
            for _ in range(20):
                command = protocol.StageRows(token=uuid.uuid4().hex).encode()
                descriptor = flight.FlightDescriptor.for_command(command)
                writer, _ = client.do_put(descriptor, SCHEDULE_SCHEMA)
                with writer:
                    for _ in range(2_000):
                        writer.write_batch(empty)
                if time.monotonic() > end_s:
                    return

    again(stage, end_s)


def transactions(addresses: Addresses, end_s: float) -> None:
    """One half message that is never decided, and many behind it that are."""
    half = send_ext("hostile-half", {"TRAN_MSG": "true", "PGROUP": "hostile"}, sys_flag=4)

    def decide() -> None:
        with wire(addresses["remoting"]) as peer:
            peer.call(RequestCode.SEND_MESSAGE_V2, half, b"stuck")
            for _ in range(2_000):
                sent = peer.call(RequestCode.SEND_MESSAGE_V2, half, b"half")
                if sent.code or time.monotonic() > end_s:
                    return
                position = parse_message_id(sent.ext["msgId"])[1]
                ext = {
                    "producerGroup": "hostile",
                    "tranStateTableOffset": sent.ext["queueOffset"],
                    "commitLogOffset": str(position),
                    "commitOrRollback": "12",
                    "msgId": "x",
                }
                peer.call(RequestCode.END_TRANSACTION, ext)

    again(decide, end_s)


def crowds(addresses: Addresses, end_s: float) -> None:
    """Streams without end on one connection, parked pulls on many, and connections that idle."""
    asyncio.run(_crowds(addresses, end_s))


async def _crowds(addresses: Addresses, end_s: float) -> None:
    async with asyncio.TaskGroup() as group:
        group.create_task(_streams(addresses["grpc"], end_s))
        group.create_task(_parked(addresses["remoting"], end_s))
        group.create_task(_idle([addresses["grpc"], addresses["remoting"]], end_s))


async def _streams(address: str, end_s: float) -> None:
    """Telemetry streams and receives that wait, all of one client."""
    async with grpc.aio.insecure_channel(address) as channel:
        calls = []
        for number in range(10_000):
            metadata = (("x-mq-client-id", f"hostile-{number}"),)
            calls.append(_stream(channel, metadata))
            calls.append(_receive(channel, metadata))
            if number % 50 == 0:
                await _wait_async(0.05)
            if time.monotonic() > end_s:
                break
        await _wait_async(max(end_s - time.monotonic(), 0))
        for call in calls:
            call.cancel()


def _stream(channel: Any, metadata: Any) -> Any:
    method = channel.stream_stream(f"/{SERVICE}/Telemetry", **_codecs("Telemetry"))
    call = method(metadata=metadata)
    command = message_class("TelemetryCommand")()
    command.settings.publishing.topics.add(name="hostile-stream")
    task = asyncio.ensure_future(call.write(command))
    task.add_done_callback(lambda done: done.cancelled() or done.exception())
    return call


def _receive(channel: Any, metadata: Any) -> Any:
    method = channel.unary_stream(f"/{SERVICE}/ReceiveMessage", **_codecs("ReceiveMessage"))
    request = message_class("ReceiveMessageRequest")(
        group={"name": "hostile"},
        message_queue={"topic": {"name": "hostile-receive"}},
        batch_size=32,
        invisible_duration={"seconds": 600},
        long_polling_timeout={"seconds": 60},
    )
    return method(request, metadata=metadata)


def _codecs(method: str) -> dict[str, Any]:
    request, answer = METHODS[method]
    return {
        "request_serializer": message_class(request.removeprefix("*")).SerializeToString,
        "response_deserializer": message_class(answer.removeprefix("*")).FromString,
    }


async def _parked(address: str, end_s: float) -> None:
    """25 connections with as many waiting pulls each as are taken."""
    frame = Command(
        code=RequestCode.PULL_MESSAGE,
        opaque=1,
        ext=_pull_ext("hostile-bodies", offset=1 << 40, suspend_ms=60_000),
    ).encode()
    await _held([address] * 25, frame * 4_000, end_s)


async def _idle(addresses: list[str], end_s: float) -> None:
    """Connections that say nothing, to all ports in turn."""
    for address in addresses:
        await _held([address] * 1_000, b"", end_s)


async def _held(targets: list[str], first: bytes, end_s: float) -> None:
    streams = []
    for target in targets:
        host, port = target.rsplit(":", 1)
        with contextlib.suppress(OSError):
            reader, writer = await asyncio.open_connection(host, int(port))
            writer.write(first)
            streams.append((reader, writer))
        if time.monotonic() > end_s:
            break
    await _wait_async(max(end_s - time.monotonic(), 0) / 2)
    for _, writer in streams:
        writer.transport.abort()


async def _wait_async(seconds: float) -> None:
    await asyncio.sleep(seconds)


def _wait(end_s: float) -> None:
    time.sleep(max(end_s - time.monotonic(), 0))


PEERS: Final[dict[str, Callable[[Addresses, float], None]]] = {
    "heartbeats": heartbeats,
    "conditions": conditions,
    "pipelines": pipelines,
    "replies": replies,
    "tables": tables,
    "stagings": stagings,
    "transactions": transactions,
    "crowds": crowds,
}


def main(name: str, addresses: str, seconds: str) -> None:
    os.nice(19)
    ({**PEERS, **FLOODS})[name](json.loads(addresses), time.monotonic() + float(seconds))


if __name__ == "__main__":
    main(*sys.argv[1:])
