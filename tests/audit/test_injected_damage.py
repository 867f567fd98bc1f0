"""Damage of every kind in every kind of file is found, and called what it is.

The expected codes are those that the format's table of files says (`docs/format/README.md`): the
logs and the broker's small files are the truth, everything else is derived or kept twice.
"""

from __future__ import annotations

import json
import os
import random
from collections.abc import Callable
from pathlib import Path
from zlib import crc32

import numpy as np
import pytest
from tests.audit.making import PENDING_COUNT, copy_of, make_data, receipts, snapshot_of
from tests.crash.script import Driver

from dueline.audit import Audit, Severity, audit
from dueline.store import Files
from dueline.store import states as state_files
from dueline.store.states import States

SEED = int(os.environ.get("DUELINE_CRASH_SEED", "1"))
FLIPS = 3

pytestmark = pytest.mark.slow
CHECKED_BYTES = {
    "store/timeline": 64,
    "store/index": 8,
    "store/done": 8,
}  # the first column: padding has no check


@pytest.fixture(scope="module")
def sound(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return make_data(tmp_path_factory.mktemp("sound"))


@pytest.fixture
def data(sound: Path, tmp_path: Path) -> Path:
    return copy_of(sound, tmp_path / "data")


def accepted_count(data: Path) -> int:
    """How many delayed messages there were; the last ones are those that are pending."""
    text = (data / "store" / "checkpoint.json").read_bytes().partition(b"\n")[2]
    return int(json.loads(text)["next_seq"])


def position_of(data: Path, unique_id: bytes) -> int:
    """Where the delay log has the record of a message."""
    for path in sorted((data / "store" / "delaylog").iterdir()):
        content = path.read_bytes()
        at = content.find(b"UNIQ_KEY\x01" + unique_id + b"\x02")
        if at < 0:
            at = content.find(b"UNIQ_KEY\x01" + unique_id)
        if at >= 0:
            magics = map(bytes.fromhex, ("DAA320A7", "D0E19ACD"))
            return int(path.name) + max(content.rfind(each, 0, at) for each in magics) - 4
    raise AssertionError(unique_id)


def only(data: Path, pattern: str) -> Path:
    """The newest file of a kind that holds anything."""
    return max(path for path in data.glob(pattern) if path.read_bytes().strip(b"\0"))


def texts(found: Audit) -> str:
    return "\n".join(f"{one.severity.name} {one.subject} {one.text}" for one in found.findings.kept)


KINDS: dict[str, tuple[str, int]] = {
    "commit log": ("store/commitlog/*", 2),
    "delay log": ("store/delaylog/*", 2),
    "consume queue": ("store/consumequeue/x/0/*", 1),
    "commit keys": ("store/index/commitlog/*", 1),
    "delay keys": ("store/index/delaylog/*", 1),
    "run": ("store/timeline/*", 1),
    "states": ("store/timeline.states", 1),
    "states mirror": ("store/timeline.states.mirror", 1),
    "checkpoint": ("store/checkpoint.json", 1),
    "checkpoint mirror": ("store/checkpoint.json.mirror", 1),
    "done": ("store/done/*", 2),
}


def test_an_undamaged_store_is_sound(data: Path) -> None:
    found = audit(data)

    assert (found.exit_code, found.findings.kept) == (0, [])
    assert found.counts["pending"] == PENDING_COUNT
    assert found.counts["accepted_delayed"] == accepted_count(data)


@pytest.mark.parametrize("kind", KINDS)
def test_a_flipped_bit_is_found(kind: str, data: Path) -> None:
    pattern, expected = KINDS[kind]
    path = only(data, pattern)
    content = path.read_bytes()
    rng = random.Random(f"{SEED} {kind}")
    limit = next((n for start, n in CHECKED_BYTES.items() if pattern.startswith(start)), None)

    for _ in range(FLIPS):
        at = rng.randrange(limit or len(content.rstrip(b"\0")))
        damaged = bytearray(content)
        damaged[at] ^= 1 << rng.randrange(8)
        path.write_bytes(damaged)

        found = audit(data)

        where = f"byte {at} of {path}, seed {SEED}: {texts(found)}"
        if kind == "commit log" and found.exit_code == 1:
            assert "queue offset" in {one.kind for one in found.findings.kept} or "torn" in where
        elif kind == "delay log" and found.exit_code == 0:
            assert is_queue_offset(content, at), where
        else:
            assert found.exit_code == expected, where


def is_queue_offset(content: bytes, at: int) -> bool:
    """Is the byte in a record's queue offset, which has no check and which nothing reads here?"""
    start = content.rfind(bytes.fromhex("DAA320A7"), 0, at)
    return start >= 0 and 20 <= at - (start - 4) < 28


@pytest.mark.parametrize("kind", [kind for kind in KINDS if kind != "done"])
def test_a_missing_file_is_found(kind: str, data: Path) -> None:
    pattern, expected = KINDS[kind]
    only(data, pattern).unlink()

    found = audit(data)

    assert found.exit_code == expected, texts(found)


@pytest.mark.parametrize("kind", KINDS)
def test_a_truncated_file_is_found(kind: str, data: Path) -> None:
    pattern, expected = KINDS[kind]
    path = only(data, pattern)
    content = path.read_bytes()
    path.write_bytes(content[: len(content.rstrip(b"\0")) // 2])

    found = audit(data)

    # A queue file of another length than configured keeps the store from opening.
    assert found.exit_code == (2 if kind == "consume queue" else expected), texts(found)


@pytest.mark.parametrize(
    ("pattern", "expected"),
    [
        ("store/commitlog/*", 2),
        ("store/delaylog/*", 2),
        ("store/consumequeue/x/*/*", 1),
        ("store/timeline/*", 2),
        ("store/index/commitlog/*", 2),
        ("store/index/delaylog/*", 2),
    ],
)
def test_swapped_files_are_found(pattern: str, expected: int, data: Path) -> None:
    """Each is sound by itself, so that only a look at what it belongs to tells."""
    files = sorted(data.glob(pattern))
    assert len(files) >= 2
    one, other = files[0].read_bytes(), files[-1].read_bytes()
    files[0].write_bytes(other)
    files[-1].write_bytes(one)

    found = audit(data)

    assert found.exit_code == expected, texts(found)


def test_an_older_checkpoint_in_first_place_is_found(data: Path) -> None:
    store = data / "store"
    old = json.loads((store / "checkpoint.json").read_bytes().partition(b"\n")[2])
    old["delay_position"] -= 100
    text = json.dumps(old).encode()
    (store / "checkpoint.json").write_bytes(b"%08x\n" % crc32(text) + text)

    found = audit(data)

    assert found.exit_code == 1
    assert "older" in texts(found)


def test_states_that_are_older_than_the_checkpoint_are_found(data: Path) -> None:
    path = data / "store" / "timeline.states"
    states, meta = state_files.load(Files(), path)
    first = accepted_count(data) - PENDING_COUNT
    known = states.of(np.arange(states.base, first)).copy()
    old = {**meta, "delay_position": position_of(data, b"late0")}
    States(states.base, known).save(Files(), path, old)

    found = audit(data)

    assert found.exit_code == 1, texts(found)
    assert "stale states" in {one.kind for one in found.findings.kept}


def test_an_older_segment_is_found(data: Path) -> None:
    """As if a file system had lost the last writes of a file."""
    path = only(data, "store/commitlog/*")
    content = path.read_bytes()
    at = content.rfind(bytes.fromhex("DAA320A7")) - 4
    path.write_bytes(content[:at] + bytes(len(content) - at))

    found = audit(data)

    assert found.exit_code == 2
    assert "log end" in {one.kind for one in found.findings.kept}


def test_lost_pending_messages_are_named_with_their_due_time(data: Path) -> None:
    path = only(data, "store/delaylog/*")
    content = bytearray(path.read_bytes())
    at = content.rfind(b"row 7")
    content[at] ^= 1
    path.write_bytes(content)

    found = audit(data)

    lost = [one for one in found.findings.kept if one.kind == "pending message"]
    assert [one.subject for one in lost] == [f"message {accepted_count(data) - PENDING_COUNT + 79}"]
    assert "topic x, due 17000" in lost[0].text


def test_both_copies_of_the_states_gone_with_deleted_segments_is_a_loss(data: Path) -> None:
    (data / "store" / "timeline.states").unlink()
    (data / "store" / "timeline.states.mirror").unlink()

    found = audit(data)

    assert found.exit_code == 2, texts(found)


def write_offsets(data: Path, content: object) -> None:
    (data / "consumerOffset.json").write_text(json.dumps(content))


SMALL_FILES: dict[str, tuple[Callable[[Path], object], int, str]] = {
    "offsets beyond the end": (
        lambda data: write_offsets(data, {"offsetTable": {"t@g": {"0": 999}}}),
        2,
        "skip messages",
    ),
    "offsets of a queue that never was": (
        lambda data: write_offsets(data, {"offsetTable": {"nowhere@g": {"0": 1}}}),
        2,
        "skip messages",
    ),
    "offsets that are no JSON": (
        lambda data: (data / "consumerOffset.json").write_text("{"),
        2,
        "cannot be read",
    ),
    "topics that are none": (
        lambda data: (data / "store/config/topics.json").write_text("[]"),
        2,
        "cannot be read",
    ),
    "no topics": (lambda data: (data / "store/config/topics.json").unlink(), 0, "found again"),
    "groups that are none": (
        lambda data: (data / "store/config/subscriptionGroup.json").write_text("]"),
        2,
        "cannot be read",
    ),
    "receipts that are none": (
        lambda data: (data / "receipts.log").write_bytes(b"other bytes"),
        2,
        "expected receipts",
    ),
    "torn receipts": (
        lambda data: (data / "receipts.log").write_bytes(receipts(3).rstrip(b"\0")[:-3]),
        1,
        "torn",
    ),
    "receipts damaged in the middle": (
        lambda data: (data / "receipts.log").write_bytes(receipts(3).replace(b"gt", b"gu", 1)),
        2,
        "come again",
    ),
    "an import that is not finished": (
        lambda data: (data / "imports.json").write_text(
            json.dumps(
                {
                    "imports": [
                        {"source": "s", "mark": None, "choice": {}, "started_ms": 1, "next_seq": 0}
                    ]
                }
            )
        ),
        2,
        "not finished",
    ),
}


@pytest.mark.parametrize("kind", SMALL_FILES)
def test_small_files_are_looked_at(kind: str, data: Path) -> None:
    damage, expected, words = SMALL_FILES[kind]
    damage(data)

    found = audit(data)

    assert found.exit_code == expected, texts(found)
    assert words in texts(found)


def test_a_torn_tail_is_what_opening_repairs(data: Path) -> None:
    path = only(data, "store/commitlog/*")
    content = bytearray(path.read_bytes())
    end = len(content.rstrip(b"\0"))
    content[end : end + 40] = content[:40]
    path.write_bytes(content)

    found = audit(data)

    assert found.exit_code == 1, texts(found)
    assert "torn tail" in {one.kind for one in found.findings.kept}


def test_a_damaged_record_at_the_end_of_a_killed_store_is_a_loss_and_not_torn(
    tmp_path: Path,
) -> None:
    """It was acknowledged: the note of what was synced tells it from a write that was torn."""
    driver = Driver(tmp_path / "store", Files())
    driver.open()
    driver.put("first")
    driver.checkpoint()
    driver.put("last")
    killed = copy_of(tmp_path / "store", tmp_path / "killed")
    driver.close()
    assert audit(killed).exit_code == 0
    path = only(killed, "commitlog/*")
    content = bytearray(path.read_bytes())
    content[content.rfind(b"body of last")] ^= 1
    path.write_bytes(content)

    found = audit(killed)

    assert found.exit_code == 2, texts(found)


def test_nothing_is_changed_and_a_read_only_folder_will_do(data: Path) -> None:
    before = snapshot_of(data)
    for path in [data, *data.rglob("*")]:
        path.chmod(0o500 if path.is_dir() else 0o400)

    try:
        assert audit(data).findings.worst == Severity.NOTE
    finally:
        for path in [data, *data.rglob("*")]:
            path.chmod(0o700 if path.is_dir() else 0o600)

    after = snapshot_of(data)
    assert {name: one[:2] for name, one in after.items()} == {
        name: one[:2] for name, one in before.items()
    }


def test_many_findings_of_one_kind_are_counted(data: Path) -> None:
    path = only(data, "store/delaylog/*")
    content = bytearray(path.read_bytes())
    at = content.find(b"body")
    for _ in range(40):
        at = content.find(b"row ", at + 400)
        content[at] ^= 1
    path.write_bytes(content)

    found = audit(data)

    kept = [one for one in found.findings.kept if one.kind == "pending message"]
    assert len(kept) <= 20
    assert found.findings.counts[Severity.LOSS, "pending message"] > 20
