"""The remoting servers of one broker: an event loop in a thread, with two ports.

    name server  9876      broker  10911, and 10909 for clients with a VIP channel

Either can be off. `start` returns when both listen; `stop` lets answers out that are ready and
closes every connection. The broker stops accepting before that, which lets waiting pulls go.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import threading
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import Final

from dueline.broker import Broker
from dueline.broker.sending import BATCH_COUNT_MAX
from dueline.server.connections import Connections
from dueline.server.outbox import Outbox
from dueline.server.remoting.admin import Admin
from dueline.server.remoting.assignment import AssignmentRequests
from dueline.server.remoting.consume import SendBacks
from dueline.server.remoting.context import Addresses, Context
from dueline.server.remoting.delayed import DelayedMessages
from dueline.server.remoting.group import GroupMembers
from dueline.server.remoting.guard import Guard
from dueline.server.remoting.hub import Hub
from dueline.server.remoting.known_pulls import KnownPulls
from dueline.server.remoting.limits import Limits
from dueline.server.remoting.listeners import Listener
from dueline.server.remoting.namesrv import NameServer
from dueline.server.remoting.offset import Offsets
from dueline.server.remoting.pop import Pops
from dueline.server.remoting.pull import Pulls
from dueline.server.remoting.query import Queries
from dueline.server.remoting.reply import Replies
from dueline.server.remoting.send import Sends, row_actions
from dueline.server.remoting.transaction import TransactionEnds
from dueline.server.remoting.turn_guard import TurnGuard
from dueline.server.remoting.turns import Turns
from dueline.server.runtime import Runtime
from dueline.server.threads import OnFailure, start_thread
from dueline.server.tls.contexts import Tls
from dueline.wire.turn import TurnLimits, TurnReader

__all__ = ["RemotingOptions", "RemotingService"]

THREAD_COUNT: Final = 4

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True, kw_only=True)
class RemotingOptions:
    """Where to listen, None: not at all; and what clients are told."""

    name_server: Listener | None = None
    broker: Listener | None = None
    vip: Listener | None = None
    """Two below the broker's: where old producers, and those that are told to, send."""
    advertised_host: str | None = None
    limits: Limits = field(default_factory=Limits)

    def close(self) -> None:
        """Give the ports back, if the service was never started."""
        for listener in (self.name_server, self.broker, self.vip):
            if listener is not None:
                listener.close()


class RemotingService:
    """Name server and broker for RocketMQ's 4.x clients."""

    def __init__(
        self,
        broker: Broker,
        options: RemotingOptions | None = None,
        *,
        tls: Tls | None = None,
        connections: Connections | None = None,
        on_failure: OnFailure = lambda error: None,
    ) -> None:
        self._broker = broker
        self._options = options or RemotingOptions()
        self.limits: Final = self._options.limits
        self._tls = tls
        self._connections = connections
        self._guard = Guard(broker.access, broker.trail)
        self._on_failure = on_failure
        self._threads = ThreadPoolExecutor(THREAD_COUNT, thread_name_prefix="remoting")
        self._ready = threading.Event()
        self._loop: asyncio.AbstractEventLoop | None = None
        self._stopping: asyncio.Event | None = None
        self._thread: threading.Thread | None = None
        self.hubs: list[Hub] = []

    def start(self) -> None:
        """Begin to serve."""
        self._thread = start_thread("remoting", self._run, on_failure=self._on_failure)
        self._ready.wait()

    def stop(self) -> None:
        """Close every connection; returns when the loop has ended."""
        loop, stopping = self._loop, self._stopping
        if loop is not None and stopping is not None:
            with contextlib.suppress(RuntimeError):  # it has ended by itself
                loop.call_soon_threadsafe(stopping.set)
        if self._thread is not None:
            self._thread.join()
        self._threads.shutdown(wait=True)

    def _run(self) -> None:
        asyncio.run(self._serve())

    async def _serve(self) -> None:
        self._loop = asyncio.get_running_loop()
        self._stopping = asyncio.Event()
        try:
            await self._listen()
        finally:
            self._ready.set()
        await self._stopping.wait()
        await self._close()

    async def _listen(self) -> None:
        loop = asyncio.get_running_loop()
        runtime = Runtime(loop=loop, outbox=Outbox(loop), threads=self._threads)
        context = Context(self._broker, runtime)
        if self._options.broker is not None:
            broker = self._hub("broker", runtime)
            members = GroupMembers(context, broker)
            sends = Sends(context)
            known = KnownPulls(context, broker, self._guard)
            for family in (
                sends,
                Pulls(context, broker, known),
                members,
                Offsets(context),
                SendBacks(context),
                Pops(context, broker),
                Replies(context),
                TransactionEnds(context, broker),
                Queries(context, broker),
                DelayedMessages(context, broker),
                Admin(context, broker),
                AssignmentRequests(context),
            ):
                broker.add(family.table())
            context.addresses = Addresses(
                host=self._options.advertised_host or self._options.broker.host,
                port=self._options.broker.port,
            )
            if self._broker.has_rows:
                broker.turns = self._turns(broker, context, sends)
            vip = [self._options.vip] if self._options.vip is not None else []
            await broker.listen(self._options.broker, *vip)
            members.expire()
        if self._options.name_server is not None:
            names = self._hub("name server", runtime)
            names.add(NameServer(context, names).table())
            await names.listen(self._options.name_server)

    def _turns(self, hub: Hub, context: Context, sends: Sends) -> Turns | None:
        store = self._broker.store_options
        limits = TurnLimits(
            frame_size_bytes_max=self.limits.frame_size_bytes_max,
            body_size_max=store.row_body_size_max,
            batch_count_max=BATCH_COUNT_MAX,
            level_max=store.rules.levels.level_max,
            delay_max_ms=store.rules.delay_max_ms,
        )
        access = self._broker.access
        guard = TurnGuard(access) if access.is_enabled else None
        return Turns(hub, context, sends, TurnReader(limits, row_actions()), guard=guard)

    def _hub(self, name: str, runtime: Runtime) -> Hub:
        made = Hub(
            name,
            runtime,
            self.limits,
            self._connections,
            guard=self._guard,
            tls=self._tls,
            quotas=self._broker.quotas,
        )
        self.hubs.append(made)
        return made

    async def _close(self) -> None:
        for each in self.hubs:
            await each.close()
        await asyncio.sleep(0)  # connections that were just closed leave in the next turn
