"""The store's values that the broker's verbs take and answer with, for those who call them.

The store itself is the broker's alone: a door imports its values from here.
"""

from __future__ import annotations

from dueline.store import Changed, PendingMessage, PutResult, ReadResult, ReadStatus, Record
from dueline.store.block_writing import RowsResult

__all__ = [
    "Changed",
    "PendingMessage",
    "PutResult",
    "ReadResult",
    "ReadStatus",
    "Record",
    "RowsResult",
]
