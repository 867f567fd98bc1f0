"""Where rows go, a column at a time: the array form of `dueline.admission`.

Rows of one batch have few topics, so each distinct name is looked at once. Pure functions on Arrow
and numpy arrays.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from dueline.admission import check_target
from dueline.errors import InvalidRequest
from dueline.message import QUEUE_ID_MAX, TOPIC_SIZE_MAX
from dueline.store.kernels import Int32s

__all__ = ["Targets", "queue_id_faults"]

Mask = npt.NDArray[np.bool_]

_MISSING: Final = f"topic: expected 1 to {TOPIC_SIZE_MAX} characters, found none"


@dataclass(frozen=True, slots=True, kw_only=True)
class Targets:
    """A column of topics: row i is names[indices[i]], and `faults` has a reason for each bad name.

    The last fault is that of a missing topic, which has the index -1.
    """

    names: list[str]
    indices: Int32s
    faults: list[str | None]

    @classmethod
    def of(cls, topics: pa.Array, check: Callable[[str], None] = check_target) -> Targets:
        """Look at every distinct name of a string array."""
        encoded = topics.dictionary_encode()
        if isinstance(encoded, pa.ChunkedArray):
            encoded = encoded.combine_chunks() if encoded.num_chunks != 1 else encoded.chunk(0)
        names: list[str] = encoded.dictionary.to_pylist()
        indices = pc.fill_null(encoded.indices, -1).to_numpy().astype(np.int32)
        return cls(names=names, indices=indices, faults=[*map(_fault(check), names), _MISSING])

    def bad(self) -> Mask:
        """Which rows have a topic that they may not have."""
        is_bad: Mask = np.array([fault is not None for fault in self.faults], dtype=np.bool_)
        result: Mask = is_bad[self.indices]
        return result

    def reasons(self) -> pa.StringArray:
        """What is wrong with each row's topic; null where nothing is."""
        at = np.where(self.indices < 0, len(self.names), self.indices)
        return pa.array(self.faults, pa.string()).take(pa.array(at))

    def check(self) -> None:
        """Refuse the column if a row is bad, naming the first.

        Raises:
            InvalidRequest: says which row, and why.
        """
        if all(fault is None for fault in self.faults[:-1]) and bool((self.indices >= 0).all()):
            return
        row = int(np.argmax(self.bad()))
        raise InvalidRequest(
            f"row {row}: {self.faults[int(self.indices[row])]}", row=row, field="topic"
        )


def queue_id_faults(queue_ids: npt.NDArray[Any]) -> Mask:
    """Which of these numbers no queue can have."""
    result: Mask = (queue_ids < 0) | (queue_ids > QUEUE_ID_MAX)
    return result


def _fault(check: Callable[[str], None]) -> Callable[[str], str | None]:
    def fault(name: str) -> str | None:
        try:
            check(name)
        except InvalidRequest as error:
            return error.message
        return None

    return fault
