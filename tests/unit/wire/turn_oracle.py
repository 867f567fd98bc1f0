"""What a turn must say, by the interpreted codec; and sends of all kinds to try it with."""

from __future__ import annotations

import random
from collections.abc import Sequence

import hypothesis.strategies as st
from tests.golden.layout import java_hash

from dueline.admission import BROKER_PROPERTIES
from dueline.errors import InvalidRequest, RemoteProtocolError
from dueline.message import decode_properties, encode_properties
from dueline.message_rows import (
    ROW_BODY_END,
    ROW_BODY_START,
    ROW_BORN_MS,
    ROW_CHANNEL,
    ROW_FLAG,
    ROW_FRAME,
    ROW_HEAD,
    ROW_ID_END,
    ROW_ID_START,
    ROW_KEYS_END,
    ROW_KEYS_START,
    ROW_LEVEL,
    ROW_TAG,
    ROW_TEXT_END,
    ROW_TEXT_START,
    ROW_TIMER,
    ROW_TIMER_MS,
    TIMER_AFTER,
    TIMER_AT,
)
from dueline.server.remoting.send import row_actions
from dueline.wire import Command, Frame, FrameDecoder, Serialization
from dueline.wire.batch import BatchMessage, decode_batch, encode_batch
from dueline.wire.headers import SendRequest
from dueline.wire.turn import (
    FRAME_BODY_START,
    FRAME_CHANNEL,
    FRAME_END,
    FRAME_FIRST_ROW,
    FRAME_HEAD,
    FRAME_IS_FAST,
    FRAME_OPAQUE,
    FRAME_ROW_COUNT,
    FRAME_SIGNATURE_END,
    FRAME_SIGNATURE_START,
    FRAME_SIGNED_END,
    FRAME_SIGNED_START,
    FRAME_SIZE_BYTES,
    FRAME_START,
    FRAME_USER_END,
    Turn,
    TurnLimits,
    TurnReader,
)

NOW_MS = 1_800_000_000_000
LIMITS = TurnLimits(
    frame_size_bytes_max=1 << 20,
    body_size_max=1_000,
    batch_count_max=8,
    level_max=18,
    delay_max_ms=100_000_000,
)


def reader(limits: TurnLimits = LIMITS) -> TurnReader:
    return TurnReader(limits, row_actions())


def check(turn: Turn, pieces: Sequence[bytes]) -> int:
    """Compare a turn with what the codec says of the same bytes; returns how many are fast."""
    number = start = fast_count = 0
    keys: dict[object, int] = {}
    for channel, piece in enumerate(pieces):
        at = start
        for frame in _frames(piece):
            found = turn.frames[number].tolist()
            size = 8 + len(frame.header) + len(frame.body)
            assert found[FRAME_CHANNEL] == channel
            assert (found[FRAME_START], found[FRAME_END]) == (at, at + size)
            if found[FRAME_IS_FAST]:
                fast_count += 1
                head = _check_fast(turn, number, frame)
                assert keys.setdefault(head, found[FRAME_HEAD]) == found[FRAME_HEAD]
            at += size
            number += 1
        start += len(piece)
    assert number == len(turn.frames)
    assert len(set(keys.values())) == len(keys), "heads that differ have one number"
    return fast_count


def _frames(piece: bytes) -> list[Frame]:
    found = []
    try:
        decoder = FrameDecoder(frame_size_bytes_max=LIMITS.frame_size_bytes_max)
        for frame in decoder.feed(piece):
            found.append(frame)  # noqa: PERF402 - those before a violation count
    except RemoteProtocolError:
        pass
    return found


