"""The 4.x protocol: `make bench-remoting`, or `python -m benchmarks.remoting [--quick]`.

Sends with 1, 8 and 64 connections and one message in flight on each, with many in flight on one,
delayed ones, batches, and pulls: the same requests to Dueline and to Apache's own brokers, with the
disk asked before each answer (sync) and without (async). Each row is measured in turns, one broker
after the other, several times; the table has the medians. Dueline alone is measured with `--alone`,
or where Java and Maven are not installed. Two brokers that are alike may differ by up to a fifth in
what a message takes, for as long as they run: `--each 3` measures three of each kind as one.
"""

from __future__ import annotations

import argparse
import os
import statistics
import sys
import tempfile
import time
from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path

from benchmarks.remoting.brokers import Running, start_apache, start_dueline
from benchmarks.remoting.frames import ROWS, Row, frames
from benchmarks.remoting.load import drive

SYNCS = 200


@dataclass(frozen=True, slots=True, kw_only=True)
class Figure:
    """One broker in one row, once."""

    rate: float
    broker_us: float
    generator_us: float
    refused_count: int


_Cell = tuple[str, str, Row]
"""A broker's name, how it flushes, and what was measured."""


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--quick", action="store_true", help="one short round")
    parser.add_argument("--alone", action="store_true", help="without Apache's brokers")
    parser.add_argument(
        "--interpreted", action="store_true", help="also Dueline without compiled functions"
    )
    parser.add_argument(
        "--guarded", action="store_true", help="also Dueline with access control, signed requests"
    )
    parser.add_argument(
        "--before", type=Path, help="also the broker of another work tree of this repository"
    )
    parser.add_argument(
        "--each", type=int, default=1, help="brokers of each kind of Dueline (default: 1)"
    )
    parser.add_argument("--flush", choices=("sync", "async"), help="only this kind (default: both)")
    parser.add_argument("--rows", default="", help="only rows whose name has this in it")
    parser.add_argument("--seconds", type=float, default=1.0, help="for each measurement")
    parser.add_argument("--rounds", type=int, default=3, help="how often (default: 3)")
    parser.add_argument("--warm-up", type=float, default=2.0, help="seconds for each row, before")
    parser.add_argument("--folder", help="where to put the stores (default: the temporary folder)")
    args = parser.parse_args()
    if args.quick:
        args.seconds, args.rounds, args.warm_up = 0.5, 1, 0.5
    rows = [row for row in ROWS if args.rows in row.name]
    kinds = [args.flush] if args.flush else ["sync", "async"]
    with ExitStack() as stack:
        folder = Path(
            stack.enter_context(
                tempfile.TemporaryDirectory(
                    prefix="dueline-bench-", dir=args.folder, ignore_cleanup_errors=True
                )
            )
        )
        print(f"{os.cpu_count()} cores; {_machine(folder)}")
        brokers = _start(
            stack,
            folder,
            kinds,
            is_alone=args.alone,
            has_interpreted=args.interpreted,
            has_guarded=args.guarded,
            before=args.before,
            each=args.each,
        )
        _warm_up(brokers, args.warm_up)
        measured = _measure(brokers, rows, rounds=args.rounds, seconds=args.seconds)
        print(f"after it: {_machine(folder)}")
        for kind in kinds:
            names = dict.fromkeys(each.name for each in brokers if each.flush == kind)
            _print_table(kind, list(names), rows, measured)


def _start(  # noqa: PLR0913 - each kind of broker has its switch
    stack: ExitStack,
    folder: Path,
    kinds: Sequence[str],
    *,
    is_alone: bool,
    has_interpreted: bool,
    has_guarded: bool,
    before: Path | None,
    each: int,
) -> list[Running]:
    brokers = []
    for kind in kinds:
        for number in range(each):
            place = f"{kind}-{number}"
            brokers.append(start_dueline(stack, folder / f"dueline-{place}", kind))
            if has_interpreted:
                where = folder / f"interpreted-{place}"
                brokers.append(start_dueline(stack, where, kind, is_compiled=False))
            if has_guarded:
                where = folder / f"guarded-{place}"
                brokers.append(start_dueline(stack, where, kind, is_guarded=True))
            if before is not None:
                where = folder / f"before-{place}"
                brokers.append(start_dueline(stack, where, kind, before=before.resolve()))
        for release in () if is_alone else ("apache49", "apache5"):
            try:
                where = folder / f"{release}-{kind}"
                brokers.append(start_apache(stack, release, where, kind))
            except RuntimeError as missing:
                print(f"{release}: not measured: {missing}")
        for broker in brokers:
            broker.suspend()
    return brokers


