"""One broker: a store, the threads around it, and its ports: Flight, and RocketMQ's 4.x protocol.

    gRPC threads ──▶ broker ──▶ writer thread ──▶ store ◀── gate thread: opens the gate in time
    remoting loop ─▶   ▲                          │   ▲
                       └───── readers woken ◀─────┘   └──── caretaker thread: checkpoints, retention

`start` returns when requests are served. `stop` is the reverse, in an order that keeps promises:
nothing new is accepted, what was accepted is written and answered, calls under way end, and only
then the store is closed. If the store fails under way, `on_failure` is told once; then only `stop`
is left, and opening the store again repairs it.

A broker is one process per folder: the store's lock sees to that.
"""

from __future__ import annotations

import gc
import importlib
import logging
import os
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack
from dataclasses import asdict, replace
from pathlib import Path
from typing import Final, Protocol

import pyarrow as pa

from dueline import compiled
from dueline.access_settings import SUPER_USER_VARIABLE
from dueline.broker import Broker, BrokerOptions
from dueline.broker.access import Access, AccessOptions, Management, Trail
from dueline.broker.backups import RECEIPTS_FILE, Backups
from dueline.broker.consumer_offsets import ConsumerOffsets
from dueline.broker.housekeeping import Housekeeping
from dueline.broker.inflight.plain_rows import PLAIN_KERNELS
from dueline.broker.pipeline import PipelineStatus
from dueline.broker.pipeline.deputy import Deputy
from dueline.broker.pipeline.shortcut import Shortcut
from dueline.broker.pipeline.status import OnChange
from dueline.broker.quotas import Quotas, parse_rules
from dueline.broker.topics import TopicOptions
from dueline.clock import Clock
from dueline.config import Config
from dueline.credentials import Credentials
from dueline.errors import InvalidRequest, StoreClosed, Unavailable
from dueline.server.accepted import Accepted
from dueline.server.asker import Asker
from dueline.server.audit_writer import AuditWriter
from dueline.server.caretaker import Caretaker
from dueline.server.connections import Connections
from dueline.server.courier import Courier
from dueline.server.descriptors import connection_files, raise_limit
from dueline.server.encryption import tls_options
from dueline.server.flight import FlightDoor
from dueline.server.grpc.message_table import MESSAGE_KERNELS
from dueline.server.grpc.port import GrpcPort, grpc_options
from dueline.server.job_worker import JobWorker
from dueline.server.receipts import ReceiptWriter
from dueline.server.remoting.limits import Limits
from dueline.server.remoting.listeners import Listener, primary_address
from dueline.server.remoting.service import RemotingOptions, RemotingService
from dueline.server.remoting.turns import KERNELS as TURNS
from dueline.server.threads import OnFailure
from dueline.server.ticker import GateTicker
from dueline.server.tls import Tls
from dueline.server.writer import Writer
from dueline.settings import parse_address
from dueline.store import Files, Store, StoreOptions
from dueline.store.block import BLOCK_KERNELS
from dueline.store.bulk_rows import BULK_KERNELS
from dueline.store.copies import COPY_KERNELS
from dueline.store.imports import check_finished
from dueline.store.kernels import CRC_KERNELS
from dueline.store.stamp import STAMP_KERNELS
from dueline.store.stretch import READ_KERNELS
from dueline.store.unpacking import UNPACKING_KERNELS

__all__ = ["BrokerProcess", "prepare", "store_options"]

KERNELS: Final = (
    *(UNPACKING_KERNELS, COPY_KERNELS, STAMP_KERNELS, CRC_KERNELS),
    *(BLOCK_KERNELS, BULK_KERNELS, READ_KERNELS),
    *TURNS,
    *(PLAIN_KERNELS, MESSAGE_KERNELS),
)
"""What is compiled, or loaded, while the broker serves already: what was due while it was away can
be copied first, by three modules of these."""
VIP_DISTANCE: Final = 2
FILL_S_MAX: Final = 5.0

log = logging.getLogger(__name__)


