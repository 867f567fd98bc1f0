"""What was refused is not there; what may be there is never called refused."""

from __future__ import annotations

import errno
from collections.abc import Iterator
from pathlib import Path

import pytest

from dueline.errors import OutcomeUnknown, StoreClosed, StoreFailed, Unavailable
from dueline.message import Message
from dueline.store import PutResult, Store, StoreOptions
from dueline.testing import FaultyFiles, ManualClock

OPTIONS = StoreOptions(
    commit_segment_size_bytes=16 << 10, delay_segment_size_bytes=16 << 10, queue_file_units=10
)
NOW = Message(topic="t", body=b"now", properties={"UNIQ_KEY": "now"})
LATER = Message(topic="t", body=b"later", properties={"UNIQ_KEY": "later", "DELAY": "3"})


@pytest.fixture
def files() -> FaultyFiles:
    return FaultyFiles()


@pytest.fixture
def store(files: FaultyFiles, tmp_path: Path) -> Iterator[Store]:
    store = Store.open(tmp_path / "store", OPTIONS, clock=ManualClock(), files=files)
    yield store
    store.close()


def counts(store: Store) -> tuple[int, int]:
    """Visible and waiting messages."""
    return store.offset_range("t", 0)[1], store.pending_count()


def reopened(store: Store, files: FaultyFiles) -> Store:
    store.close()
    return Store.open(store.path, OPTIONS, clock=ManualClock(), files=files)


@pytest.mark.parametrize("log", ["commitlog", "delaylog"])
def test_a_group_that_one_log_has_no_room_for_is_in_neither(
    store: Store, files: FaultyFiles, log: str
) -> None:
    files.fail("allocate", errno.ENOSPC, path_part=log)

    answers = store.put_all([NOW, LATER])

    assert [type(answer) for answer in answers] == [Unavailable, Unavailable]
    assert counts(store) == (0, 0)
    with reopened(store, files) as again:
        assert counts(again) == (0, 0)
        assert all(isinstance(answer, PutResult) for answer in again.put_all([NOW, LATER]))
        assert counts(again) == (1, 1)


@pytest.mark.parametrize("kind", ["write", "sync"])
def test_the_half_that_was_written_is_accepted_and_the_other_is_not_known(
    store: Store, files: FaultyFiles, kind: str
) -> None:
    store.put_all([NOW, LATER])
    files.fail(kind, errno.EIO, path_part="delaylog")

    now, later = store.put_all([NOW, LATER])

    assert isinstance(now, PutResult)
    assert isinstance(later, StoreFailed)
    with pytest.raises(StoreClosed) as closed:
        store.put(NOW)
    assert not isinstance(closed.value, OutcomeUnknown), "this one is certainly not there"
    with reopened(store, files) as again:
        visible, waiting = counts(again)
        assert visible == 2
        assert waiting in (1, 2)


@pytest.mark.parametrize("kind", ["write", "sync"])
def test_a_failed_write_of_any_change_is_not_known(
    store: Store, files: FaultyFiles, kind: str
) -> None:
    store.put(LATER)
    files.fail(kind, errno.EIO, path_part="delaylog")

    with pytest.raises(OutcomeUnknown):
        store.cancel("later")