def _warm_up(brokers: Sequence[Running], seconds: float) -> None:
    """Topics are made, compilers compile, files get their first blocks."""
    for broker in brokers:
        _say(f"warming up {broker.name} {broker.flush}")
        broker.resume()
        for row in ROWS:
            _drive(broker, row, seconds)
        broker.suspend()
    _say("")


def _measure(
    brokers: Sequence[Running], rows: Sequence[Row], *, rounds: int, seconds: float
) -> dict[_Cell, list[Figure]]:
    measured: dict[_Cell, list[Figure]] = {}
    for row in rows:
        for number in range(rounds):
            # Every other round the other way round: a drift of the machine hits all alike.
            for broker in brokers if number % 2 == 0 else reversed(brokers):
                _say(f"{row.name}: {broker.name} {broker.flush}")
                broker.resume()
                cell = (broker.name, broker.flush, row)
                measured.setdefault(cell, []).append(_drive(broker, row, seconds))
                broker.suspend()
    _say("")
    return measured


def _drive(broker: Running, row: Row, seconds: float) -> Figure:
    before_s = broker.cpu_s()
    driven = drive(
        broker.address,
        frames(row.kind, is_signed=broker.is_guarded),
        connections=row.connections,
        in_flight=row.in_flight,
        seconds=seconds,
    )
    spent_s = broker.cpu_s() - before_s
    count = driven.answer_count * row.messages_each or 1
    return Figure(
        rate=count / driven.seconds,
        broker_us=spent_s / count * 1e6,
        generator_us=driven.cpu_s / count * 1e6,
        refused_count=driven.refused_count,
    )


def _print_table(
    kind: str,
    names: Sequence[str],
    rows: Sequence[Row],
    measured: dict[_Cell, list[Figure]],
) -> None:
    """Messages a second of each, Dueline's as a multiple of the others', and processor time."""
    own, *others = names
    print(f"\n{kind} flush: messages a second, and µs of the broker's processor time for each")
    heads = [f"{own:>18}", *(f"{other:>18}  Dueline/it" for other in others)]
    print(f"{'':32}{'  '.join(heads)}   generator µs")
    for row in rows:
        figures = measured[own, kind, row]
        rate = _median(figures, "rate")
        cells = [f"{rate:10,.0f}{_us(_median(figures, 'broker_us'))}"]
        for other in others:
            theirs = measured[other, kind, row]
            their_rate = _median(theirs, "rate")
            cells.append(
                f"{their_rate:10,.0f}{_us(_median(theirs, 'broker_us'))}  {rate / their_rate:10.2f}"
            )
        refused = sum(each.refused_count for name in names for each in measured[name, kind, row])
        note = f"   {refused} refused" if refused else ""
        generator_us = _median(figures, "generator_us")
        print(f"{row.name:32}{'  '.join(cells)}   {generator_us:12.1f}{note}")


def _us(value: float) -> str:
    """Of a few microseconds two digits behind the point: a tenth of one would be a step of 3 %."""
    return f"{value:8.1f}" if value >= 10 else f"{value:8.2f}"


def _median(figures: Sequence[Figure], name: str) -> float:
    values: list[float] = [getattr(figure, name) for figure in figures]
    return statistics.median(values)


def _machine(folder: Path) -> str:
    """How busy it is with other things: rates are worth little if it is."""
    load = os.getloadavg()[0]
    return f"load {load:.1f}; fdatasync of 400 bytes: {_sync_us(folder):.0f} µs (median)"


def _sync_us(folder: Path) -> float:
    """What the disk takes to keep one record, by itself."""
    path = folder / "raw"
    descriptor = os.open(path, os.O_RDWR | os.O_CREAT, 0o644)
    try:
        os.posix_fallocate(descriptor, 0, 400 * SYNCS)
        times = []
        for number in range(SYNCS):
            started = time.perf_counter()
            os.pwrite(descriptor, b"x" * 400, number * 400)
            os.fdatasync(descriptor)
            times.append(time.perf_counter() - started)
    finally:
        os.close(descriptor)
        path.unlink()
    return statistics.median(times) * 1e6


def _say(text: str) -> None:
    if sys.stderr.isatty():
        print(f"\r\x1b[K{text}", end="", file=sys.stderr, flush=True)


if __name__ == "__main__":
    main()
