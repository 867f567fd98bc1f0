"""`dueline serve` without its terminal: a small parent of processes that do the work.

    parent ──┬── broker      store, gate, doors
             ├── pipeline    Spark's driver, which has Java and Python workers below it
             └── …           whatever `dueline.server.children` lists

Each child is started again on its own. A broker that was killed is back on the same ports while the
pipeline goes on; a pipeline that restarts within the runway is not noticed. The parent loads and
does nothing heavy. Its main thread takes what happens from one queue: words of children, their
ends, signals, the passing of time. What a person should see is told to a `Watcher`.

SIGHUP restarts in place (`dueline.server.restarting`), unless it comes because the terminal was
closed. SIGTERM, SIGINT and a closed terminal stop in order: nothing new is accepted, the pipeline
carries over what falls due while it is away, the store is closed. Nobody waits for Spark then: it
is killed when the runway is filled. The second signal makes haste: everything ends at once, which
is safe, since nothing depends on an orderly end but the time that the next start takes and how late
the messages of that time are.
"""

from __future__ import annotations

import logging
import os
import signal
import threading
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from queue import Empty, SimpleQueue
from time import monotonic
from typing import IO, Final, Protocol

from dueline.config import Config
from dueline.errors import BrokerError, Unavailable
from dueline.server.child import REFUSED_STATUS, Child, ChildReport
from dueline.server.children import PIPELINE, broker_of, others_of
from dueline.server.folder import ServeLock
from dueline.server.restarting import Note, Restart, has_terminal, write_note
from dueline.server.rotating import RotatingFile
from dueline.server.supervisor import Supervisor
from dueline.server.telling import (
    Accepting,
    AskFigures,
    Begin,
    Event,
    Failed,
    Filled,
    Order,
    PipelineIs,
    PipelineReady,
    PipelineTrouble,
    Ready,
    Refused,
    ServingFigures,
    Stop,
    decode_event,
    encode,
    to_values,
)

__all__ = ["Watcher", "serve"]

FILLED_S_MAX: Final = 15.0
"""Longer than a broker waits for its runway to be filled."""

CLOSED_S_MAX: Final = 120.0
_SIGNALS: Final = (signal.SIGTERM, signal.SIGINT)

log = logging.getLogger(__name__)


class Watcher(Protocol):
    """What is told while serving, all of it in one thread."""

    tick_s: float
    """How often it wants figures."""

    def accepting(self, broker: Accepting) -> None: ...

    def changed(self, child: Child, report: ChildReport) -> None: ...

    def ready(self, child: Child, text: str) -> None: ...

    def tick(self, figures: ServingFigures) -> None: ...

    def failed(self, message: str) -> None: ...

    def restarted(self, message: str) -> None:
        """A restart in place has ended, well or not."""

    def stopping(self) -> None: ...


def serve(
    config: Config, watcher: Watcher, *, log_file: RotatingFile, tether: IO[str] | None = None
) -> int:
    """Serve until a signal, a failure, or the end of `tether`; returns the exit code.

    Raises:
        BrokerError: it could not start.
    """
    lock = ServeLock(config.folder)
    try:
        return _Parent(config, watcher, lock, log_file).run(tether)
    finally:
        lock.release()


