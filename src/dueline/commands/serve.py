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
from typing import Final

from dueline import __version__
from dueline.clock import Clock
from dueline.commands.examples import show_examples
from dueline.commands.settings import FLAGS, add_settings_arguments, load_settings
from dueline.commands.terminal import add_json_argument, plain, say, show_status, to_json
from dueline.commands.times import show_clock
from dueline.config import Config, Loaded, settings
from dueline.server.child import Child, ChildReport
from dueline.server.children import BROKER_LOG, PIPELINE
from dueline.server.driver import check_driver
from dueline.server.exposure import check_exposure, reach_of_spark
from dueline.server.folder import make_folder
from dueline.server.rotating import LogHandler, RotatingFile
from dueline.server.serving import serve
from dueline.server.telling import Accepting, ServingFigures
from dueline.settings import Setting
from dueline.times import show_span

__all__ = ["configure", "run"]

_TERMINAL_TICK_S: Final = 1.0
_FILE_TICK_S: Final = 60.0

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
        "--insecure",
        action="store_true",
        help="listen beyond loopback although access control is off",
    )
    parser.add_argument(
        "--tethered", action="store_true", help="stop when standard input is closed"
    )
    add_json_argument(parser)
    show_examples(
        parser,
        """
        dueline serve
        dueline serve --data /var/lib/dueline --flight 0.0.0.0:8815 --set access.enabled=true
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
    if args.insecure:
        overrides["listen.insecure"] = "true"
    loaded = load_settings(args, overrides)
    config = loaded.config
    check_exposure(config)
    if config.delivery.enabled:
        check_driver(config.delivery)
    log_file = _prepare_folder(config)
    log.info("dueline %s starts as process %d", __version__, os.getpid())
    for line in _changed_settings(loaded):
        log.info("setting %s", line)
    code = serve(
        config,
        Terminal(config, as_json=args.json),
        log_file=log_file,
        tether=sys.stdin if args.tethered else None,
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


def _prepare_folder(config: Config) -> RotatingFile:
    """Make the data folder and write the log into it; the broker's lines go there too."""
    make_folder(config.folder)
    file = RotatingFile(config.folder / BROKER_LOG)
    handler = LogHandler(file)
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
    return file


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
        self._started_s: dict[str, float] = {}
        self._told: object = None
        self.tick_s = _TERMINAL_TICK_S if self._is_terminal else _FILE_TICK_S

    def accepting(self, broker: Accepting) -> None:
        self._line(f"dueline {__version__}, data in {self._config.folder}, process {os.getpid()}")
        if broker.cut_bytes or broker.damage_count:
            self._line(
                f"recovered: {broker.cut_bytes:,} torn bytes cut, {broker.damage_count} damaged "
                "places passed over"
            )
        if broker.waiting_count:
            self._line(f"waiting from before: {broker.waiting_count:,}")
        self._line(f"accepting on {broker.address}")
        for name, address in (("name server", broker.name_server), ("broker", broker.remoting)):
            if address is not None:
                self._line(f"RocketMQ {name} on {address}")
        if broker.vip is not None:
            self._line(f"RocketMQ broker for VIP channels on {broker.vip}")
        if broker.file_count_max < self._config.messaging.connection_count_max:
            self._line(
                f"connections may use {broker.file_count_max:,} files together: `ulimit -Hn` "
                "allows no more"
            )
        if broker.grpc is not None:
            self._line(f"RocketMQ 5.x clients on {broker.grpc}")
        if self._config.delivery.enabled:
            self._line(reach_of_spark(self._config))
        else:
            self._line("no pipeline here: `dueline deliver` has to run elsewhere")
        self._tell_ports(broker)

    def _tell_ports(self, broker: Accepting) -> None:
        """For programs, which start brokers on free ports too."""
        if not self._as_json:
            return
        self._object(
            "listening",
            flight=broker.address,
            name_server=broker.name_server,
            remoting=broker.remoting,
            grpc_port=None if broker.grpc is None else int(broker.grpc.rpartition(":")[2]),
        )

    def ready(self, child: Child, text: str) -> None:
        self._line(text)

    def changed(self, child: Child, report: ChildReport) -> None:
        started_s = self._started_s.get(child.name, 0.0)
        if report.status == "starting":
            self._started_s[child.name] = monotonic()
        if child.name == PIPELINE:
            self._tell_pipeline(child, report, monotonic() - started_s)
        elif report.status == "waiting":
            self._line(f"{child.title} ended: {report.reason}; it is started again")
        elif report.status == "ready" and report.start_count > 1:
            took_s = monotonic() - started_s
            self._line(f"{child.title} is back after {took_s:.1f} s, process {report.pid}")

    def _tell_pipeline(self, child: Child, report: ChildReport, took_s: float) -> None:
        if report.status == "starting":
            again = f" again (start {report.start_count})" if report.start_count > 1 else ""
            self._line(
                f"Spark starting{again}, process {report.pid}; it writes to {child.log_path}"
            )
        elif report.status == "ready":
            self._line(f"Spark ready after {took_s:.1f} s")
        elif report.status == "waiting":
            self._line(f"Spark ended: {report.reason}; messages wait, it is started again")

    def tick(self, figures: ServingFigures) -> None:
        text = _status(figures)
        if self._is_terminal:
            width = shutil.get_terminal_size().columns - 1  # a second line would stay
            self._say(show_status, text if len(text) <= width else f"{text[: width - 1]}…")
            return
        told = (
            *(figures.sent, figures.delivered, figures.pending),
            *(figures.pipeline, figures.overdue, figures.error),
        )
        if told != self._told:
            self._told = told
            if self._as_json:
                self._object("figures", **_plain(figures))
            else:
                self._line(text)

    def failed(self, message: str) -> None:
        self._line(f"the broker cannot go on: {message}")

    def restarted(self, message: str) -> None:
        self._line(message)

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


def _plain(figures: ServingFigures) -> dict[str, object]:
    return {
        "pending": figures.pending,
        "at_gate": figures.at_gate,
        "overdue": figures.overdue,
        "next_due_ms": figures.next_due_ms,
        "sent": figures.sent,
        "delivered": figures.delivered,
        "dropped": figures.dropped,
        "pipeline": figures.pipeline,
        "error": figures.error,
    }


def _next(figures: ServingFigures, due_ms: int) -> str:
    if not figures.overdue:
        return f"next in {show_span(max(due_ms - figures.now_ms, 0))}"
    oldest = f", the oldest for {show_span(figures.now_ms - due_ms)}"
    return f"{figures.overdue:,} OVERDUE{oldest}"


def _status(figures: ServingFigures) -> str:
    words = [f"{figures.pending + figures.at_gate:,} wait"]
    if figures.next_due_ms is not None:
        words.append(_next(figures, figures.next_due_ms))
    words.append(f"{figures.delivered:,} delivered")
    if figures.dropped:
        words.append(f"{figures.dropped:,} dropped")
    if figures.late_count:
        words.append(
            f"late p50 {show_span(figures.late_p50_ms or 0)}, "
            f"p99 {show_span(figures.late_p99_ms or 0)}, "
            f"max {show_span(figures.late_max_ms or 0)}"
        )
    if figures.pipeline not in ("ready", "off"):
        words.append(f"Spark {figures.pipeline}")
    if figures.error:
        words.append(f"trouble: {figures.error}")
    return " · ".join(words)
