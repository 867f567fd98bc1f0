"""The body of a batch send."""

import pytest
from tests.unit.wire.capture import ALL_FRAMES
from tests.unit.wire.codecs import assert_codec, decode_command

from dueline.errors import InvalidRequest
from dueline.wire.batch import BatchMessage, decode_batch, encode_batch

CAPTURED = [c.body for c in ALL_FRAMES if decode_command(c.frame).code == 320]


def test_captured_batches_are_read_and_written_byte_for_byte() -> None:
    assert len(CAPTURED) == 2
    for data in CAPTURED:
        first, second = messages = decode_batch(data)
        assert (first.body, second.body) == (b"batch0", b"batch1")
        assert first.properties.startswith(b"KEYS\x01kb0\x02UNIQ_KEY\x01")
        assert encode_batch(messages) == data


def test_batch_is_these_bytes() -> None:
    data = bytes.fromhex("0000001b 00000000 00000000 00000007 00000003") + b"one\x00\x02pp"

    assert_codec(
        data,
        [BatchMessage(body=b"one", properties=b"pp", flag=7)],
        decode=decode_batch,
        encode=encode_batch,
    )


def test_empty_batch_has_no_messages() -> None:
    assert decode_batch(b"") == []


@pytest.mark.parametrize(
    "text",
    [
        "00",
        "00000016 00000000 00000000 00000000 00000000 00",
        "00000015 00000000 00000000 00000000 00000000 0000",
        "00000017 00000000 00000000 00000000 00000000 0000",
        "ffffffff 00000000 00000000 00000000 00000000 0000",
        "00000016 00000000 00000000 00000000 00000001 0000",
        "00000016 00000000 00000000 00000000 ffffffff 0000",
        "00000016 00000000 00000000 00000000 00000000 0001",
        "00000017 00000000 00000000 00000000 00000000 0000 61",
    ],
)
def test_sizes_that_do_not_add_up_are_refused(text: str) -> None:
    with pytest.raises(InvalidRequest, match="message at byte 0"):
        decode_batch(bytes.fromhex(text))


def test_too_many_properties_are_not_written() -> None:
    with pytest.raises(InvalidRequest, match="at most 32767"):
        encode_batch([BatchMessage(body=b"", properties=bytes(32768))])
