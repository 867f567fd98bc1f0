"""The lengths of a store's files are part of its configuration: they must be what they were."""

from __future__ import annotations

from dueline.errors import InvalidRequest
from dueline.store.consume_queue import UNIT_SIZE
from dueline.store.core import COMMIT_LOG, DELAY_LOG, QUEUES, Core
from dueline.store.files import POSITION_NAME

__all__ = ["check_sizes"]


def check_sizes(core: Core) -> None:
    """Files of another length than configured cannot be read by this configuration."""
    for log, name in ((core.commit, COMMIT_LOG), (core.delay, DELAY_LOG)):
        for base in log.bases:
            size = core.files.size_bytes(log.path_of(base))
            if size != log.segment_size_bytes:
                raise InvalidRequest(
                    f"{name} segment {base}: expected {log.segment_size_bytes} bytes as "
                    f"configured, found {size}; open the store with the size it was made with",
                    path=str(log.path_of(base)),
                )
    # One queue file tells for all: a store with files of two lengths was never opened.
    expected = core.options.queue_file_units * UNIT_SIZE
    for path in core.files.walk(core.path / QUEUES):
        size = core.files.size_bytes(path) if POSITION_NAME.fullmatch(path.name) else 0
        if not size:
            continue
        if size == expected:
            break
        raise InvalidRequest(
            f"queue file {path}: expected {expected} bytes as configured "
            f"(queue_file_units), found {size}; open the store with the size it was made with",
            path=str(path),
        )
