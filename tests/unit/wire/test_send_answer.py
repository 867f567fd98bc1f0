import pytest

from dueline.wire import Command
from dueline.wire.headers import SendResponse
from dueline.wire.send_answer import REGION, encode_send_answer


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