class Part(Protocol):
    """What runs from the start of a broker to its end."""

    def start(self) -> None: ...

    def stop(self) -> None: ...


class BrokerProcess:
    """A running broker; `start` it once, `stop` it once."""

    store: Store
    broker: Broker
    connections: Connections
    tls: Tls
    remoting_options: RemotingOptions
    remoting: RemotingService
    grpc: GrpcPort
    service: FlightDoor

    def __init__(
        self,
        config: Config,
        *,
        clock: Clock | None = None,
        files: Files | None = None,
        on_failure: OnFailure = lambda error: None,
        on_pipeline: OnChange = lambda report: None,
    ) -> None:
        self.config: Final = config
        self.clock: Final = clock or Clock()
        # A pipeline elsewhere says what it does when it asks for work; ours has it in its settings.
        is_known_plain = config.delivery.enabled and not config.delivery.transform
        self.pipeline: Final = PipelineStatus(self.clock, is_transformed=not is_known_plain)
        self.pipeline.on_change(on_pipeline)
        self._files = files or Files()
        self._on_failure = on_failure
        self._failed = threading.Event()
        self._undo = ExitStack()

    def start(self) -> None:
        """Open the store and serve; what was started is stopped again if the rest cannot be.

        Raises:
            StoreLocked: another process has the folder open.
            InvalidRequest: settings that do not fit the store.
            Unavailable: the port is taken, too few files may be open, or an import into the
                folder is not finished.
            OSError: the folder cannot be written.
        """
        with ExitStack() as undo:
            self._open(undo)
            for part in self._parts():
                part.start()
                undo.callback(part.stop)
            undo.callback(self.refuse)
            self._undo = undo.pop_all()
        # What a broker begins with it keeps: to look through it for garbage takes 20 ms each time.
        if self.config.compiled:
            compiled.load_soon(KERNELS, then=gc.freeze)
        else:
            gc.freeze()

    def stop(self) -> None:
        """Finish what was accepted, then close everything."""
        self._undo.close()

    def _open(self, undo: ExitStack) -> None:
        config = self.config
        # First of all: to open the store takes files, and what it may have is known then.
        quotas = Quotas(parse_rules(config.quotas.rules))
        self.connections = Connections(
            connection_files(raise_limit()), quota=quotas.connection_count_max
        )
        check_finished(config.folder, self._files)
        # Bound first: ids of messages name the port, and a taken port must not cost a recovery.
        self.remoting_options = remoting_options(config)
        undo.callback(self.remoting_options.close)
        self.tls = Tls(tls_options(config), config.tls_folder, files=self._files, clock=self.clock)
        self.store = Store.open(
            config.store_folder,
            store_options(config, self.remoting_options),
            clock=self.clock,
            files=self._files,
        )
        undo.callback(self.store.close)
        self._writer = Writer(
            self.store.put_all,
            put_rows=self.store.put_rows,
            count_max=config.send.queue_count_max,
            size_bytes_max=config.send.queue_size_bytes_max,
            on_failure=self._fail,
            gathers=self.store.options.flush == "sync",
            is_at_hand=lambda: not self.store.is_busy(),
        )
        access = open_access(config, self._files, self.clock, os.environ)
        self.broker = Broker(
            self.store,
            ConsumerOffsets(config.folder / "consumerOffset.json", self._files),
            submit=self._writer.submit,
            submit_rows=self._writer.submit_rows,
            files=self._files,
            options=messaging_options(config),
            receipts_path=config.folder / RECEIPTS_FILE,
            pipeline_status=self.pipeline,
            quotas=quotas,
            access=access,
            trail=Trail(
                config.access_folder,
                self._files,
                clock=self.clock,
                size_bytes_max=config.access.audit_size_bytes_max,
            ),
        )
        undo.callback(self.broker.close)
        undo.callback(self._save_unless_failed)

    def _parts(self) -> Iterator[Part]:
        """In the order in which they are started; they are stopped in the reverse of it.

        So the writer is stopped first, and has answered everyone by then; the doors after it, and
        what they call last.
        """
        config, on_failure = self.config, self._fail
        broker = self.broker
        chores = Housekeeping(self.store, broker.offsets, broker.quotas, broker.rules.forecast)
        chores.count_pending()
        yield Caretaker(chores, on_failure=on_failure)
        yield AuditWriter(self.broker.trail, on_failure=on_failure)
        ticker = GateTicker(self.store, self.clock, on_failure=on_failure)
        self.store.observe(ticker)
        yield ticker
        yield JobWorker(self.broker.jobs, on_failure=on_failure)
        shortcut = Shortcut(self.store, self.pipeline, within_ms=config.delivery.shortcut_ms)
        courier = Courier(shortcut, Deputy(self.store, self.pipeline), on_failure=on_failure)
        self.store.observe(courier)
        self.pipeline.on_change(lambda report: courier.wake())
        yield courier
        self.service = self._flight()
        yield self.service
        yield ReceiptWriter(self.broker.inflight, on_failure=on_failure)
        self.grpc = GrpcPort(
            self.broker,
            grpc_options(config),
            tls=self.tls,
            connections=self.connections,
            on_failure=on_failure,
        )
        yield self.grpc
        self.remoting = RemotingService(
            self.broker,
            self.remoting_options,
            tls=self.tls,
            connections=self.connections,
            on_failure=on_failure,
        )
        yield self.remoting
        yield self._writer
        yield Asker(self.broker.asking, self.clock, on_failure=on_failure)
        yield Accepted(self.connections, self._own_ports, on_failure=on_failure)

    def _flight(self) -> FlightDoor:
        config = self.config
        try:
            return FlightDoor(
                self.broker.pipeline,
                shard=config.name,
                address=config.listen.flight,
                tls=self.tls if self.tls.mode == "enforcing" else None,
                broker=self.broker,
                config=config,
                backups=Backups(self.store, files=self._files, save=self._save_tables),
            )
        except (pa.ArrowException, OSError) as error:
            raise Unavailable(
                f"listen.flight: expected to listen on {config.listen.flight}, found: "
                f"{str(error).splitlines()[0]}; is the port taken by another broker?",
                address=config.listen.flight,
            ) from error

    def _own_ports(self) -> list[int]:
        """Ports whose servers accept by themselves."""
        return [self.service.port]

    @property
    def address(self) -> str:
        """Where the Flight port really is: a configured port of 0 takes a free one."""
        host = self.config.listen.flight.rpartition(":")[0]
        return f"{host}:{self.service.port}"

    @property
    def local_address(self) -> str:
        """The same for a process on this machine: an address that means "all" is none to call."""
        host, _ = parse_address(self.config.listen.flight)
        loopback = {"0.0.0.0": "127.0.0.1", "::": "[::1]"}
        own = self.config.listen.flight.rpartition(":")[0]
        return f"{loopback.get(host, own)}:{self.service.port}"

    def refuse(self) -> None:
        """Accept nothing new from now on; readers that wait are let go."""
        self.broker.refuse()

    def fill_runway(self) -> None:
        """Before the pipeline stops: let it carry over what falls due while it is away."""
        ahead_ms = self.config.delivery.runway_ms
        if not self.service.fill(ahead_ms, FILL_S_MAX):
            log.warning("not all that is due soon was carried over within %g s", FILL_S_MAX)

    @property
    def has_hung_calls(self) -> bool:
        """Whether a call was still under way when `stop` had waited for it long enough."""
        return self.service.has_hung_calls

    def _save_unless_failed(self) -> None:
        if not self._failed.is_set():
            self._save_tables()

    def _save_tables(self) -> None:
        """Write what is kept in memory between two saves."""
        _save("topics and groups", self.broker.save)
        _save("consumer offsets", self.broker.offsets.save)

    def _fail(self, error: BaseException) -> None:
        """A thread ended or the store closed itself: told once, however many notice."""
        if self._failed.is_set():
            return
        self._failed.set()
        if not isinstance(error, StoreClosed):
            log.error("the broker cannot go on: %r", error)
        self._on_failure(error)


