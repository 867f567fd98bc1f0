"""A turn that a kernel reads says what the codec says, whatever the bytes are."""

from __future__ import annotations

import random
from collections.abc import Mapping

import hypothesis.strategies as st
import pytest
from hypothesis import given
from tests.fuzz.corpus import saved
from tests.fuzz.seeds import frames as seed_frames
from tests.unit.wire.turn_oracle import NOW_MS, changed, check, reader, sends

from dueline import compiled
from dueline.wire import Command, FrameDecoder
from dueline.wire.batch import BatchMessage, encode_batch
from dueline.wire.headers import SendRequest
from dueline.wire.turn import TURN_KERNELS, Turn, TurnReader

pytest.importorskip("numba")


@pytest.fixture(scope="module")
def turns() -> TurnReader:
    assert compiled.load([TURN_KERNELS])
    return reader()


def read(turns: TurnReader, pieces: list[bytes]) -> Turn:
    return turns.read(compiled.ready(TURN_KERNELS), pieces, NOW_MS)


def framed(header: bytes) -> bytes:
    return (4 + len(header)).to_bytes(4, "big") + len(header).to_bytes(4, "big") + header


def send(properties: str, **change: object) -> bytes:
    header = SendRequest(
        producer_group="g",
        topic="t",
        default_topic="TBW102",
        default_topic_queue_nums=4,
        queue_id=0,
        sys_flag=0,
        born_timestamp=NOW_MS,
        flag=0,
        properties=properties,
    )
    ext = {**header.encode_short(), **{k: str(v) for k, v in change.items()}}
    return Command(code=310, opaque=1, ext=ext, body=b"body").encode()


@given(st.lists(st.lists(sends(), max_size=4).map(b"".join), min_size=1, max_size=3))
def test_what_is_read_is_what_the_codec_reads(turns: TurnReader, pieces: list[bytes]) -> None:
    check(read(turns, pieces), pieces)


@given(st.lists(sends(), min_size=1, max_size=3), st.integers(0, 1 << 32))
def test_changed_bytes_are_read_alike_or_left_alone(
    turns: TurnReader, frames: list[bytes], seed: int
) -> None:
    piece = changed(random.Random(seed), b"".join(frames))

    check(read(turns, [piece, piece[: seed % 97]]), [piece, piece[: seed % 97]])


def test_saved_fuzz_inputs_are_read_alike_or_left_alone(turns: TurnReader) -> None:
    inputs = [data[1:] for data in saved("frame")]
    inputs += [framed(header) for header in saved("json_header")]
    texts = [text.decode("utf-8", "replace") for text in saved("properties")]
    inputs += [send(f"UNIQ_KEY\x01A\x02{text}") for text in texts]
    inputs += list(seed_frames())
    generator = random.Random(20)

    for data in inputs:
        check(read(turns, [data]), [data])
        again = changed(generator, data)
        check(read(turns, [again]), [again])
    check(read(turns, inputs), inputs)


@pytest.mark.parametrize(
    "properties",
    [
        "UNIQ_KEY\x01AC12",
        "KEYS\x01a b\x02UNIQ_KEY\x017F\x02WAIT\x01true\x02TAGS\x01t\x02",
        'color\x01a "red" \\ one\n\x02UNIQ_KEY\x017F',
        "name\x01Ärger 汉 \U0001f600\x02UNIQ_KEY\x017F",
        "DELAY\x013\x02UNIQ_KEY\x017F",
        "TIMER_DELAY_SEC\x0130\x02UNIQ_KEY\x017F",
        f"TIMER_DELIVER_MS\x01{NOW_MS + 1_000}\x02UNIQ_KEY\x017F",
    ],
)
def test_sends_of_producers_are_understood(turns: TurnReader, properties: str) -> None:
    piece = send(properties)

    assert check(read(turns, [piece]), [piece]) == 1


@pytest.mark.parametrize(
    ("properties", "change"),
    [
        ("KEYS\x01a", {}),  # the broker makes an id
        ("UNIQ_KEY\x01A\x02UNIQ_KEY\x01B", {}),
        ("UNIQ_KEY\x01A\x02TRAN_MSG\x01true", {}),
        ("UNIQ_KEY\x01A\x02DELAY\x0103", {}),
        ("UNIQ_KEY\x01A\x02DELAY\x0119", {}),
        ("UNIQ_KEY\x01A\x02DELAY\x012\x02TIMER_DELAY_MS\x015", {}),
        ("UNIQ_KEY\x01A\x02TIMER_DELAY_MS\x01100000001", {}),
        ("UNIQ_KEY\x01A\x02TAGS\x01Ä", {}),
        ("UNIQ_KEY\x01Ä", {}),
        ('UNIQ_KEY\x01"', {}),
        ("UNIQ_KEY\x01A\x02REAL_TOPIC\x01x", {}),
        ("UNIQ_KEY\x01A\x02x\x01y\x01z", {}),
        ("UNIQ_KEY\x01A", {"g": "-1"}),
        ("UNIQ_KEY\x01A", {"g": ""}),
        ("UNIQ_KEY\x01A", {"m": "1"}),
        ("UNIQ_KEY\x01A", {"m": "fence"}),
        ("UNIQ_KEY\x01A", {"m": "tree"}),
        ("UNIQ_KEY\x01A", {"z": "x"}),
    ],
)
def test_what_needs_a_rule_is_left_to_the_codec(
    turns: TurnReader, properties: str, change: dict[str, str]
) -> None:
    piece = send(properties, **change)

    assert check(read(turns, [piece]), [piece]) == 0


def test_a_batch_is_cut_into_its_messages(turns: TurnReader) -> None:
    messages = [
        BatchMessage(b"one", b"UNIQ_KEY\x01A\x02DELAY\x013", flag=-7),
        BatchMessage(b"", b"TIMER_DELAY_MS\x01500\x02UNIQ_KEY\x01B"),
    ]
    ext = ext_of(send("", m="true"))
    batch = Command(code=320, opaque=9, ext=ext, body=encode_batch(messages)).encode()

    turn = read(turns, [batch])

    assert check(turn, [batch]) == 1
    assert len(turn.rows) == 2


def test_a_batch_with_too_many_messages_is_left_to_the_codec(turns: TurnReader) -> None:
    body = encode_batch([BatchMessage(b"x", b"UNIQ_KEY\x01A")] * 9)
    ext = ext_of(send("", m="true"))
    batch = Command(code=320, opaque=9, ext=ext, body=body).encode()

    assert check(read(turns, [batch]), [batch]) == 0


def test_heads_beyond_what_a_turn_tells_apart_are_left_to_the_codec(turns: TurnReader) -> None:
    pieces = [b"".join(send("UNIQ_KEY\x01A", a=f"g{number}") for number in range(1_100))]

    assert check(read(turns, pieces), pieces) == 1_024


def ext_of(frame: bytes) -> Mapping[str, str]:
    (cut,) = FrameDecoder().feed(frame)
    return Command.decode(cut).ext
