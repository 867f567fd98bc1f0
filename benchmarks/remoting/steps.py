"""Where the time goes: `python -m benchmarks.remoting.steps`.

The steps of a send and of a pull, each by itself in this process and without waiting for a disk, in
microseconds of processor time of one message: the least of several runs, so what is told is the
code and not the neighbours. What a broker's process takes beyond the sum is the operating system's
(sockets, fsync) and the threads' (a hand-over to the writer and back, once for each group).
"""

from __future__ import annotations

import tempfile
import time
import timeit
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Final

import numpy as np
import numpy.typing as npt

from benchmarks.remoting.frames import frames
from dueline import compiled
from dueline.broker.values import RowsResult
from dueline.message import Message, decode_properties
from dueline.message_rows import Head, MessageRows
from dueline.server.process import KERNELS
from dueline.server.remoting.send import row_actions
from dueline.store import PutResult, Store, StoreOptions
from dueline.wire import Command, FrameDecoder
from dueline.wire.headers import SendRequest
from dueline.wire.pull_pattern import PullPattern
from dueline.wire.send_answer import encode_send_answer
from dueline.wire.turn import TURN_KERNELS, TurnLimits, TurnReader
from dueline.wire.turn_answers import ANSWER_KERNELS, ANSWER_WIDTH, encode_answers

GROUPS: Final = (1, 8, 64, 256)
PULL_COUNT: Final = 32


def main() -> None:
    sends = frames("send")
    stream = b"".join(sends)
    cut = list(FrameDecoder().feed(stream))
    command = Command.decode(cut[0])
    text = command.ext["i"]
    _row("cut a frame", _us(lambda: list(FrameDecoder().feed(stream)), len(sends)))
    _row("JSON header to command", _us(lambda: Command.decode(cut[0])))
    _row("typed header, if it is a new one", _us(lambda: SendRequest.decode(command.ext)))
    _row("properties", _us(lambda: decode_properties(text)))
    with tempfile.TemporaryDirectory(prefix="dueline-bench-") as folder:
        store = Store.open(Path(folder) / "store", StoreOptions(flush="async"))
        for kind, more in (("ordinary", {}), ("delayed", {"DELAY": "3"})):
            properties = {**decode_properties(text), **more}
            for count in GROUPS:
                messages = [_message(properties, number) for number in range(count)]
                took_us = _us(partial(store.put_all, messages), count)
                _row(f"store, {kind}, {count} in a group", took_us)
        answer = store.put(_message(decode_properties(text), 0))
        _row("answer", _us(lambda: _answer(answer)))

        def pull() -> bytes:
            return b"".join(store.read("bench", 0, 0, count_max=PULL_COUNT).records)

        _row(f"read, {PULL_COUNT} at once", _us(pull, PULL_COUNT))
        if compiled.load(KERNELS):
            _row("the same, compiled", _us(pull, PULL_COUNT))
            _print_pull(store)
            _print_compiled(store)
        store.close()


def _print_pull(store: Store) -> None:
    """The steps of a pull that is like one before."""
    frame = frames("pull")[0]
    (cut,) = FrameDecoder().feed(frame)
    pattern = PullPattern.of(frame, Command.decode(cut))
    assert pattern is not None
    reader = store.usual_reader()
    _row("a pull's numbers, by its pattern", _us(lambda: pattern.match(frame, 0, len(frame))))
    read = partial(reader.read, "bench", 0, 0, PULL_COUNT, 1 << 20, 1 << 30)
    _row(f"usual read, {PULL_COUNT} at once", _us(read, PULL_COUNT))


def _print_compiled(store: Store) -> None:
    """The same for a turn of sends, by kernels."""
    turns = compiled.ready(TURN_KERNELS)
    answers = compiled.ready(ANSWER_KERNELS)
    limits = TurnLimits(
        frame_size_bytes_max=1 << 24,
        body_size_max=1 << 20,
        batch_count_max=10_000,
        level_max=18,
        delay_max_ms=1 << 40,
    )
    reader = TurnReader(limits, row_actions())
    head = Head("bench", 0, 0, 0, 0, False)
    for kind in ("send", "delayed", "batch"):
        for count in GROUPS if kind != "batch" else (1, 8):
            piece = b"".join(frames(kind)[:count])
            turn = reader.read(turns, [piece], 0)
            rows = len(turn.rows)
            read = partial(reader.read, turns, [piece], 0)
            _row(f"{kind}: read a turn of {rows}", _us(read, rows))
            messages = MessageRows(
                data=turn.data,
                texts=turn.texts,
                rows=turn.rows,
                heads=[head._replace(queue_id=number) for number in range(len(turn.heads))],
                hosts=[b"\x7f\0\0\1\0\0\0\0"],
            )
            (result,) = store.put_rows([messages])
            _row("  store", _us(partial(store.put_rows, [messages]), rows))
            columns = np.zeros((count, ANSWER_WIDTH), dtype=np.int64)
            columns[:, 1] = np.arange(count) * (rows // count)
            columns[:, 2] = rows // count
            write = partial(_answers, answers, messages, columns, result)
            _row("  answers", _us(write, rows))


def _answers(
    kernels: object, messages: MessageRows, columns: npt.NDArray[np.int64], result: RowsResult
) -> object:
    return encode_answers(
        kernels,
        messages,
        columns,
        positions=result.positions,
        offsets=result.offsets,
        dues=result.dues,
        store_host=result.store_host,
        broker_name="bench",
    )


def _message(properties: dict[str, str], number: int) -> Message:
    return Message(topic="bench", body=b"x" * 200, queue_id=number % 4, properties=properties)


def _answer(result: PutResult) -> bytes:
    return encode_send_answer(
        *(1, result.message_id, result.queue_id, result.queue_offset, result.unique_id, None)
    )


def _us(step: Callable[[], object], count: int = 1) -> float:
    number = max(1, 500 // count)
    times_s = timeit.repeat(step, timer=time.thread_time, number=number, repeat=25)
    return min(times_s) / number / count * 1e6


def _row(name: str, took_us: float) -> None:
    print(f"{name:36} {took_us:8.1f} µs")


if __name__ == "__main__":
    main()
