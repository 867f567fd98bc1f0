"""`dueline serve` without its terminal: broker and pipeline, from the first signal to the last.

One asyncio loop in the main thread waits for signals, failures and the passing of time; the work is
done by the broker's threads and by the pipeline's process. What a person should see is told to a
`Watcher`.

SIGTERM, SIGINT or SIGHUP stops in order: nothing new is accepted, the pipeline carries over what
falls due while it is away, the store is closed. The second one makes haste: the process ends at
once, which is safe, since nothing depends on an orderly end but the time that the next start takes
and how late the messages of that time are.
"""

from __future__ import annotations

import asyncio
import logging
import os
import signal
import sys
from collections.abc import Callable
from typing import IO, Final, Protocol

from dueline.broker.figures import Figures
from dueline.broker.pipeline import PipelineReport
from dueline.config import Config
from dueline.server.driver import driver_command, driver_environment
from dueline.server.process import BrokerProcess
from dueline.server.supervisor import PipelineRefused, Supervisor

__all__ = ["Watcher", "serve"]

SWITCH_INTERVAL_S: Final = 0.001
"""How long a thread may keep the interpreter: the gate's thread should not wait for 5 ms."""

_SIGNALS: Final = (signal.SIGTERM, signal.SIGINT, signal.SIGHUP)


class Watcher(Protocol):
    """What is told while serving; calls come from any thread."""

    tick_s: float
    """How often it wants figures."""

    def accepting(self, broker: BrokerProcess) -> None: ...

    def driver(self, report: PipelineReport) -> None: ...

    def tick(self, figures: Figures, driver: PipelineReport) -> None: ...

    def failed(self, error: BaseException) -> None: ...

    def stopping(self) -> None: ...


def serve(config: Config, watcher: Watcher, *, tether: IO[str] | None = None) -> int:
    """Serve until a signal, a failure, or the end of `tether`; returns the exit code.

    Raises:
        BrokerError, OSError: it could not start.
    """
    return asyncio.run(_serve(config, watcher, tether))


async def _serve(config: Config, watcher: Watcher, tether: IO[str] | None) -> int:
    loop = asyncio.get_running_loop()
    stopping = asyncio.Event()
    failures: list[BaseException] = []

    def stop_soon() -> None:
        loop.call_soon_threadsafe(stopping.set)

    def fail(error: BaseException) -> None:
        failures.append(error)
        stop_soon()

    on_signal = _SignalHandler(stopping)
    for number in _SIGNALS:
        loop.add_signal_handler(number, on_signal)
    if tether is not None:
        loop.add_reader(tether, _on_tether, loop, tether, stopping)
    sys.setswitchinterval(SWITCH_INTERVAL_S)
    broker = BrokerProcess(config, on_failure=fail, on_pipeline=watcher.driver)
    await asyncio.to_thread(broker.start)
    watcher.accepting(broker)
    supervisor = _start_supervisor(config, broker, fail)
    await _watch(broker, watcher, stopping)
    if failures:
        watcher.failed(failures[0])
    watcher.stopping()
    broker.refuse()
    if supervisor is not None:
        if broker.pipeline.report().status == "ready" and not failures:
            await asyncio.to_thread(broker.fill_runway)
        await asyncio.to_thread(supervisor.stop)
    await asyncio.to_thread(broker.stop)
    code = _exit_code(failures)
    if broker.has_hung_calls:
        # The store is closed; a call that does not end would hold up the interpreter's end.
        logging.shutdown()
        sys.stdout.flush()
        os._exit(code)
    return code


def _exit_code(failures: list[BaseException]) -> int:
    if not failures:
        return 0
    return 2 if isinstance(failures[0], PipelineRefused) else 1


class _SignalHandler:
    """The first signal asks to stop, the second one to make haste."""

    def __init__(self, stopping: asyncio.Event) -> None:
        self._stopping = stopping
        self._is_asked = False

    def __call__(self) -> None:
        if self._is_asked:
            os._exit(130)
        self._is_asked = True
        self._stopping.set()


def _on_tether(loop: asyncio.AbstractEventLoop, tether: IO[str], stopping: asyncio.Event) -> None:
    """The other end was closed, as it is when whoever started us has died."""
    if not os.read(tether.fileno(), 4096):
        loop.remove_reader(tether)
        stopping.set()


def _start_supervisor(
    config: Config,
    broker: BrokerProcess,
    on_failure: Callable[[BaseException], None],
) -> Supervisor | None:
    if not config.delivery.enabled:
        return None
    supervisor = Supervisor(
        driver_command(config.delivery, [broker.local_address]),
        driver_environment(config.delivery, os.environ),
        log_path=config.folder / "spark.log",
        status=broker.pipeline,
        on_failure=on_failure,
    )
    supervisor.start()
    return supervisor


async def _watch(broker: BrokerProcess, watcher: Watcher, stopping: asyncio.Event) -> None:
    """Tell how it goes until it is time to stop."""
    while True:
        try:
            async with asyncio.timeout(watcher.tick_s):
                await stopping.wait()
                return
        except TimeoutError:
            figures = await asyncio.to_thread(broker.broker.meter.figures)
            watcher.tick(figures, broker.pipeline.report())
