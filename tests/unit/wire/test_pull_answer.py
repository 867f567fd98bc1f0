import pytest

from dueline.wire import Command
from dueline.wire.headers import PullResponse
from dueline.wire.pull_answer import FOUND_REMARK, encode_found_head


@pytest.mark.parametrize("opaque", [0, 17, -(1 << 31), (1 << 31) - 1])
@pytest.mark.parametrize("offsets", [(1, 0, 1), (132, 100, 1 << 40)])
def test_same_bytes_as_the_usual_way(opaque: int, offsets: tuple[int, int, int]) -> None:
    next_offset, min_offset, max_offset = offsets
    response = PullResponse(
        suggest_which_broker_id=0,
        next_begin_offset=next_offset,
        min_offset=min_offset,
        max_offset=max_offset,
    )
    request = Command(code=11, opaque=opaque)
    reply = request.reply(code=0, ext=response.encode(), remark=FOUND_REMARK)

    assert encode_found_head(opaque, *offsets, 11_500) == reply.encode_head(11_500)
