"""Kernels with every index checked: a process that `tests.fuzz.test_kernels` starts.

`NUMBA_DISABLE_JIT=1`: they run as plain Python on arrays that refuse what is outside of them, below
0 as well. `NUMBA_BOUNDSCHECK=1`: compiled with checks. Whatever is refused ends the process.
"""

from __future__ import annotations

import os
import random
import sys
import tempfile
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
from tests.fuzz.corpus import saved
from tests.fuzz.seeds import frames as seed_frames
from tests.fuzz.showing import Showing
from tests.unit.store.making import routed, take_window
from tests.unit.store.packing import DUE_MS, USUAL_TEXT, packed_of, resealed, usual_record
from tests.unit.store.row_making import rows_of
from tests.unit.wire.signature_making import KEYS, Signed, pads_of, turn_of
from tests.unit.wire.turn_oracle import NOW_MS, changed, check, reader

from dueline import compiled
from dueline.broker.inflight.plain_rows import PLAIN_KERNELS
from dueline.message import HOST_UNKNOWN, Message
from dueline.message_rows import (
    ROW_BODY_END,
    ROW_BODY_START,
    ROW_LEVEL,
    ROW_WIDTH,
    Head,
    MessageRows,
)
from dueline.server.grpc.message_table import MESSAGE_KERNELS
from dueline.server.process import KERNELS
from dueline.store import Store, restore
from dueline.store.block import BLOCK_KERNELS, Block
from dueline.store.bulk_rows import BULK_KERNELS
from dueline.store.copies import COPY_KERNELS, VALUE_WIDTH, copied
from dueline.store.kernels import read_only
from dueline.store.packed import PLACE_WIDTH
from dueline.store.stamp import STAMP_KERNELS
from dueline.store.stretch import READ_KERNELS
from dueline.store.unpacking import UNPACKING_KERNELS
from dueline.wire import Command
from dueline.wire.batch import BatchMessage, encode_batch
from dueline.wire.turn import FRAME_WIDTH, HEAD_IS_BATCH, TURN_KERNELS, Turn
from dueline.wire.turn_answers import ANSWER_KERNELS, ANSWER_WIDTH, encode_answers
from dueline.wire.turn_signatures import (
    IS_SIGNED,
    SIGNATURE_KERNELS,
    KeyTable,
    cases_of,
    checked,
)

PACKING_KERNELS = "dueline.store.packing_kernels"
IS_PLAIN = os.environ.get("NUMBA_DISABLE_JIT") == "1"


class Checked:
    """An array that has no byte before its first and none behind its last."""

    def __init__(self, array: Any) -> None:
        self.array = array

    def __len__(self) -> int:
        return len(self.array)

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> Any:
        """What is copied as a whole into an array of the kernel's own."""
        return self.array

    def __getitem__(self, place: Any) -> Any:
        self._check(place)
        found = self.array[place]
        return Checked(found) if isinstance(found, np.ndarray) else int(found)

    def __setitem__(self, place: Any, value: Any) -> None:
        self._check(place)
        if isinstance(place, slice):
            assert len(value) == place.stop - place.start
            self.array[place] = value.array
            return
        info = np.iinfo(self.array.dtype)
        assert info.min <= int(value) <= info.max, (place, value)
        self.array[place] = value

    def _check(self, place: Any) -> None:
        places = place if isinstance(place, tuple) else (place,)
        for each, size in zip(places, self.array.shape, strict=False):
            if isinstance(each, slice):
                assert 0 <= each.start <= each.stop <= size, (place, self.array.shape)
            else:
                assert 0 <= each < size, (place, self.array.shape)


class Kernels:
    """A module of kernels whose arrays are checked."""

    def __init__(self, name: str) -> None:
        self._module = compiled.ready(name)

    def __getattr__(self, name: str) -> Any:
        call = getattr(self._module, name)
        if not IS_PLAIN:
            return call
        return lambda *arguments: call(
            *(Checked(each) if isinstance(each, np.ndarray) else each for each in arguments)
        )