def prepare(config: Config) -> None:
    """Load what a broker with these settings uses, and touch nothing of another one.

    Raises:
        BrokerError: settings that contradict each other.
        ImportError: an installation that is not whole.
    """
    config.check()
    parse_rules(config.quotas.rules)
    if config.listen.grpc is not None:
        importlib.import_module("dueline.server.grpc.server")
    if config.compiled:
        compiled.load(KERNELS)


def _save(what: str, save: Callable[[], object]) -> None:
    """Write what the next start reads; a full disk must not be in the way."""
    try:
        save()
    except Unavailable as error:
        log.warning("%s were not saved: %s", what, error)


def store_options(config: Config, remoting: RemotingOptions | None = None) -> StoreOptions:
    """The store's options: its section has the same names, and ids name the remoting port."""
    options = StoreOptions(**asdict(config.store))
    listener = remoting.broker if remoting is not None else None
    if listener is None:
        return options
    host = primary_address(config.listen.advertised or listener.host)
    return replace(options, host=host, port=listener.port)


def open_access(config: Config, files: Files, clock: Clock, environ: Mapping[str, str]) -> Access:
    """The users of a broker; the first super user is made if there is none.

    Raises:
        InvalidRequest: access control is on, and there is no super user and none is named.
        StoreError: the users' file is damaged, or the key is not theirs.
    """
    settings = config.access
    options = AccessOptions(
        is_enabled=settings.enabled,
        has_certificate_users=settings.certificate_users,
        cluster=config.messaging.cluster,
        key_path=Path(settings.key_file) if settings.key_file is not None else None,
    )
    access = Access(config.access_folder, files, clock=clock, options=options)
    if not settings.enabled or any(
        user.is_super and user.is_enabled for user in access.users.values()
    ):
        return access
    if settings.super_user_file is not None:
        first = Credentials.read(Path(settings.super_user_file), where="access.super_user_file")
    elif environ.get(SUPER_USER_VARIABLE):
        first = Credentials.parse(environ[SUPER_USER_VARIABLE], where=SUPER_USER_VARIABLE)
    else:
        raise InvalidRequest(
            "access.enabled: expected a super user who can make others, found none; name the first "
            "one as name:secret in a file that access.super_user_file names, or in the variable "
            f"{SUPER_USER_VARIABLE}, and start again",
            field="access.super_user_file",
        )
    Management(access, clock).found(first.name, first.secret)
    log.info("access control: made the first super user, %s", first.name)
    return access


