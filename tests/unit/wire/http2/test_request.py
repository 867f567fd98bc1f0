"""Which headers are a request; the table of breaches is in test_connection."""

from __future__ import annotations

import pytest
from tests.unit.wire.http2.peers import CALL

from dueline.wire.http2.faults import Fault
from dueline.wire.http2.request import check_request, check_trailers, content_length


def test_a_call_is_a_request() -> None:
    check_request(CALL, 1)
    check_request([*CALL, ("x-1!#$%&'*+-.^_`|~", "anything \x7f\xff\t"), ("authorization", "")], 1)


def test_trailers_are_headers_like_others() -> None:
    check_trailers([("grpc-status", "0")], 1)
    for bad in ((":status", "200"), ("A", "b"), ("", "b"), ("a", "\0"), ("connection", "x")):
        with pytest.raises(Fault) as caught:
            check_trailers([bad], 7)
        assert caught.value.stream_id == 7


def test_a_length_is_one_number() -> None:
    assert content_length([("a", "b")], 1) is None
    assert content_length([("content-length", "12")], 1) == 12
    assert content_length([("content-length", "12"), ("content-length", "12")], 1) == 12
    for bad in (["1", "2"], ["-1"], ["²"], [""]):
        with pytest.raises(Fault):
            content_length([("content-length", each) for each in bad], 1)