def _check_fast(turn: Turn, number: int, frame: Frame) -> object:
    """One frame that the kernel has read: the codec reads the same. Returns its head."""
    command = Command.decode(frame)
    others = {
        name: value
        for name, value in command.ext.items()
        if name not in ("g", "i", "AccessKey", "SecurityToken", "Signature")
    }
    head = command.code, command.version, tuple(sorted(others.items()))
    try:
        header = SendRequest.decode(command.ext)
    except InvalidRequest as error:
        if error.field in ("g", "i", "m"):  # what the kernel has read itself
            raise
        return head  # a head that means nothing: who looks it up leaves its sends to the codec
    found = turn.frames[number].tolist()
    assert command.code in (310, 320)
    assert command.flag == 0
    assert "b" in command.ext
    assert found[FRAME_OPAQUE] == command.opaque
    assert found[FRAME_SIZE_BYTES] == (len(frame.header) + len(frame.body) + 200 * len(command.ext))
    is_batch = command.code == 320 or header.batch
    if is_batch:
        messages = decode_batch(frame.body)
        assert 0 < len(messages) <= LIMITS.batch_count_max
        own = decode_properties(header.properties or "")
        assert "DELAY" not in own
    else:
        text = encode_properties(decode_properties(header.properties or ""))
        messages = [BatchMessage(body=frame.body, properties=text, flag=0)]
    first = found[FRAME_FIRST_ROW]
    assert found[FRAME_ROW_COUNT] == len(messages)
    for row, message in enumerate(messages, first):
        columns = turn.rows[row].tolist()
        assert columns[ROW_FRAME] == number
        assert columns[ROW_CHANNEL] == found[FRAME_CHANNEL]
        assert columns[ROW_HEAD] == found[FRAME_HEAD]
        assert columns[ROW_BORN_MS] == header.born_timestamp
        assert columns[ROW_FLAG] == message.flag
        _check_row(turn, columns, message)
    _check_signed(turn, found, command)
    return head


def _check_signed(turn: Turn, found: list[int], command: Command) -> None:
    """What was signed, put together by the words of the protocol: sorted values, then the body."""
    ext = command.ext
    if "AccessKey" not in ext or "Signature" not in ext:
        assert found[FRAME_SIGNED_START] == -1
        return
    content = "".join(ext[name] for name in sorted(ext) if name != "Signature")
    start, end = found[FRAME_SIGNED_START], found[FRAME_SIGNED_END]
    assert turn.texts[start:end].tobytes() == content.encode()
    assert turn.texts[start : found[FRAME_USER_END]].tobytes().decode() == ext["AccessKey"]
    assert turn.data[found[FRAME_BODY_START] : found[FRAME_END]].tobytes() == command.body
    signature = turn.data[found[FRAME_SIGNATURE_START] : found[FRAME_SIGNATURE_END]]
    assert signature.tobytes().decode() == ext["Signature"]


def _check_row(turn: Turn, row: list[int], message: BatchMessage) -> None:
    def text(start: int, end: int) -> bytes:
        return turn.texts[row[start] : row[end]].tobytes()

    body = turn.data[row[ROW_BODY_START] : row[ROW_BODY_END]].tobytes()
    assert body == message.body
    assert len(body) <= LIMITS.body_size_max
    properties = decode_properties(message.properties)
    properties.pop("WAIT", None)
    assert BROKER_PROPERTIES.isdisjoint(properties)
    assert not {"TRAN_MSG", "TIMER_DEL_UNIQKEY"} & properties.keys()
    assert text(ROW_TEXT_START, ROW_TEXT_END) == encode_properties(properties)
    assert text(ROW_ID_START, ROW_ID_END).decode("ascii") == properties["UNIQ_KEY"]
    keys = text(ROW_KEYS_START, ROW_KEYS_END).decode("utf-8", "surrogateescape")
    assert keys == properties.get("KEYS", "")
    assert row[ROW_TAG] == java_hash(properties.get("TAGS", ""))
    _check_due(row, properties)


_TIMERS = ("TIMER_DELAY_SEC", "TIMER_DELAY_MS", "TIMER_DELIVER_MS")


def _check_due(row: list[int], properties: dict[str, str]) -> None:
    """When it is due, by what `dueline.schedule` says of the properties."""
    level = int(properties.get("DELAY", 0))
    timers = {name: value for name, value in properties.items() if name in _TIMERS}
    assert row[ROW_LEVEL] == level
    assert 0 <= level <= LIMITS.level_max
    if not timers:
        assert row[ROW_TIMER] == 0
        return
    ((name, value),) = timers.items()
    assert not level
    at = name == "TIMER_DELIVER_MS"
    assert row[ROW_TIMER] == (TIMER_AT if at else TIMER_AFTER)
    assert row[ROW_TIMER_MS] == int(value) * (1_000 if name == "TIMER_DELAY_SEC" else 1)
    assert row[ROW_TIMER_MS] - (NOW_MS if at else 0) <= LIMITS.delay_max_ms


# Sends to try

