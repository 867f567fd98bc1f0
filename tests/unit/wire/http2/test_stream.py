"""The end of a body; what else may be wrong with a stream is in test_connection's table."""

from __future__ import annotations

import pytest

from dueline.wire.http2.faults import ErrorCode, Fault
from dueline.wire.http2.outgoing import OutStream
from dueline.wire.http2.stream import Stream, check_length, data_fault


@pytest.mark.parametrize("length_left", [None, 0])
def test_a_body_is_as_long_as_was_said(length_left: int | None) -> None:
    check_length(Stream(OutStream(3, 0), length_left=length_left))


@pytest.mark.parametrize("length_left", [1, -1])
def test_a_body_of_another_length_is_refused(length_left: int) -> None:
    with pytest.raises(Fault) as caught:
        check_length(Stream(OutStream(3, 0), length_left=length_left))
    assert caught.value.stream_id == 3


def test_data_behind_the_end_is_another_fault_than_too_much() -> None:
    assert data_fault(Stream(OutStream(3, 0), is_ended=True)).code is ErrorCode.STREAM_CLOSED
    assert data_fault(Stream(OutStream(3, 0), window=-1)).code is ErrorCode.FLOW_CONTROL_ERROR
