"""The audit trail is written beside everything else, and a failing disk stops nothing."""

import logging
from pathlib import Path

import pytest

from dueline.broker.access import ANONYMOUS, Trail
from dueline.server.audit_writer import AuditWriter
from dueline.store.files import Files
from dueline.testing import ManualClock


def test_everything_is_written_by_the_end(tmp_path: Path) -> None:
    trail = Trail(tmp_path, Files(), clock=ManualClock())
    failures: list[BaseException] = []
    writer = AuditWriter(trail, on_failure=failures.append)
    writer.start()
    for number in range(100):
        trail.changed(ANONYMOUS, door="test", what=f"change {number}")
    writer.stop()

    assert [entry.what for entry in trail.read()] == [f"change {number}" for number in range(100)]
    assert failures == []


def test_a_failing_disk_is_said_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    trail = Trail(tmp_path, Files(), clock=ManualClock())
    writer = AuditWriter(trail, on_failure=lambda error: None)
    trail.changed(ANONYMOUS, door="test", what="change")

    def fail(*_: object) -> None:
        raise OSError("no space")

    with monkeypatch.context() as patch, caplog.at_level(logging.WARNING):
        patch.setattr(Files, "open_to_append", fail)
        writer.write()
        writer.write()
    assert caplog.messages == ["the audit trail cannot be written and will be later: no space"]

    writer.write()
    assert [entry.what for entry in trail.read()] == ["change"]
