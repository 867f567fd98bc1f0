"""`dueline serve`: run a broker, and the pipeline beside it, in this terminal."""

from __future__ import annotations

import argparse
import contextlib
import logging
import os
import shutil
import sys
import threading
from collections.abc import Callable, Mapping
from time import monotonic
from typing import TYPE_CHECKING, Final

from dueline import __version__
from dueline.clock import Clock
from dueline.commands.examples import show_examples
from dueline.commands.settings import FLAGS, add_settings_arguments, load_settings
from dueline.commands.terminal import add_json_argument, plain, say, show_status, to_json
from dueline.commands.times import show_clock
from dueline.config import Config, Loaded, settings
from dueline.errors import Unavailable
from dueline.server.driver import check_driver
from dueline.settings import Setting
from dueline.times import show_span

if TYPE_CHECKING:
    from dueline.broker.figures import Figures
    from dueline.broker.pipeline import PipelineReport
    from dueline.server.process import BrokerProcess

__all__ = ["configure", "run"]

_TERMINAL_TICK_S: Final = 1.0
_FILE_TICK_S: Final = 60.0
_LOG_SIZE_BYTES_MAX: Final = 10 << 20

log = logging.getLogger(__name__)


def configure(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments."""
    add_settings_arguments(parser, FLAGS)
    parser.add_argument(
        "--no-spark",
        action="store_true",
        help="do not run the pipeline here; `dueline deliver` does it elsewhere",
    )
    parser.add_argument(
        "--tethered", action="store_true", help="stop when standard input is closed"
    )
    add_json_argument(parser)
    show_examples(
        parser,
        """
        dueline serve
        dueline serve --data /var/lib/dueline --flight 0.0.0.0:8815
        dueline serve --transform orders:unpaid_only
        dueline serve --set store.retention=24h
        """,
    )


def run(args: argparse.Namespace) -> int:
    """Serve until SIGTERM or Ctrl-C.

    1 if the broker had to stop by itself, 2 if its pipeline cannot work as it is set up.
    """
    # Errors are told by us; gRPC's own lines in between help nobody.
    os.environ.setdefault("GRPC_VERBOSITY", "NONE")
    overrides = {"delivery.enabled": "false"} if args.no_spark else {}
    loaded = load_settings(args, overrides)
    config = loaded.config
    if config.delivery.enabled:
        check_driver(config.delivery)
    _prepare_folder(config)

    from dueline.server.serving import serve  # loads Arrow: half a second that --help need not wait

    log.info("dueline %s starts as process %d", __version__, os.getpid())
    for line in _changed_settings(loaded):
        log.info("setting %s", line)
    code = serve(
        config, Terminal(config, as_json=args.json), tether=sys.stdin if args.tethered else None
    )
    log.info("stopped, exit code %d", code)
    return code


def _changed_settings(loaded: Loaded) -> list[str]:
    """The settings that are not the defaults, without what may be a password."""
    changed = [each for each in settings() if each.value_in(loaded.config) != each.default]
    return [
        f"{each.name} = {_shown(each, loaded.config)} ({loaded.origin_of(each.name)})"
        for each in changed
    ]


def _shown(setting: Setting, config: Config) -> str:
    value = setting.value_in(config)
    if isinstance(value, Mapping):
        return f"(values of {', '.join(value)} not shown)"
    return setting.kind.show(value)


def _prepare_folder(config: Config) -> None:
    """Make the data folder and write the broker's log into it."""
    from dueline.server.log_file import LogFile  # loads Arrow as well
    from dueline.store.files import Files

    try:
        Files().make_folder(config.folder)
        handler = LogFile(config.folder / "broker.log", maxBytes=_LOG_SIZE_BYTES_MAX, backupCount=1)
    except OSError as error:
        raise Unavailable(
            f"data folder {config.folder}: expected to write into it, found: {error.strerror}; "
            "choose another one with --data"
        ) from error
    handler.setFormatter(logging.Formatter("%(asctime)s %(levelname)s %(name)s: %(message)s"))
    root = logging.getLogger()
    root.addHandler(handler)
    root.setLevel(config.log_level.upper())
    if config.folder.stat().st_mode & 0o077:
        log.warning(
            "data folder %s: others on this machine may look into it, and it holds messages; "
            "`chmod 700` makes it yours alone",
            config.folder,
        )


class Terminal:
    """Tells a person how it goes: lines for events, and one line that is kept up to date.

    Where the output is not a terminal, there are only lines, and figures now and then.
    """

    def __init__(self, config: Config, *, as_json: bool = False) -> None:
        self._config = config
        self._as_json = as_json
        self._is_terminal = sys.stdout.isatty() and not as_json
        self._lock = threading.Lock()
        self._clock = Clock()
        self._spark_started_s = monotonic()
        self._told: object = None
        self.tick_s = _TERMINAL_TICK_S if self._is_terminal else _FILE_TICK_S

    def accepting(self, broker: BrokerProcess) -> None:
        self._line(f"dueline {__version__}, data in {self._config.folder}, process {os.getpid()}")
        report = broker.store.report
        if report.cut_bytes or report.damage:
            self._line(
                f"recovered: {report.cut_bytes:,} torn bytes cut, {len(report.damage)} damaged "
                "places passed over"
            )
        waiting_count = broker.store.pending_count() + broker.store.gate_row_count
        if waiting_count:
            self._line(f"waiting from before: {waiting_count:,}")
        self._line(f"accepting on {broker.address}")
        ports = broker.remoting_options
        for name, listener in (("name server", ports.name_server), ("broker", ports.broker)):
            if listener is not None:
                self._line(f"RocketMQ {name} on {listener.host}:{listener.port}")
        file_count = broker.connections.file_count_max
        if file_count < self._config.messaging.connection_count_max:
            self._line(
                f"connections may use {file_count:,} files together: `ulimit -Hn` allows no more"
            )
        if broker.grpc.port is not None and self._config.listen.grpc is not None:
            host = self._config.listen.grpc.rpartition(":")[0]
            self._line(f"RocketMQ 5.x clients on {host}:{broker.grpc.port}")
        if not self._config.delivery.enabled:
            self._line("no pipeline here: `dueline deliver` has to run elsewhere")
        self._tell_ports(broker)

    def _tell_ports(self, broker: BrokerProcess) -> None:
        """For programs, which start brokers on free ports too."""
        if not self._as_json:
            return
        ports = broker.remoting_options
        listeners = {"name_server": ports.name_server, "remoting": ports.broker}
        addresses = {name: each and f"{each.host}:{each.port}" for name, each in listeners.items()}
        found = {"flight": broker.address, **addresses, "grpc_port": broker.grpc.port}
        self._object("listening", **found)

    def driver(self, report: PipelineReport) -> None:
        if report.status == "starting":
            self._spark_started_s = monotonic()
            log_path = self._config.folder / "spark.log"
            again = f" again (start {report.start_count})" if report.start_count > 1 else ""
            self._line(f"Spark starting{again}, process {report.pid}; it writes to {log_path}")
        elif report.status == "ready":
            self._line(f"Spark ready after {monotonic() - self._spark_started_s:.1f} s")
        elif report.status == "waiting":
            self._line(f"Spark ended: {report.reason}; messages wait, it is started again")

    def tick(self, figures: Figures, driver: PipelineReport) -> None:
        text = _status(figures, driver)
        if self._is_terminal:
            width = shutil.get_terminal_size().columns - 1  # a second line would stay
            self._say(show_status, text if len(text) <= width else f"{text[: width - 1]}…")
            return
        told = (
            *(figures.sent_count, figures.delivered_count, figures.pending_count),
            *(driver.status, figures.overdue.count, driver.error),
        )
        if told != self._told:
            self._told = told
            if self._as_json:
                self._object("figures", **_plain(figures, driver))
            else:
                self._line(text)

    def failed(self, error: BaseException) -> None:
        self._line(f"the broker cannot go on: {error}")

    def stopping(self) -> None:
        self._line("stopping: nothing new is accepted, what was accepted is kept")

    def _line(self, text: str) -> None:
        if self._is_terminal:
            self._say(show_status, "")
        log.info("%s", plain(text))
        if self._as_json:
            self._object("line", text=text)
        else:
            self._say(say, f"{show_clock(self._clock.now_ms())}  {text}")

    def _object(self, event: str, **fields: object) -> None:
        found = {"time_ms": self._clock.now_ms(), "event": event, **fields}
        self._say(say, *to_json(found))

    def _say(self, show: Callable[[str], None], text: str) -> None:
        """Nobody may be listening any more (`dueline serve | head`): that is no reason to stop."""
        with self._lock, contextlib.suppress(OSError):
            show(text)


def _plain(figures: Figures, driver: PipelineReport) -> dict[str, object]:
    return {
        "pending": figures.pending_count,
        "at_gate": figures.at_gate_count,
        "overdue": figures.overdue.count,
        "next_due_ms": figures.next_due_ms,
        "sent": figures.sent_count,
        "delivered": figures.delivered_count,
        "dropped": figures.dropped_count,
        "pipeline": driver.status,
        "error": driver.error,
    }


def _next(figures: Figures, due_ms: int) -> str:
    overdue = figures.overdue
    if not overdue.count:
        return f"next in {show_span(max(due_ms - figures.now_ms, 0))}"
    oldest = f", the oldest for {show_span(figures.now_ms - due_ms)}"
    return f"{overdue.count:,} OVERDUE{oldest}"


def _status(figures: Figures, driver: PipelineReport) -> str:
    words = [f"{figures.pending_count + figures.at_gate_count:,} wait"]
    if figures.next_due_ms is not None:
        words.append(_next(figures, figures.next_due_ms))
    words.append(f"{figures.delivered_count:,} delivered")
    if figures.dropped_count:
        words.append(f"{figures.dropped_count:,} dropped")
    lateness = figures.lateness
    if lateness.count:
        words.append(
            f"late p50 {show_span(lateness.p50_ms or 0)}, p99 {show_span(lateness.p99_ms or 0)}, "
            f"max {show_span(lateness.max_ms or 0)}"
        )
    if driver.status not in ("ready", "off"):
        words.append(f"Spark {driver.status}")
    if driver.error:
        words.append(f"trouble: {driver.error}")
    return " · ".join(words)
