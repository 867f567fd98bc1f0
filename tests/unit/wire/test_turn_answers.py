"""Answers of a turn are those that the codec writes one by one."""

from __future__ import annotations

import hypothesis.strategies as st
import numpy as np
import pytest
from hypothesis import given
from tests.unit.store.row_making import rows_of

from dueline import compiled
from dueline.message import DELAY_LOG_MARK, Message, message_id
from dueline.recall_handle import encode_handle
from dueline.wire import Command
from dueline.wire.headers import SendResponse
from dueline.wire.send_answer import REGION, encode_send_answer
from dueline.wire.turn_answers import ANSWER_KERNELS, ANSWER_WIDTH, encode_answers

pytest.importorskip("numba")

HOSTS = (b"\x7f\0\0\1\0\0\x2a\x9f", bytes(range(16)) + b"\0\0\x2a\x9f")
_IDS = st.text("0123456789ABCDEFxyz _-.~", min_size=1, max_size=50)


@st.composite
def requests(draw: st.DrawFn) -> tuple[int, list[tuple[Message, int, int, int]]]:
    """An opaque, and messages with their position, offset and due time."""
    topic, queue_id = draw(st.sampled_from(["t", "topic-%2"])), draw(st.integers(0, 1_023))
    messages = draw(
        st.lists(
            st.tuples(
                _IDS.map(
                    lambda text: Message(
                        topic=topic, body=b"", queue_id=queue_id, properties={"UNIQ_KEY": text}
                    )
                ),
                st.integers(0, (1 << 62) - 1),
                st.integers(0, 1 << 62),
                st.just(0) | st.integers(1, 1 << 60),
            ),
            min_size=1,
            max_size=3,
        )
    )
    return draw(st.integers(-(1 << 31), (1 << 31) - 1)), messages


def expected(
    opaque: int, found: list[tuple[Message, int, int, int]], host: bytes, broker: str
) -> bytes:
    ids = [
        message_id(host, position | (DELAY_LOG_MARK if due else 0)) for _, position, _, due in found
    ]
    first, _, offset, due = found[0]
    unique_id = first.properties["UNIQ_KEY"]
    recall = encode_handle(first.topic, broker, due, unique_id) if due else None
    if len(found) == 1:
        return encode_send_answer(opaque, ids[0], first.queue_id, offset, unique_id, recall)
    response = SendResponse(
        msg_id=",".join(ids),
        queue_id=first.queue_id,
        queue_offset=offset,
        recall_handle=recall,
        region=REGION,
        trace_on=True,
    )
    return Command(code=310, opaque=opaque).reply(code=0, ext=response.encode()).encode()


@given(
    st.lists(requests(), min_size=1, max_size=4),
    st.sampled_from(HOSTS),
    st.sampled_from(["dueline", "b", "großer-broker"]),
)
def test_answers_are_those_of_the_codec(
    found: list[tuple[int, list[tuple[Message, int, int, int]]]], host: bytes, broker: str
) -> None:
    assert compiled.load([ANSWER_KERNELS])
    rows = [each for _, messages in found for each in messages]
    messages = rows_of([message for message, *_ in rows])
    answers = np.zeros((len(found), ANSWER_WIDTH), dtype=np.int64)
    first = 0
    for answer, (opaque, own) in zip(answers, found, strict=True):
        answer[:3] = opaque, first, len(own)
        first += len(own)
    columns = np.array([each[1:] for each in rows], dtype=np.int64)

    data, ends = encode_answers(
        compiled.ready(ANSWER_KERNELS),
        messages,
        answers,
        positions=columns[:, 0].copy(),
        offsets=columns[:, 1].copy(),
        dues=columns[:, 2].copy(),
        store_host=host,
        broker_name=broker,
    )

    frames = [data[start:end] for start, end in zip([0, *ends], ends, strict=False)]
    assert frames == [expected(opaque, own, host, broker) for opaque, own in found]
