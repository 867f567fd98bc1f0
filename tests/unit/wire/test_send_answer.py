import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.unit.wire.codecs import decode_command

from dueline.wire import Command
from dueline.wire.codes import Serialization
from dueline.wire.headers import SendResponse
from dueline.wire.send_answer import REGION, encode_send_answer, read_send_answer

USUAL = encode_send_answer(17, "7F00000100002A9F00000000000000C8", 3, 5, "7F00000100", "djEgdA==")
TEXTS = st.text(st.characters(codec="utf-8"))


@pytest.mark.parametrize("opaque", [0, 17, -(1 << 31), (1 << 31) - 1])
@pytest.mark.parametrize("recall_handle", [None, "djEgdG9waWM="])
@pytest.mark.parametrize("unique_id", ["7F0000010001", 'a"b\\c\n\x01', "schlüssel", "\U0001f600"])
def test_same_bytes_as_the_usual_way(
    opaque: int, recall_handle: str | None, unique_id: str
) -> None:
    response = SendResponse(
        msg_id="7F00000100002A9F00000000000000C8",
        queue_id=3,
        queue_offset=1 << 40,
        transaction_id=unique_id,
        recall_handle=recall_handle,
        region=REGION,
        trace_on=True,
    )
    expected = Command(code=310, opaque=opaque).reply(code=0, ext=response.encode()).encode()

    found = encode_send_answer(opaque, response.msg_id, 3, 1 << 40, unique_id, recall_handle)

    assert found == expected


@given(
    opaque=st.integers(-(1 << 31), (1 << 31) - 1),
    queue_id=st.integers(-1, 1 << 31),
    queue_offset=st.integers(-1, 1 << 63),
    unique_id=TEXTS,
    handle=st.none() | st.sampled_from(["", "djEgdG9waWM=", "a_b-"]),
)
def test_an_answer_is_read_as_the_codec_reads_it(
    opaque: int, queue_id: int, queue_offset: int, unique_id: str, handle: str | None
) -> None:
    data = encode_send_answer(opaque, "7F00AA", queue_id, queue_offset, unique_id, handle)

    assert read_send_answer(data) in (None, decode_command(data))


def test_what_a_broker_writes_for_most_messages_is_recognised() -> None:
    for handle in (None, "djEgdA=="):
        data = encode_send_answer(17, "7F00AA", 3, 5, "7F00000100", handle)

        assert read_send_answer(data) == decode_command(data)


@given(place=st.integers(0, len(USUAL) - 1), byte=st.integers(0, 255))
def test_a_changed_byte_is_read_as_the_codec_reads_it_or_not_at_all(place: int, byte: int) -> None:
    data = USUAL[:place] + bytes([byte]) + USUAL[place + 1 :]

    found = read_send_answer(data)

    if found is not None:
        assert found == decode_command(data)


@pytest.mark.parametrize(
    "data",
    [
        b"",
        USUAL[:7],
        USUAL[:-1],
        USUAL + USUAL,
        USUAL + b"x",
        Command(code=310, opaque=4).reply(code=2, remark="busy").encode(),
        Command(code=310, opaque=4).reply(code=0, ext={"msgId": "7F"}).encode(),
        Command(code=310, opaque=4, serialization=Serialization.BINARY).reply(code=0).encode(),
        encode_send_answer(4, "7F", 0, 0, "x" * 5_000, None),
    ],
)
def test_other_answers_are_left_to_the_codec(data: bytes) -> None:
    assert read_send_answer(data) is None
