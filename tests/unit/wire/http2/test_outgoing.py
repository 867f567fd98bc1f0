"""Data leaves as the windows allow, in order, and what waits is counted."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st
from tests.unit.wire.http2.peers import DATA, HEADERS, frames_of

from dueline.wire.http2.outgoing import Outgoing

STEPS = st.lists(
    st.one_of(
        st.tuples(st.just("data"), st.integers(0, 3), st.integers(0, 40_000)),
        st.tuples(st.just("stream"), st.integers(0, 3), st.integers(1, 40_000)),
        st.tuples(st.just("all"), st.just(0), st.integers(1, 80_000)),
        st.tuples(st.just("hold"), st.just(0), st.booleans()),
    ),
    max_size=40,
)


@given(STEPS)
def test_no_window_is_overdrawn_and_nothing_is_left_that_could_go(
    steps: list[tuple[str, int, int]],
) -> None:
    """The model: for each stream what was written, and what both windows have allowed so far."""
    out = Outgoing()
    streams = [out.new_stream(number * 2 + 1) for number in range(4)]
    written, sent = [b""] * 4, [b""] * 4
    allowed, allowed_all, is_held = [65_535] * 4, 65_535, False
    for kind, number, size in steps:
        if kind == "data":
            data = bytes([number + 1]) * size
            written[number] += data
            out.send_data(streams[number], data)
        elif kind == "stream":
            allowed[number] += size
            out.widen(streams[number], size)
        elif kind == "all":
            allowed_all += size
            out.widen_all(size)
        else:
            is_held = bool(size)
            out.hold(is_held)
        for frame_kind, _, stream_id, payload in frames_of(out.take()):
            assert frame_kind == DATA
            assert len(payload) <= 16_384
            sent[stream_id // 2] += payload
        for each in range(4):
            assert written[each].startswith(sent[each])
            assert len(sent[each]) <= allowed[each]
        assert sum(map(len, sent)) <= allowed_all
        waiting = [len(written[each]) - len(sent[each]) for each in range(4)]
        assert out.queued_bytes == sum(waiting)
        assert [stream.queued_bytes for stream in streams] == waiting
        could_go = any(waiting[each] and len(sent[each]) < allowed[each] for each in range(4))
        assert is_held or not could_go or sum(map(len, sent)) == allowed_all


def test_trailers_go_behind_all_data() -> None:
    out = Outgoing()
    stream = out.new_stream(1)
    out.send_data(stream, bytes(65_536))

    assert not out.end(stream, b"end")
    assert {kind for kind, *_ in frames_of(out.take())} == {DATA}
    assert not out.widen(stream, 10)
    assert out.widen_all(1) == [stream]
    assert [kind for kind, *_ in frames_of(out.take())] == [DATA, HEADERS]


def test_what_is_dropped_is_not_sent() -> None:
    out = Outgoing()
    stream = out.new_stream(1)
    out.send_data(stream, bytes(65_545))
    out.take()

    out.drop(stream)

    assert out.queued_bytes == 0
    assert out.widen_all(100) == []
    assert out.take() == b""
