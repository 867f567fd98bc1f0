"""A store is opened with the file lengths it was made with, and refused in words otherwise."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
from tests.unit.store.making import SMALL, Wall, bodies, open_store, ordinary

from dueline.errors import InvalidRequest

FIRST = "0" * 20
SEGMENT_BYTES = 16_384
QUEUE_BYTES = 7 * 20  # units of 20 bytes, see docs/format


@pytest.fixture
def made(tmp_path: Path) -> Path:
    """A closed store with files of every kind, two segments of the commit log among them."""
    with open_store(tmp_path, Wall()) as store:
        store.put_all([ordinary(bytes(10_000)), ordinary(bytes(10_000)), ordinary(DELAY="1")])
    return tmp_path


def refusal(path: Path, **changed: int) -> InvalidRequest:
    with pytest.raises(InvalidRequest) as caught:
        open_store(path, Wall(), replace(SMALL, **changed))  # type: ignore[arg-type]
    return caught.value


@pytest.mark.parametrize(
    ("option", "log"),
    [("commit_segment_size_bytes", "commitlog"), ("delay_segment_size_bytes", "delaylog")],
)
def test_a_segment_of_another_length_is_named_with_both_lengths(
    made: Path, option: str, log: str
) -> None:
    error = refusal(made, **{option: 32_768})

    assert error.message == (
        f"{log} segment 0: expected 32768 bytes as configured, found {SEGMENT_BYTES}; open the "
        "store with the size it was made with"
    )
    assert error.path == str(made / log / FIRST)


def test_any_segment_is_looked_at_not_the_first_alone(made: Path) -> None:
    second = made / "commitlog" / f"{SEGMENT_BYTES:020}"
    with second.open("r+b") as file:
        file.truncate(SEGMENT_BYTES - 1)

    error = refusal(made)

    assert error.path == str(second)
    assert f"segment {SEGMENT_BYTES}: expected {SEGMENT_BYTES} bytes" in error.message


def test_a_queue_file_of_another_length_is_named_with_its_setting(made: Path) -> None:
    error = refusal(made, queue_file_units=9)

    assert error.message.startswith(f"queue file {error.path}: expected {9 * 20} bytes")
    assert "(queue_file_units)" in error.message
    assert f"found {QUEUE_BYTES};" in error.message
    assert Path(str(error.path)).stat().st_size == QUEUE_BYTES


def test_a_refusal_changes_nothing(made: Path) -> None:
    def contents() -> dict[str, bytes]:
        return {
            str(path): path.read_bytes()
            for path in made.rglob("*")
            if path.is_file() and path.name != "lock"
        }

    before = contents()
    refusal(made, commit_segment_size_bytes=32_768)
    refusal(made, queue_file_units=9)

    assert contents() == before
    with open_store(made, Wall()) as store:
        assert bodies(store) == [bytes(10_000)] * 2
        assert store.pending_count() == 1


def test_files_that_are_no_queue_files_have_no_length_to_check(made: Path) -> None:
    """One that a crash left empty is made anew; one that somebody put there is none of ours."""
    (queue,) = {path.parent for path in made.rglob(FIRST) if path.stat().st_size == QUEUE_BYTES}
    (queue / "0-notes").write_bytes(b"x")
    (queue / FIRST).write_bytes(b"")

    with open_store(made, Wall()) as store:
        assert bodies(store) == [bytes(10_000)] * 2


@pytest.mark.parametrize("size", [8_192, 65_536])
def test_an_empty_store_takes_any_length(tmp_path: Path, size: int) -> None:
    open_store(tmp_path, Wall()).close()

    changed = replace(
        SMALL, commit_segment_size_bytes=size, delay_segment_size_bytes=size, queue_file_units=11
    )
    with open_store(tmp_path, Wall(), changed) as store:
        store.put(ordinary(b"17"))
        assert bodies(store) == [b"17"]