_NUMBERS = st.one_of(
    st.integers(0, 20), st.integers(-5, 1 << 62), st.just(NOW_MS + 5_000), st.just(99_999_999)
).map(str)
_WORDS = st.text(max_size=12) | st.sampled_from(
    ["a", "order-17 b", "ein Ärger", "汉", "\U0001f600"]
)
_NAMES = st.sampled_from(
    [
        *("KEYS", "TAGS", "UNIQ_KEY", "WAIT", "DELAY", "TIMER_DELAY_SEC", "TIMER_DELAY_MS"),
        *("TIMER_DELIVER_MS", "TRAN_MSG", "REAL_TOPIC", "POP_CK", "color", "x"),
    ]
)
_ENTRY = st.tuples(_NAMES | st.text(max_size=5), _WORDS | _NUMBERS).map("\x01".join)
_TEXTS = st.lists(_ENTRY | st.sampled_from(["", "x", "\x01v", "n\x01"]), max_size=5).flatmap(
    lambda entries: st.sampled_from(
        [
            "\x02".join(["UNIQ_KEY\x01AC12", *entries]),
            "\x02".join([*entries, "UNIQ_KEY\x017F00"]) + "\x02",
            "\x02".join(entries),
        ]
    )
)
_BATCH = st.lists(
    st.builds(
        BatchMessage,
        body=st.binary(max_size=30),
        properties=_TEXTS.map(lambda text: text.encode("utf-8", "surrogatepass")[:200]),
        flag=st.integers(-(1 << 31), (1 << 31) - 1),
    ),
    max_size=4,
).map(encode_batch)


@st.composite
def sends(draw: st.DrawFn) -> bytes:
    """A frame with a send: most are as producers write them, some are odd."""
    is_batch = draw(st.booleans()) and draw(st.booleans())
    header = SendRequest(
        producer_group=draw(st.sampled_from(["g", "g2", "gruppe-ä"])),
        topic=draw(st.sampled_from(["t", "topic-2"])),
        default_topic="TBW102",
        default_topic_queue_nums=4,
        queue_id=draw(st.integers(-1, 3)),
        sys_flag=draw(st.sampled_from([0, 0, 1, 4, 8])),
        born_timestamp=draw(st.integers(0, 1 << 45) | st.just(-1)),
        flag=draw(st.integers(-3, 3)),
        properties=draw(_TEXTS).encode("utf-8", "ignore").decode(),
        reconsume_times=draw(st.none() | st.integers(-1, 3)),
        batch=is_batch,
        broker_name=draw(st.none() | st.just("b")),
    )
    short = draw(st.integers(0, 9)) > 0
    ext = header.encode_short() if short else header.encode()
    if draw(st.integers(0, 2)) == 0:
        signing = {"AccessKey": "user", "SecurityToken": "t", "Signature": "c2lnbmVk"}
        for name in draw(st.permutations(sorted(signing)))[draw(st.sampled_from([0, 0, 1])) :]:
            ext[name] = signing[name]
    if draw(st.integers(0, 19)) == 0:
        ext[draw(st.sampled_from(["z", "AccessKey", "o"]))] = "v"
    return Command(
        code=draw(st.sampled_from([310, 310, 310, 320 if is_batch else 310, 10, 11])),
        opaque=draw(st.integers(-(1 << 31), (1 << 31) - 1)),
        flag=draw(st.sampled_from([0, 0, 0, 0, 2])),
        ext=ext,
        body=draw(_BATCH if is_batch else st.binary(max_size=40)),
        version=draw(st.integers(0, 500)),
        serialization=draw(st.sampled_from([Serialization.JSON] * 9 + [Serialization.BINARY])),
    ).encode()


def changed(generator: random.Random, data: bytes) -> bytes:
    """The same with some bytes changed, cut out or doubled."""
    found = bytearray(data)
    for _ in range(generator.randrange(1, 4)):
        start = generator.randrange(len(found) + 1)
        end = min(len(found), start + generator.randrange(20))
        match generator.randrange(4):
            case 0:
                found[start : start + 1] = generator.randbytes(1)
            case 1:
                del found[start:end]
            case 2:
                found[start:start] = found[start:end]
            case _:
                found[start:end] = generator.choice(_ODD)
    return bytes(found)


_ODD = [b'"', b"\\", b"\\u", b"\\u00e9", b"\\ud83d", b"{", b"}", b":", b",", b"\x00", b"\xff"]
_ODD += [b"\xc3\xa4", b"-", b"0", b"9" * 19, b"\\u0001", b"\\u0002", b"\x7f\xff\xff\xff", b"true"]
