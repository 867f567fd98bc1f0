"""The note of what was imported, and that nothing runs on half an import."""

from __future__ import annotations

from pathlib import Path

import pytest

from dueline.errors import InvalidRequest, Unavailable
from dueline.store import Files
from dueline.store.imports import ImportEntry, Imports, check_finished

ENTRY = ImportEntry(
    source="/old/store",
    mark={"position": 3, "size": 100, "crc": 7, "end": 103},
    choice={"messages": "unread", "levels": "1s"},
    started_ms=5,
    next_seq=2,
    queues={"orders": {"0": [4, 4]}},
)


def test_entry_is_on_disk_when_it_begins_and_when_it_ends(tmp_path: Path) -> None:
    folder = tmp_path / "new" / "data"
    imports = Imports(folder, Files())
    imports.begin(ENTRY)

    again = Imports(folder, Files())
    assert again.unfinished == ENTRY
    again.finish(ENTRY, now_ms=9, counts={"waiting": 1})

    (found,) = Imports(folder, Files()).entries
    assert (found.finished_ms, found.counts, found.queues) == (9, {"waiting": 1}, ENTRY.queues)
    assert Imports(folder, Files()).unfinished is None


def test_nothing_runs_on_an_unfinished_import(tmp_path: Path) -> None:
    check_finished(tmp_path, Files())
    imports = Imports(tmp_path, Files())
    imports.begin(ENTRY)

    with pytest.raises(Unavailable, match="run `dueline import /old/store"):
        check_finished(tmp_path, Files())

    imports.finish(ENTRY, now_ms=9, counts={})
    check_finished(tmp_path, Files())


@pytest.mark.parametrize("text", ["", "{}", '{"imports":[{"a":1}]}', '{"imports":3}'])
def test_file_that_is_none_is_refused(tmp_path: Path, text: str) -> None:
    (tmp_path / "imports.json").write_text(text)

    with pytest.raises(InvalidRequest, match="expected the imports as JSON"):
        Imports(tmp_path, Files())