def stored(turn: Turn) -> None:
    """Plan, write and answer what was read, as if all of it may be sent."""
    if not len(turn.rows):
        return
    heads = [
        Head(f"topic-{number}", number % 5, number, 0, 0, bool(row[HEAD_IS_BATCH]))
        for number, row in enumerate(turn.heads)
    ]
    channels = int(turn.rows[:, 16].max()) + 1
    messages = MessageRows(
        data=turn.data,
        texts=turn.texts,
        rows=turn.rows,
        heads=heads,
        hosts=[HOST_UNKNOWN] * channels,
    )
    kernels = Kernels(BLOCK_KERNELS)
    block = Block.plan(kernels, messages, now_ms=NOW_MS, store_host=HOST_UNKNOWN)
    count = len(messages)
    numbers = np.arange(count, dtype=np.int64)
    out = np.empty(int(block.sizes.sum()), dtype=np.uint8)
    hashes = np.empty(block.hash_count, dtype=np.uint32)
    owners = np.empty(block.hash_count, dtype=np.int64)
    written = kernels.write_records(
        *(messages.data, messages.texts, messages.rows, block.heads, block.topics, block.hosts),
        *(block.host_sizes, np.frombuffer(HOST_UNKNOWN, dtype=np.uint8), numbers, block.kinds),
        *(
            block.dues,
            block.sizes,
            block.packings,
            numbers,
            numbers,
            NOW_MS,
            0,
            1,
            out,
            hashes,
            owners,
        ),
    )
    assert count <= written <= block.hash_count
    queues = numbers % 3
    ends = np.zeros(3, dtype=np.int64)
    kernels.queue_offsets(queues, ends, np.empty(count, dtype=np.int64))
    starts = np.cumsum(ends) - ends
    units = np.empty(20 * count, dtype=np.uint8)
    kernels.write_units(messages.rows, numbers, block.sizes, numbers, queues, starts, units)
    answers = np.zeros((count, ANSWER_WIDTH), dtype=np.int64)
    answers[:, 1] = numbers
    answers[:, 2] = 1
    encode_answers(
        Kernels(ANSWER_KERNELS),
        messages,
        answers,
        positions=numbers,
        offsets=numbers,
        dues=block.dues,
        store_host=HOST_UNKNOWN,
        broker_name="b",
    )


class Signing:
    """Signed sends, some of them altered, and places that are none, for those that check them."""

    def __init__(self, generator: random.Random) -> None:
        self._generator = generator
        self._kernels = Kernels(SIGNATURE_KERNELS)

    def check(self, turn: Turn) -> None:
        """What was read, as if everybody may, and then anything."""
        self._check(turn)
        sends = [
            Signed(body=self._generator.randbytes(self._generator.randrange(90))).with_key(KEYS[0])
            for _ in range(2)
        ]
        turn = turn_of(sends)
        assert self._check(turn) == [IS_SIGNED, IS_SIGNED]
        for _ in range(3):
            column = self._generator.randrange(FRAME_WIDTH)
            turn.frames[1, column] = self._generator.randrange(-200, 200)
        self._check(turn)

    def _check(self, turn: Turn) -> list[int]:
        cases, case_of = cases_of(self._kernels, turn, [0, 1, 0], [0] * 9, 99)
        keys = KeyTable.of([[pads_of(KEYS[0])] for _ in cases])
        found: list[int] = checked(self._kernels, turn, case_of, keys)[0].tolist()
        return found


class Carrying:
    """Delayed records with changed bytes, and places that are none, for the kernels that copy."""

    def __init__(self, generator: random.Random) -> None:
        self._generator = generator
        self._kernels = Kernels(COPY_KERNELS)
        texts: tuple[dict[str, str], ...] = (
            {"TAGS": "a", "KEYS": "k l"},
            {"KEYS": " "},
            {"TAGS": "\u00e9"},
            {},
        )
        with tempfile.TemporaryDirectory() as folder, Store.open(Path(folder) / "store") as store:
            for number, properties in enumerate(texts):
                later = {**properties, "TIMER_DELAY_MS": "60000"}
                store.put(Message(topic="t", body=b"b" * number, properties=later))
            self._window = take_window(store)

    def check(self) -> None:
        window, place = self._window, self._window.schema.get_field_index("record")
        records = window.column("record").to_pylist()
        number = self._generator.randrange(len(records))
        records[number] = changed(self._generator, records[number])
        cells = pa.array(records, pa.binary())
        window = window.set_column(place, window.schema.field(place), cells)
        copies, rest = copied(self._kernels, window, routed(window))
        assert rest[restore.damaged(window)].all()
        expected = restore.deliveries(window.filter(pa.array(~rest)))
        assert copies is None or copies.to_pylist() == expected.to_pylist()
        self._copy_anything(b"".join(records))

    def _copy_anything(self, data: bytes) -> None:
        """Sizes and places that nobody has measured."""

        def some(count: int, end: int) -> Any:
            values = [self._generator.randrange(-9, end + 9) for _ in range(count)]
            return np.sort(np.array(values, dtype=np.int64))

        records, offsets = np.frombuffer(data, dtype=np.uint8), some(4, len(data))
        values = np.empty((3, VALUE_WIDTH), dtype=np.int64)
        numbers = np.empty((2, 3), dtype=np.int64)
        self._kernels.measure(records, offsets, some(3, 9), *numbers, values)
        values[:] = self._generator.choice((values, some(3 * VALUE_WIDTH, 300).reshape(3, -1)))
        self._kernels.copy(
            *(records, offsets, records[:20], some(4, 20), some(3, 4), some(3, 4), some(3, 4)),
            *(some(3, 4), values, np.empty(400, dtype=np.uint8), some(4, 400), some(4, 9)),
            *(np.empty(3, dtype=np.int64), np.empty(9, dtype=np.uint32)),
        )


