"""Sends of a turn are told apart by who sends where, and from where."""

from __future__ import annotations

from typing import Any

import hypothesis.strategies as st
import pytest
from hypothesis import given
from tests.unit.wire.signature_making import Signed, turn_of

from dueline import compiled
from dueline.wire.turn import FRAME_IS_FAST, FRAME_SIGNED_START
from dueline.wire.turn_signatures import CASE_COUNT_MAX, SIGNATURE_KERNELS, Case, cases_of

pytest.importorskip("numba")

SOURCES = [7, 8, 7]
TOPICS = [3, 4, -1, 3]


@pytest.fixture(scope="module")
def kernels() -> Any:
    assert compiled.load([SIGNATURE_KERNELS])
    return compiled.ready(SIGNATURE_KERNELS)


_SENDS = st.builds(
    Signed,
    user=st.sampled_from([b"", b"a", b"ab", b"b"]),
    body=st.binary(max_size=3),
    channel=st.integers(0, 2),
    head=st.integers(0, 3),
)


@given(st.lists(_SENDS, max_size=40))
def test_each_send_has_the_case_of_its_user_source_and_topic(
    kernels: Any, sends: list[Signed]
) -> None:
    cases, case_of = cases_of(kernels, turn_of(sends), SOURCES, TOPICS, 2)

    assert len(set(cases)) == len(cases)
    for send, case in zip(sends, case_of.tolist(), strict=True):
        topic = TOPICS[send.head]
        if topic < 0 or len(send.body) > 2:
            assert case == -1
        else:
            assert cases[case] == Case(send.user.decode(), SOURCES[send.channel], topic)


def test_frames_without_a_signature_have_none(kernels: Any) -> None:
    turn = turn_of([Signed(user=b"a")] * 3)
    turn.frames[0, FRAME_IS_FAST] = 0
    turn.frames[1, FRAME_SIGNED_START] = -1

    cases, case_of = cases_of(kernels, turn, SOURCES, TOPICS, 2)

    assert cases == [Case("a", 7, 3)]
    assert case_of.tolist() == [-1, -1, 0]


def test_more_cases_than_there_is_room_for_are_left_out(kernels: Any) -> None:
    sends = [Signed(user=b"%d" % number) for number in range(CASE_COUNT_MAX + 5)]

    cases, case_of = cases_of(kernels, turn_of(sends * 2), SOURCES, TOPICS, 2)

    assert len(cases) == CASE_COUNT_MAX
    assert case_of.tolist() == [*range(CASE_COUNT_MAX), *[-1] * 5] * 2
