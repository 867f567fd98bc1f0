"""Clients of a broker whose disk is full now and then, and what they were told and saw.

The history knows nothing of the store: it holds each send's answer against what a reader found.
"""

from __future__ import annotations

import base64
import random
import threading
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import NamedTuple

import pyarrow as pa
from tests.remoting.peer import Peer, records_of
from tests.waiting import PATIENCE_S

from dueline.clock import system_time_ms
from dueline.errors import BrokerError
from dueline.flight import protocol
from dueline.flight.client import FlightClient
from dueline.message import encode_properties
from dueline.store.schema import ROUTE_NAMES, routed_schema
from dueline.wire.batch import BatchMessage, encode_batch
from dueline.wire.codes import RequestCode, ResponseCode

TOPIC = "full"
QUEUE_COUNT = 4
AT_ONCE = 16
"""Sends under way on one connection: they share groups, which are refused or not together."""

REFUSALS = (ResponseCode.SERVICE_NOT_AVAILABLE, ResponseCode.SYSTEM_BUSY)
"""Codes that say: it is not there."""

FAR_MS = 3_600_000
_PAUSE_S = 0.002


@dataclass(slots=True)
class History:
    """What clients were told and saw; several threads add to it."""

    due_ms: dict[str, int] = field(default_factory=dict)
    refused: dict[str, str] = field(default_factory=dict)
    unknown: set[str] = field(default_factory=set)
    far: dict[str, str] = field(default_factory=dict)
    cancelled: set[str] = field(default_factory=set)
    seen: list[tuple[str, int, int]] = field(default_factory=list)
    lock: threading.Lock = field(default_factory=threading.Lock)

    def missing(self) -> set[str]:
        with self.lock:
            return self.due_ms.keys() - {name for name, _, _ in self.seen}

    def check(self) -> None:
        copies = Counter(name for name, _, _ in self.seen)
        assert not self.missing(), f"lost: {sorted(self.missing())[:10]}"
        twice = [name for name, count in copies.items() if count > 1]
        assert not twice, f"twice: {twice[:10]}"
        delivered = [(name, self.refused[name]) for name in copies if name in self.refused]
        assert not delivered, f"{len(delivered)} refused and delivered: {delivered[:5]}"
        assert not self.cancelled & copies.keys(), "cancelled and delivered"
        early = [name for name, _, came_ms in self.seen if came_ms < self.due_ms.get(name, 0)]
        assert not early, f"early: {early[:10]}"


class Posted(NamedTuple):
    """A request that is not answered yet, and the messages in it."""

    names: list[str]
    opaque: int


