"""Columns of rows: from the timeline, from either log, and of rows whose record is damaged."""

from __future__ import annotations

from pathlib import Path

import numpy as np
from tests.unit.broker.waiting.waiting_world import START_MS, WaitingWorld

from dueline.broker.waiting.columns import Columns


def test_columns_of_both_logs(tmp_path: Path) -> None:
    world = WaitingWorld(tmp_path)
    survey = world.store.survey()
    rows = survey.find(np.arange(60, dtype=np.int64))

    columns = Columns(survey, rows, with_records=True)

    order = [world.sent[number] for number in world.numbers(lambda each: True)]
    assert columns.get("number").to_pylist() == [each.number for each in order]
    assert columns.get("body").to_pylist() == [each.body.decode() for each in order]
    assert columns.get("key").to_pylist() == [each.keys or None for each in order]
    assert columns.get("property", "region").to_pylist() == [each.region or None for each in order]
    words, owners = columns.key_words()
    by_row = [[w for w, o in zip(words.to_pylist(), owners, strict=True) if o == row and w]
              for row in range(60)]  # fmt: skip
    assert by_row == [each.keys.split() for each in order]
    world.store.close()


def test_a_row_whose_record_is_damaged_is_left_out(tmp_path: Path) -> None:
    world = WaitingWorld(tmp_path)
    survey = world.store.survey()
    rows = survey.find(np.arange(60, dtype=np.int64))
    row = int(np.flatnonzero(rows.units.due_ms == START_MS + 50_000)[0])
    position = int(rows.units.position[row])
    segment = position - position % world.store.options.delay_segment_size_bytes
    path = tmp_path / "delaylog" / f"{segment:020d}"
    with path.open("r+b") as file:
        file.seek(position - segment + 100)
        file.write(b"\xff\xff\xff")

    columns = Columns(survey, rows, with_records=True)

    assert len(columns) == 59
    assert len(columns.get("id")) == 59
    world.store.close()