class Packing:
    """Packed records with changed bytes, and texts with any places, for the kernels that pack."""

    def __init__(self, generator: random.Random) -> None:
        self._generator = generator
        self._packing = Kernels(PACKING_KERNELS)
        self._unpacking = Kernels(UNPACKING_KERNELS)
        self._record = usual_record()
        packed_record = packed_of(self._record, USUAL_TEXT)
        assert packed_record is not None
        self._packed = packed_record
        self.unpacked_count = 0

    def check(self) -> None:
        rows = [self._changed() for _ in range(3)]
        positions = np.full(3, self._record.position, dtype=np.int64)
        written = np.frombuffer(bytearray(b"".join(rows)), dtype=np.uint8)
        data = read_only(written)
        offsets = np.cumsum([0, *map(len, rows)], dtype=np.int64)
        if self._generator.random() < 0.2:
            offsets[self._generator.randrange(4)] = self._generator.randrange(-9, len(data) + 9)
        sizes = np.empty(3, dtype=np.int64)
        starts, ends = offsets[:-1].copy(), offsets[1:].copy()
        total = self._unpacking.measure(data, starts, ends, positions, sizes)
        out = np.empty(total, dtype=np.uint8)
        assert self._unpacking.expand(data, starts, ends, positions, sizes, out) == total
        written[self._generator.randrange(len(rows[0]))] = self._generator.randrange(256)
        again = self._unpacking.expand(data, starts, ends, positions, sizes, out)
        assert again in (-1, total)
        self.unpacked_count += int((sizes < 0).sum())
        text = read_only(np.frombuffer(changed(self._generator, USUAL_TEXT), dtype=np.uint8))
        places = np.empty(PLACE_WIDTH, dtype=np.int64)
        self._packing.find_places(text, 0, len(text), DUE_MS, places)

    def _changed(self) -> bytes:
        """With a right CRC, so that it is looked at in earnest."""
        data = bytearray(self._packed)
        for _ in range(self._generator.randrange(3)):
            end = self._generator.choice((20, 64, len(data)))
            data[self._generator.randrange(12, end)] = self._generator.randrange(256)
        return resealed(bytes(data), self._record.position)


class Bulk:
    """Columns of texts at any place, and records at any place, for the kernels of tables."""

    def __init__(self, generator: random.Random) -> None:
        self._generator = generator
        self._kernels = Kernels(BULK_KERNELS)
        self._stamping = Kernels(STAMP_KERNELS)
        self.made_count = 0

    def check(self) -> None:
        prefix = np.frombuffer(b"AB", dtype=np.uint8)
        texts = [part for _ in range(3) for part in self._column()]
        heads = np.array([[3, 0, 0, 0, 0, 5, 0]], dtype=np.int64)
        rows = np.zeros((3, ROW_WIDTH), dtype=np.int64)
        rows[:, ROW_BODY_END] = 9
        if self._generator.random() < 0.3:
            rows[:, ROW_BODY_START], rows[:, ROW_BODY_END] = self._places(3, 9), self._places(3, 9)
        rows[:, ROW_LEVEL] = [self._generator.choice((0, 0, 3, 18)) for _ in range(3)]
        text_sizes, sizes = np.zeros((2, 3), dtype=np.int64)
        dues = np.full(3, NOW_MS, dtype=np.int64)
        packings = np.empty((3, PLACE_WIDTH), dtype=np.int64)
        total = self._kernels.measure(
            *(*texts, 2, dues, heads, 80, self._generator.choice((3, 9, 20))),
            *(self._generator.random() < 0.5, rows, text_sizes, sizes, packings),
        )
        if total >= 0:
            self.made_count += 1
            out = np.zeros(total, dtype=np.uint8)
            assert self._kernels.write_texts(*texts, prefix, 7, rows, out)
        self._stamp_anything()

    def _column(self) -> tuple[Any, Any]:
        """Texts in order, or anywhere."""
        least = self._generator.choice((0, 3, 3, 3))  # 1 and 2 are what separates properties
        values = [self._generator.randrange(least, 256) for _ in range(30)]
        data = np.array(values, dtype=np.uint8)
        if self._generator.random() < 0.2:
            return data, self._places(4, len(data))
        return data, np.clip(np.sort(self._places(4, len(data))), 0, len(data))

    def _stamp_anything(self) -> None:
        data = np.frombuffer(bytearray(self._generator.randbytes(200)), dtype=np.uint8)
        starts, times = self._places(3, 200), np.full(3, NOW_MS, dtype=np.int64)
        host = np.frombuffer(HOST_UNKNOWN, dtype=np.uint8)
        marks = np.full(3, 1 << 40, dtype=np.int64)
        self._stamping.restamp(data, starts, times, times, times, marks, host)

    def _places(self, count: int, end: int) -> Any:
        values = [self._generator.randrange(-3, end + 3) for _ in range(count)]
        return np.array(values, dtype=np.int64)