class _Parent:
    """The state of one run; what others call only puts something into its inbox."""

    def __init__(
        self, config: Config, watcher: Watcher, lock: ServeLock, log_file: RotatingFile
    ) -> None:
        self._config = config
        self._watcher = watcher
        self._inbox: SimpleQueue[Callable[[], object]] = SimpleQueue()
        self._broker = Supervisor(broker_of(config, lock=lock.descriptor), self, log_file=log_file)
        self._others: dict[str, Supervisor] = {}
        self._refusal = ""
        self._has_accepted = False
        self._has_filled = False
        self._is_asked = False
        self._had_terminal = has_terminal()
        self._restart: Restart | None = None
        self._is_asked_again = False
        self._error: BrokerError | None = None
        self._code: int | None = None

    def run(self, tether: IO[str] | None) -> int:
        for number in _SIGNALS:
            signal.signal(number, self._on_signal)
        signal.signal(signal.SIGHUP, self._on_hangup)
        if tether is not None:
            threading.Thread(target=self._watch_tether, args=(tether,), daemon=True).start()
        self._broker.start()
        self._handle_until(lambda: self._code is not None, tick_s=self._watcher.tick_s)
        self._end()
        if self._error is not None:
            raise self._error
        assert self._code is not None
        return self._code

    # Told by supervisors, in their threads

    def changed(self, child: Child, report: ChildReport) -> None:
        self._inbox.put(partial(self._on_change, child, report))

    def said(self, child: Child, line: bytes) -> bool:
        event = decode_event(line)
        if event is not None:
            self._inbox.put(partial(self._on_event, child, event))
        return event is not None

    def complained(self, child: Child, text: str) -> None:
        if child.name == PIPELINE:
            self._inbox.put(partial(self._order, PipelineTrouble(error=text)))

    def gave_up(self, child: Child, reason: str, status: int) -> None:
        self._inbox.put(partial(self._on_given_up, child, reason, status))

    def failed(self, error: BaseException) -> None:
        self._inbox.put(partial(self._fail, f"{type(error).__name__}: {error}", 1))

    def _watch_tether(self, tether: IO[str]) -> None:
        """The other end is closed when our parent has died."""
        while os.read(tether.fileno(), 4096):
            pass
        self._inbox.put(partial(self._stop, 0))

    def _on_signal(self, number: int, frame: object) -> None:
        if self._is_asked:
            for supervisor in (*self._others.values(), self._broker):
                supervisor.kill()
            os._exit(130)
        self._is_asked = True
        self._inbox.put(partial(self._stop, 0))

    def _on_hangup(self, number: int, frame: object) -> None:
        if self._had_terminal and not has_terminal():
            self._on_signal(number, frame)
        else:
            self._inbox.put(self._begin_restart)

    # A restart in place

    def _begin_restart(self) -> None:
        """One at a time: who asks meanwhile gets another, since files may have changed."""
        if self._code is not None:
            return
        if self._restart is not None:
            self._is_asked_again = True
            return
        self._restart = Restart(
            self._broker,
            list(self._others.values()),
            to_values(self._config),
            is_up=self._has_accepted,
            on_end=lambda note: self._inbox.put(partial(self._end_restart, note)),
        )
        self._restart.start()

    def _end_restart(self, note: Note) -> None:
        self._restart = None
        self._watcher.restarted(note.message)
        write_note(self._config.folder, note)
        if self._is_asked_again:
            self._is_asked_again = False
            self._begin_restart()

    # In the main thread

    def _handle_until(
        self, condition: Callable[[], bool], *, tick_s: float | None = None, end_s: float = 0.0
    ) -> bool:
        """Handle what happens until the condition is true, or it is `end_s`."""
        next_s = monotonic() + tick_s if tick_s else end_s
        while not condition():
            try:
                act = self._inbox.get(timeout=max(next_s - monotonic(), 0))
            except Empty:
                if tick_s is None:
                    return False
                next_s = monotonic() + tick_s
                self._order(AskFigures())
            else:
                act()
        return True

    def _order(self, order: Order) -> bool:
        return self._broker.order(encode(order))

    def _on_change(self, child: Child, report: ChildReport) -> None:
        if child is self._broker.child and report.status == "starting":
            self._order(Begin(settings=to_values(self._config)))
        if child.name == PIPELINE:
            self._tell_pipeline(report)
        self._watcher.changed(child, report)

    def _tell_pipeline(self, report: ChildReport) -> None:
        """What the broker reports of it; that it is ready, the broker finds out by itself."""
        if report.status != "ready":
            self._order(
                PipelineIs(
                    status=report.status,
                    pid=report.pid,
                    start_count=report.start_count,
                    reason=report.reason,
                )
            )

    def _on_event(self, child: Child, event: Event) -> None:
        if isinstance(event, Accepting):
            self._on_accepting(event)
        elif isinstance(event, ServingFigures):
            self._watcher.tick(event)
        elif isinstance(event, Refused):
            self._refusal = event.message
        elif isinstance(event, Failed):
            self._fail(event.message, 1)
        elif isinstance(event, Filled):
            self._has_filled = True
        elif isinstance(event, PipelineReady):
            self._ready(PIPELINE, "")
        elif isinstance(event, Ready):
            self._ready(child.name, event.text)

    def _ready(self, name: str, text: str) -> None:
        supervisor = self._others.get(name)
        if supervisor is not None:
            supervisor.ready()
            if text:
                self._watcher.ready(supervisor.child, text)

    def _on_accepting(self, broker: Accepting) -> None:
        self._refusal = ""
        self._has_filled = False
        self._broker.ready()
        if self._restart is not None:
            self._restart.accepts(self._broker.report().pid)
        pipeline = self._others.get(PIPELINE)
        if pipeline is not None and pipeline.report().status == "ready":
            # It runs on, and has to show that it has found the new broker.
            self._tell_pipeline(replace(pipeline.report(), status="starting"))
        elif pipeline is not None:
            self._tell_pipeline(pipeline.report())
        if self._has_accepted:
            return
        self._has_accepted = True
        write_note(self._config.folder, Note())
        self._watcher.accepting(broker)
        self._config = _with_addresses(self._config, broker)
        for child in others_of(self._config, broker) if self._code is None else ():
            self._others[child.name] = Supervisor(child, self)
            self._others[child.name].start()

    def _on_given_up(self, child: Child, reason: str, status: int) -> None:
        if child is self._broker.child:
            reason = self._refusal or reason
            if not self._has_accepted and status == REFUSED_STATUS:
                self._error = Unavailable(reason)
            self._fail(reason, REFUSED_STATUS if status == REFUSED_STATUS else 1)
        elif child.is_optional:
            self._watcher.ready(child, f"{child.title} does not run: {reason}")
        elif status == REFUSED_STATUS:
            self._fail(f"the {child.name} cannot work as it is set up: {reason}", REFUSED_STATUS)
        else:
            self._fail(f"the {child.name} cannot be kept running: {reason}", 1)

    def _fail(self, message: str, code: int) -> None:
        if self._code is None and self._error is None:
            self._watcher.failed(message)
        self._stop(code)

    def _stop(self, code: int) -> None:
        if self._code is None:
            self._code = code

    # The end

    def _end(self) -> None:
        """The broker closes its store; the others end when it needs them no longer."""
        if self._error is None:
            self._watcher.stopping()
        self._broker.let_end()
        if not self._order(Stop()):
            self._broker.kill()
        self._handle_until(
            lambda: self._has_filled or self._broker.report().status == "stopped",
            end_s=monotonic() + FILLED_S_MAX,
        )
        for supervisor in self._others.values():
            supervisor.ask_to_end()
        self._broker.wait(CLOSED_S_MAX)
        for supervisor in self._others.values():
            supervisor.wait()


def _with_addresses(config: Config, broker: Accepting) -> Config:
    """The ports that were taken, also where any free one would have done: clients know them."""
    listen = config.listen
    return replace(
        config,
        listen=replace(
            listen,
            flight=broker.address,
            name_server=_with_port(listen.name_server, broker.name_server),
            remoting=_with_port(listen.remoting, broker.remoting),
            grpc=_with_port(listen.grpc, broker.grpc),
        ),
    )


def _with_port(address: str | None, taken: str | None) -> str | None:
    if address is None or taken is None:
        return address
    return f"{address.rpartition(':')[0]}:{taken.rpartition(':')[2]}"
