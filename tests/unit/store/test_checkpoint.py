"""Checkpoints: read back as saved, from either copy, or not at all."""

from __future__ import annotations

from pathlib import Path
from zlib import crc32

import pytest

from dueline.errors import CorruptRecord
from dueline.store import checkpoint as checkpoints
from dueline.store.checkpoint import Checkpoint
from dueline.store.files import Files
from dueline.store.states import mirror_of

SAMPLE = Checkpoint(
    delay_position=1 << 40,
    commit_position=5,
    commit_end=9,
    index_ms=7,
    waiting=[5],
    accepted_ms=8,
    next_seq=3,
    runs=["a", "b"],
    queues={"t": {"0": [1, 2]}},
    delay_queues={"x/0": 4},
    segments={"0": [0, 3]},
    levels=[[0, "1s 5s"]],
)


def test_both_copies_are_read_back(tmp_path: Path) -> None:
    path = tmp_path / "checkpoint.json"
    checkpoints.save(Files(), path, SAMPLE)

    assert checkpoints.load(Files(), path) == SAMPLE
    assert checkpoints.load(Files(), mirror_of(path)) == SAMPLE


def test_every_flipped_bit_is_noticed(tmp_path: Path) -> None:
    path = tmp_path / "checkpoint.json"
    checkpoints.save(Files(), path, SAMPLE)
    data = path.read_bytes()

    for bit in range(8 * len(data)):
        flipped = bytearray(data)
        flipped[bit // 8] ^= 1 << bit % 8
        path.write_bytes(flipped)
        try:
            found = checkpoints.load(Files(), path)
        except CorruptRecord:
            continue
        assert found == SAMPLE, "only the case of a digit of the CRC may differ"


@pytest.mark.parametrize("data", [b"", b"\n", b"00000000\n", b"00000000\n{}", b"{}"])
def test_other_bytes_are_no_checkpoint(tmp_path: Path, data: bytes) -> None:
    path = tmp_path / "checkpoint.json"
    path.write_bytes(data)

    with pytest.raises(CorruptRecord) as caught:
        checkpoints.load(Files(), path)

    assert caught.value.path == str(path)


def test_checkpoint_of_another_version_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "checkpoint.json"
    text = b'{"surprise": 1}'
    path.write_bytes(b"%08x\n" % crc32(text) + text)

    with pytest.raises(CorruptRecord, match="surprise"):
        checkpoints.load(Files(), path)


def test_missing_checkpoint_is_missing(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError):
        checkpoints.load(Files(), tmp_path / "checkpoint.json")


def test_checkpoint_of_an_earlier_version_is_read(tmp_path: Path) -> None:
    path = tmp_path / "checkpoint.json"
    text = b'{"next_seq": 17, "clock_ms": 9}'
    path.write_bytes(f"{crc32(text):08x}\n".encode() + text)

    assert checkpoints.load(Files(), path) == Checkpoint(next_seq=17)
