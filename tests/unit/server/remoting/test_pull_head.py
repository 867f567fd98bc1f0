"""What the headers of pulls say alike."""

from __future__ import annotations

from typing import Any

import pytest

from dueline.broker.filters import EVERYTHING
from dueline.errors import InvalidRequest
from dueline.server.remoting.pull_head import COUNT_MAX, SIZE_BYTES_MAX, SUSPEND_MS_MAX, head_of
from dueline.wire.headers import PullRequest


def header(**changes: Any) -> PullRequest:
    fields: dict[str, Any] = {
        "consumer_group": "readers",
        "topic": "orders",
        "queue_id": 3,
        "queue_offset": 4711,
        "max_msg_nums": 32,
        "sys_flag": 0,
        "commit_offset": 0,
        "suspend_timeout_millis": 15_000,
        "sub_version": 17,
    }
    return PullRequest(**{**fields, **changes})


def test_flags_say_what_a_pull_does() -> None:
    nothing, all_of_it = head_of(header()), head_of(header(sys_flag=7, subscription="a"))

    assert (nothing.commits, nothing.suspend_ms, nothing.has_filter) == (False, 0, False)
    assert nothing.pull.wanted is EVERYTHING
    assert (all_of_it.commits, all_of_it.suspend_ms, all_of_it.has_filter) == (True, 15_000, True)
    assert all_of_it.pull.wanted.accept is not None
    assert head_of(header(sys_flag=4)).pull.wanted is EVERYTHING
    assert head_of(header(sys_flag=8)) == nothing, "a flag that is not asked for here"


def test_numbers_have_bounds() -> None:
    much = head_of(
        header(
            max_msg_nums=1 << 30,
            max_msg_bytes=1 << 30,
            sys_flag=2,
            suspend_timeout_millis=1 << 40,
        )
    )
    little = head_of(header(max_msg_nums=-5, max_msg_bytes=-5))

    assert (much.pull.count_max, much.pull.size_bytes_max) == (COUNT_MAX, SIZE_BYTES_MAX)
    assert much.suspend_ms == SUSPEND_MS_MAX
    assert (little.pull.count_max, little.pull.size_bytes_max) == (1, 1)


def test_a_filter_that_cannot_be_read_is_refused() -> None:
    with pytest.raises(InvalidRequest):
        head_of(header(sys_flag=4, subscription="a", expression_type="nothing"))
