"""The audit trail: every line once, in order, bounded, whatever comes."""

from __future__ import annotations

import json
import stat
from pathlib import Path

import pytest

from dueline.broker.access import ANONYMOUS, Caller, Resource, Trail
from dueline.broker.access import trail as module
from dueline.errors import Forbidden, Unauthenticated
from dueline.store.files import Files
from dueline.testing import ManualClock

_ADMIN = Caller("admin", "10.0.0.1", "bearer")
_WRONG = Unauthenticated("no", reason="wrong secret")


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock(1_800_000_000_123)


@pytest.fixture
def trail(tmp_path: Path, clock: ManualClock) -> Trail:
    return Trail(tmp_path / "access", Files(), clock=clock)


def test_a_line_says_who_from_where_what_and_how_many(trail: Trail) -> None:
    trail.changed(
        _ADMIN, door="flight", what="cancel", on=[Resource.parse("Topic:orders"), "key"], count=3
    )
    error = Forbidden("no", reason="no permission", resource="Topic:orders")
    trail.refused(Caller("billing", "::1", "signature"), door="remoting", what="SEND", error=error)
    trail.refused(Caller(None, "::1"), door="grpc", what="SendMessage", error=_WRONG, name="x" * 99)
    trail.write()

    lines = [json.loads(line) for line in trail.path.read_text().splitlines()]
    time = "2027-01-15T08:00:00.123Z"
    assert lines == [
        {
            **{"n": 1, "time": time, "event": "change", "user": "admin", "address": "10.0.0.1"},
            **{"method": "bearer", "door": "flight", "what": "cancel"},
            **{"on": ["Topic:orders", "key"], "count": 3},
        },
        {
            **{"n": 2, "time": time, "event": "refused", "user": "billing", "address": "::1"},
            **{"method": "signature", "door": "remoting", "what": "SEND"},
            **{"on": ["Topic:orders"], "reason": "no permission"},
        },
        {
            **{"n": 3, "time": time, "event": "refused", "user": "x" * 64, "address": "::1"},
            **{"door": "grpc", "what": "SendMessage", "reason": "wrong secret"},
        },
    ]
    assert stat.S_IMODE(trail.path.stat().st_mode) == 0o600
    (first, *_) = trail.read()
    assert first.time_ms == 1_800_000_000_123


def test_numbers_go_on_after_a_restart(trail: Trail, tmp_path: Path, clock: ManualClock) -> None:
    trail.changed(_ADMIN, door="flight", what="one")
    trail.write()
    again = Trail(tmp_path / "access", Files(), clock=clock)
    again.changed(_ADMIN, door="flight", what="two")
    again.write()

    assert [(entry.n, entry.what) for entry in again.read()] == [(1, "one"), (2, "two")]
    assert again.recent(0) is None, "the first is on disk only"
    assert [entry.n for entry in again.recent(1) or []] == [2]


def test_a_flood_of_refusals_is_counted_and_changes_are_not_pushed_out(
    trail: Trail, clock: ManualClock
) -> None:
    flood = Caller(None, "192.0.2.1")
    for _ in range(100_000):
        trail.refused(flood, door="remoting", what="SEND", error=_WRONG, name="guess")
    trail.changed(_ADMIN, door="flight", what="cancel")
    trail.write()
    assert sum(1 for _ in trail.read()) == module.REFUSED_PER_PERIOD + 1
    assert trail.path.stat().st_size < 20_000

    clock.advance(module.PERIOD_MS)
    trail.write()

    last = list(trail.read())[-1]
    assert (last.event, last.user, last.address, last.count) == (
        "refused",
        "guess",
        "192.0.2.1",
        100_000 - module.REFUSED_PER_PERIOD,
    )


def test_kinds_of_refusals_are_bounded_too(trail: Trail, clock: ManualClock) -> None:
    count = 10_000
    for number in range(count):
        trail.refused(Caller(None, f"a{number}"), door="grpc", what="x", error=_WRONG)
    clock.advance(module.PERIOD_MS)
    trail.write()

    found = list(trail.read())
    assert len(found) == module.REFUSED_PER_PERIOD + module.COUNTED_MAX + 1
    assert sum(entry.count or 1 for entry in found) == count


def test_lines_that_the_disk_is_too_slow_for_are_counted(trail: Trail) -> None:
    for number in range(module.QUEUE_COUNT_MAX + 7):
        trail.changed(_ADMIN, door="flight", what=f"change {number}")
    trail.write()
    trail.write()

    *found, last = trail.read()
    assert len(found) == module.QUEUE_COUNT_MAX
    assert (last.event, last.count) == ("lost", 7)


def test_files_are_rotated_and_the_oldest_is_removed(tmp_path: Path, clock: ManualClock) -> None:
    trail = Trail(tmp_path, Files(), clock=clock, size_bytes_max=8_000)
    for number in range(500):
        trail.changed(_ADMIN, door="flight", what=f"change {number}")
        trail.write()

    files = [path for path in tmp_path.iterdir() if path.name.startswith("audit")]
    assert len(files) == module.FILE_COUNT
    assert sum(path.stat().st_size for path in files) <= 8_000
    numbers = [entry.n for entry in trail.read()]
    assert numbers == list(range(numbers[0], 501))


def test_what_could_not_be_written_is_written_later(
    trail: Trail, monkeypatch: pytest.MonkeyPatch
) -> None:
    trail.changed(_ADMIN, door="flight", what="one")
    with monkeypatch.context() as patch:
        patch.setattr(Files, "open_to_append", _fail)
        with pytest.raises(OSError, match="no space"):
            trail.write()
    trail.changed(_ADMIN, door="flight", what="two")
    trail.write()

    assert [entry.what for entry in trail.read()] == ["one", "two"]


def _fail(*_: object) -> None:
    raise OSError("no space")


def test_a_torn_line_is_left_out(trail: Trail, tmp_path: Path, clock: ManualClock) -> None:
    trail.changed(ANONYMOUS, door="flight", what="one")
    trail.write()
    with trail.path.open("ab") as file:
        file.write(b'{"n":2,"time":"20')

    assert [entry.what for entry in trail.read()] == ["one"]
    again = Trail(tmp_path / "access", Files(), clock=clock)
    again.changed(ANONYMOUS, door="flight", what="two")
    again.write()
    assert [(entry.n, entry.what) for entry in again.read()] == [(1, "one"), (2, "two")]
