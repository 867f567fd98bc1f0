from pathlib import Path

from dueline.server.restarting import NOTE_NAME, Note, read_note, write_note


def test_a_note_is_read_as_it_was_written(tmp_path: Path) -> None:
    note = Note(began_s=1.5, is_done=True, message="done", broker_pid=7, away_s=0.25)

    write_note(tmp_path, note)

    assert read_note(tmp_path) == note


def test_no_note_and_a_broken_one_are_none(tmp_path: Path) -> None:
    assert read_note(tmp_path) is None
    (tmp_path / NOTE_NAME).write_text("{")
    assert read_note(tmp_path) is None


def test_a_note_that_cannot_be_written_is_left_out(tmp_path: Path) -> None:
    write_note(tmp_path / "missing", Note())

    assert read_note(tmp_path / "missing") is None