class Reading:
    """Records with changed bytes behind units with changed bytes, for the kernels that read."""

    def __init__(self, generator: random.Random) -> None:
        self._generator = generator
        self._kernels = Kernels(READ_KERNELS)
        with tempfile.TemporaryDirectory() as folder, Store.open(Path(folder) / "store") as store:
            for number in range(3):
                store.put(Message(topic="t", body=b"b" * number))
            result = store.read("t", 0, 0)
            queue = store._core.queues.get("t", 0)
            assert queue is not None
            self._units = queue.read(0, 3).tobytes()
            self._log = b"".join(result.chunks)
        self.read_count = 0

    def check(self) -> None:
        units, log = self._units, self._log
        base = int.from_bytes(units[:8], "big")
        if self._generator.random() < 0.5:
            units = changed(self._generator, units)
        if self._generator.random() < 0.5:
            log = changed(self._generator, log)
        size_max = self._generator.choice((1, 200, 1 << 20))
        out = np.empty(self._generator.choice((0, 200, 900)), dtype=np.uint8)
        at = self._generator.choice((-1, 0, 0, 0, 7, 900))
        arrays = [read_only(np.frombuffer(each, dtype=np.uint8)) for each in (log, units, b"")]
        copied = self._kernels.copy_usual(arrays[0], base, arrays[1], 0, size_max, out, at)
        if copied > 0:
            self.read_count += 1
            size = copied & 0xFFFFFFFF
            assert out[at : at + size].tobytes() == log[:size]
        if not IS_PLAIN:  # what it gives back is an array of its own
            self._kernels.gather(arrays[0], base, arrays[1], arrays[2], 0, size_max, False)


def sends() -> list[bytes]:
    """Sends as producers write them, batches among them."""
    texts = [
        "UNIQ_KEY\x01A1\x02KEYS\x01k1 k2\x02TAGS\x01t\x02WAIT\x01true\x02",
        'UNIQ_KEY\x01A2\x02DELAY\x013\x02x\x01"\\\n\u00e9\u6c49\U0001f600',
        f"TIMER_DELIVER_MS\x01{NOW_MS + 9}\x02UNIQ_KEY\x01A3",
    ]
    ext = {"a": "g", "b": "t", "c": "T", "d": "4", "e": "0", "f": "0", "g": "17", "h": "0"}
    found = [
        Command(code=310, opaque=-5, ext={**ext, "i": text}, body=b"body" * number).encode()
        for number, text in enumerate(texts)
    ]
    batch = encode_batch([BatchMessage(b"x" * 9, text.encode(), flag=-1) for text in texts])
    found.append(Command(code=320, opaque=7, ext={**ext, "m": "true"}, body=batch).encode())
    return found


def main() -> None:
    seed, count = int(sys.argv[1]), int(sys.argv[2])
    warnings.simplefilter("ignore", RuntimeWarning)  # numbers wrap around, as they should
    assert compiled.load([*KERNELS, PACKING_KERNELS])
    assert rows_of([Message(topic="t", body=b"", properties={"UNIQ_KEY": "A"})]).messages()
    generator = random.Random(seed)
    others = [*seed_frames(), *(data[1:] for data in saved("frame"))]
    turns = reader()
    carrying = Carrying(generator)
    signing = Signing(generator)
    bulk = Bulk(generator)
    packing = Packing(generator)
    reading = Reading(generator)
    showing = Showing(generator, Kernels(PLAIN_KERNELS), Kernels(MESSAGE_KERNELS))
    fast_count = 0
    for number in range(count):
        inputs = sends() if number % 4 else others
        pieces = [generator.choice(inputs) for _ in range(generator.randrange(1, 4))]
        if number % 3:
            pieces = [changed(generator, piece) for piece in pieces]
        turn = turns.read(Kernels(TURN_KERNELS), pieces, NOW_MS)
        fast_count += check(turn, pieces)
        stored(turn)
        bulk.check()
        packing.check()
        reading.check()
        showing.check()
        if number % 8 == 0:
            carrying.check()
        if number % 64 == 0 or not IS_PLAIN:
            signing.check(turn)
    assert bulk.made_count > count // 20
    assert packing.unpacked_count > count // 2
    assert reading.read_count > count // 20
    assert showing.shown_count > count // 20
    print(f"{count} turns, {fast_count} sends read, {bulk.made_count} tables made")  # noqa: T201


if __name__ == "__main__":
    main()