def messaging_options(config: Config) -> BrokerOptions:
    """What all messaging protocols share."""
    return BrokerOptions(
        broker_name=config.name,
        cluster_name=config.messaging.cluster,
        topics=TopicOptions(auto_create=config.messaging.auto_create_topics),
        auto_create_groups=config.messaging.auto_create_groups,
    )


def remoting_options(config: Config) -> RemotingOptions:
    """The ports of RocketMQ's 4.x protocol, bound.

    Raises:
        Unavailable: one of them is taken.
    """
    names = _listener("listen.name_server", config.listen.name_server)
    try:
        broker = _listener("listen.remoting", config.listen.remoting)
    except BaseException:
        if names is not None:
            names.close()
        raise
    return RemotingOptions(
        name_server=names,
        broker=broker,
        vip=_vip_listener(config.listen.remoting),
        advertised_host=config.listen.advertised,
        limits=Limits(
            connection_count_max=config.messaging.connection_count_max,
            waiting_count_max=config.messaging.waiting_count_max,
        ),
    )


def _vip_listener(address: str | None) -> Listener | None:
    """The port two below the broker's, as clients work it out; none if it is taken."""
    host, port = parse_address(address) if address is not None else ("", 0)
    if port <= VIP_DISTANCE:
        return None
    try:
        return Listener.bind("VIP channel", host, port - VIP_DISTANCE)
    except Unavailable as error:
        log.warning("clients with a VIP channel are not served: %s", error)
        return None


def _listener(name: str, address: str | None) -> Listener | None:
    return None if address is None else Listener.bind(name, *parse_address(address))
