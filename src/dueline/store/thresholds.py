"""When the store tidies up after itself, and in what portions it works.

They decide how quick it is and how much memory it takes, never what it answers, and no setting
names them; tests choose small ones so that a few messages reach what otherwise takes millions.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

__all__ = ["USUAL", "Thresholds"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Thresholds:
    """Counts from which on something is done.

    Attributes:
        part_rows: rows of a table that are encoded at a time; memory that is used again is quicker
            than new.
        merge_run_count: runs of the timeline that are worth a merge.
        run_units_max: pending units of a merged run.
        scan_run_rows: rows of a run that are looked through at a time.
        merge_key_file_count: files of a key index that are worth a merge.
        key_file_entries_max: entries of a merged one.
        forget_states_min: states that are worth forgetting.
        sync_each_max: queue files that are synced one by one; for more, the whole disk is.
    """

    part_rows: int = 32_768
    merge_run_count: int = 8
    run_units_max: int = 1 << 21
    scan_run_rows: int = 4096
    merge_key_file_count: int = 8
    key_file_entries_max: int = 1 << 22
    forget_states_min: int = 1 << 20
    sync_each_max: int = 512


USUAL: Final = Thresholds()
