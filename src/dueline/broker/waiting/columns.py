"""What can be asked of waiting messages, column by column; each is made when it is first asked for.

    number, due, topic, queue, size, state    known of each row: no record is read
    id, key, tag, accepted, body, property    from the record

`key` has several values in a row: the words of KEYS.
"""

from __future__ import annotations

from typing import Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from dueline.store import properties
from dueline.store.kernels import Int64s
from dueline.store.restore import Fields, damaged
from dueline.store.survey import Survey, Waiting

__all__ = ["COLUMN_NAMES", "NUMBERS", "RECORD_COLUMNS", "TIMES", "Columns"]

RECORD_COLUMNS: Final = frozenset({"id", "key", "tag", "accepted", "body", "property"})
NUMBERS: Final = frozenset({"number", "queue", "size", "due", "accepted"})
TIMES: Final = frozenset({"due", "accepted"})
COLUMN_NAMES: Final = (
    *("topic", "key", "tag", "due", "accepted", "id", "number", "queue", "size", "state"),
    *("body", "property"),
)


class Columns:
    """The columns of some rows; those whose record is gone or damaged are left out if any column
    of the record is asked for (`rows`)."""

    def __init__(self, survey: Survey, rows: Waiting, *, with_records: bool) -> None:
        self._survey = survey
        self.rows = rows
        self._made: dict[tuple[str, str], Any] = {}
        self._fields: Fields | None = None
        self._texts: pa.BinaryArray | None = None
        if with_records and len(rows):
            self._read()

    def __len__(self) -> int:
        return len(self.rows)

    def _read(self) -> None:
        records = self._survey.records(self.rows)
        bad = damaged(pa.record_batch([records], names=["record"]))
        if bool(bad.any()):
            sound = np.flatnonzero(~bad)
            self.rows, records = self.rows.take(sound), records.take(pa.array(sound))
        self._fields = Fields(records)
        self._texts = self._fields.properties()

    def get(self, name: str, detail: str = "") -> pa.Array:
        """A column: text, or whole numbers for those in `NUMBERS`; `detail` names a property."""
        made = self._made.get((name, detail))
        if made is None:
            made = self._made[name, detail] = self._make(name, detail)
        return made

    def key_words(self) -> tuple[pa.StringArray, Int64s]:
        """Every word of every row's KEYS, and the row that it is of."""
        lists = pc.split_pattern(pc.fill_null(self.get("key"), ""), " ")
        words = lists.flatten()
        owners = np.repeat(np.arange(len(lists)), pc.list_value_length(lists).to_numpy())
        return words, owners

    def _make(self, name: str, detail: str) -> pa.Array:
        units = self.rows.units
        simple = {
            "number": units.seq,
            "due": units.due_ms,
            "queue": units.queue_id,
            "size": units.size,
        }
        if name in simple:
            return pa.array(simple[name]).cast(pa.int64())
        if name == "topic":
            return _named(self._survey.topic_names, units.topic)
        if name == "state":
            return _named(["pending", "carried over"], self.rows.is_at_gate.astype(np.int32))
        if not len(self.rows):
            return pa.array([], pa.int64() if name in NUMBERS else pa.string())
        assert self._fields is not None, f"column {name} needs the records"
        assert self._texts is not None
        if name == "accepted":  # at the gate stands a record with another time
            times_ms = self._fields.headers["store_ms"].astype(np.int64)
            return pa.array(times_ms, mask=self.rows.is_at_gate)
        if name == "body":
            return properties.text(self._fields.bodies())
        stored = {"id": "UNIQ_KEY", "key": "KEYS", "tag": "TAGS", "property": detail}[name]
        return properties.text(properties.values(self._texts, stored))


def _named(names: list[str], numbers: Any) -> pa.StringArray:
    used, local = np.unique(numbers, return_inverse=True)
    chosen = pa.array([names[number] for number in used.tolist()], pa.string())
    return chosen.take(pa.array(local))