class Clients:
    """A producer, a reader and a pipeline without Spark, in threads that go on whatever happens."""

    def __init__(self, history: History, seed: str) -> None:
        self.history = history
        self.remoting = ""
        self.flight = ""
        self._random = random.Random(seed)
        self._number = 0
        self._stopping = threading.Event()
        self._quiet = threading.Event()
        self._threads = [
            threading.Thread(target=self._again, args=(work,), daemon=True)
            for work in (self._produce, self._read, self._carry)
        ]
        self._offsets = dict.fromkeys(range(QUEUE_COUNT), 0)

    def start(self) -> None:
        for thread in self._threads:
            thread.start()

    def send_no_more(self) -> None:
        self._quiet.set()
        self._threads[0].join()

    def stop(self) -> None:
        self._quiet.set()
        self._stopping.set()
        for thread in self._threads:
            thread.join()

    def _again(self, work: Callable[[], None]) -> None:
        """Begin anew after a lost connection: the broker is being started again."""
        while not self._stopping.is_set() and not (work == self._produce and self._quiet.is_set()):
            try:
                work()
            except (OSError, BrokerError, ConnectionError):
                self._stopping.wait(10 * _PAUSE_S)

    # The producer

    def _produce(self) -> None:
        with Peer(self.remoting, timeout_seconds=PATIENCE_S) as peer:
            while not self._quiet.wait(_PAUSE_S):
                posted = []
                for _ in range(AT_ONCE):
                    self._number += 1
                    post = self._post_batch if self._number % 7 == 0 else self._post
                    posted.append(post(peer, f"m{self._number}"))
                self._answers(peer, posted)

    def _post_batch(self, peer: Peer, name: str) -> Posted:
        """Ordinary and delayed messages that are answered as one."""
        names = [f"{name}-{row}" for row in range(4)]
        batch = []
        for row, each in enumerate(names):
            properties = {"UNIQ_KEY": each} | ({"TIMER_DELAY_MS": "200"} if row % 2 else {})
            body = self._body(each)
            batch.append(BatchMessage(body=body, properties=encode_properties(properties)))
        self._open(names)
        ext = peer.send_ext(TOPIC, queue_id=self._random.randrange(QUEUE_COUNT))
        code = RequestCode.SEND_BATCH_MESSAGE
        return Posted(names=names, opaque=peer.send(code, ext, encode_batch(batch)))

    def _open(self, names: list[str]) -> None:
        with self.history.lock:
            self.history.unknown |= set(names)

    def _body(self, name: str) -> bytes:
        return name.encode() + b" " + bytes(self._random.randrange(4_000))

    def _post(self, peer: Peer, name: str) -> Posted:
        kind = self._random.choice(("now", "now", "soon", "soon", "soon", "far"))
        properties = {"UNIQ_KEY": name}
        if kind == "soon":
            properties["TIMER_DELAY_MS"] = str(self._random.randrange(100, 1_500))
        if kind == "far":
            properties["TIMER_DELAY_MS"] = str(FAR_MS)
        ext = peer.send_ext(
            TOPIC, queue_id=self._random.randrange(QUEUE_COUNT), properties=properties
        )
        self._open([name])
        opaque = peer.send(RequestCode.SEND_MESSAGE_V2, ext, self._body(name))
        return Posted(names=[name], opaque=opaque)

    def _answers(self, peer: Peer, posted: list[Posted]) -> None:
        for each in posted:
            answer = peer.wait_answer(each.opaque)
            with self.history.lock:
                if answer.code == 0:
                    self._accepted(each, answer.ext)
                elif answer.code in REFUSALS:
                    self.history.refused |= dict.fromkeys(each.names, answer.remark or "")
                    self.history.unknown -= set(each.names)

    def _accepted(self, posted: Posted, ext: Mapping[str, str]) -> None:
        self.history.unknown -= set(posted.names)
        handle = ext.get("recallHandle", "") if len(posted.names) == 1 else ""
        due_ms = due_of(handle) if handle else 0
        if due_ms > system_time_ms() + FAR_MS // 2:
            self.history.far[posted.names[0]] = handle
        else:
            self.history.due_ms |= dict.fromkeys(posted.names, due_ms)

    # The reader

    def _read(self) -> None:
        with Peer(self.remoting, timeout_seconds=PATIENCE_S) as peer:
            while not self._stopping.wait(_PAUSE_S):
                for queue_id in range(QUEUE_COUNT):
                    self._pull(peer, queue_id)

    def _pull(self, peer: Peer, queue_id: int) -> None:
        answer = peer.pull(TOPIC, self._offsets[queue_id], queue_id=queue_id)
        if answer.code != 0:
            return
        came_ms = system_time_ms()
        self._offsets[queue_id] = int(answer.ext["nextBeginOffset"])
        with self.history.lock:
            for record in records_of(answer):
                name = record.body.partition(b" ")[0].decode()
                self.history.seen.append((name, queue_id, came_ms))

    # The pipeline

    def _carry(self) -> None:
        run, batch = f"run{self._random.random()}", 0
        with FlightClient(self.flight) as client:
            while not self._stopping.is_set():
                batch += 1
                carry(client, run, batch)


def due_of(handle: str) -> int:
    """When the message behind a handle is due."""
    return int(base64.urlsafe_b64decode(handle).split(b" ")[3])


def carry(client: FlightClient, run: str, batch: int) -> None:
    """One window from the delay log to the gate, as the sink and the source do it."""
    ask = protocol.NextWindow(ahead_ms=500, lead_ms=500, row_count_max=500, wait_ms=50)
    end = client.call(ask, protocol.WindowEnd).end
    if end is None:
        return
    plan = client.call(
        protocol.PlanWindow(end=end, slice_count_max=1, slice_row_count_min=1), protocol.WindowPlan
    )
    for index in range(len(plan.slices)):
        part = protocol.ReadSlice(
            plan=plan.plan, index=index, run=run, batch=batch, units_only=True
        )
        rows = [units.select(ROUTE_NAMES) for units in client.read(protocol.Ticket(slice=part))]
        routed = [pa.RecordBatch.from_arrays(each.columns, schema=routed_schema()) for each in rows]
        client.stage(f"{run}-{batch}", routed_schema(), routed)
    commit = protocol.CommitWindow(
        run=run, batch=batch, tokens=(f"{run}-{batch}",), is_transformed=False
    )
    client.call(commit, protocol.Committed)
