"""What the headers of many pulls say alike: all but where they read, and how far they are."""

from __future__ import annotations

from typing import Final, NamedTuple

from dueline.broker.filters import EVERYTHING, filter_of
from dueline.broker.reading import Pull
from dueline.wire.codes import PullFlag
from dueline.wire.headers import PullRequest

__all__ = ["SIZE_BYTES_MAX", "PullHead", "head_of"]

COUNT_MAX: Final = 1_024
SIZE_BYTES_MAX: Final = 1 << 20
SUSPEND_MS_MAX: Final = 60_000
_FLAGS: Final = int(PullFlag.COMMIT_OFFSET | PullFlag.SUSPEND | PullFlag.SUBSCRIPTION)


class PullHead(NamedTuple):
    """A pull's header without its offsets."""

    pull: Pull
    has_filter: bool
    """In the request; if not, the group's heartbeats say what it wants."""
    sub_version: int
    commits: bool
    suspend_ms: int


def head_of(header: PullRequest) -> PullHead:
    """What a header means.

    Raises:
        InvalidRequest: a filter that cannot be read.
    """
    flags = PullFlag(header.sys_flag & _FLAGS)
    has_filter = PullFlag.SUBSCRIPTION in flags
    wanted = EVERYTHING
    if has_filter:
        wanted = filter_of(header.subscription or "*", header.expression_type or "TAG")
    return PullHead(
        pull=Pull(
            topic=header.topic,
            queue_id=header.queue_id,
            group=header.consumer_group,
            wanted=wanted,
            count_max=max(1, min(header.max_msg_nums, COUNT_MAX)),
            size_bytes_max=max(1, min(header.max_msg_bytes or SIZE_BYTES_MAX, SIZE_BYTES_MAX)),
        ),
        has_filter=has_filter,
        sub_version=header.sub_version,
        commits=PullFlag.COMMIT_OFFSET in flags,
        suspend_ms=(
            min(header.suspend_timeout_millis, SUSPEND_MS_MAX) if PullFlag.SUSPEND in flags else 0
        ),
    )
