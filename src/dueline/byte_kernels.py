"""Integers in bytes, the most significant byte first, as logs and the wire have them: for kernels.

As everywhere in kernels, the caller has looked whether the bytes are there.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from dueline.compiled import BYTES, kernel

__all__ = ["u32", "u64"]

Bytes8 = npt.NDArray[np.uint8]


@kernel(f"int64({BYTES}, int64)")
def u32(data: Bytes8, at: int) -> Any:
    return (
        np.int64(data[at]) << 24
        | np.int64(data[at + 1]) << 16
        | np.int64(data[at + 2]) << 8
        | np.int64(data[at + 3])
    )


@kernel(f"int64({BYTES}, int64)")
def u64(data: Bytes8, at: int) -> Any:
    """Beyond 63 bits it is negative."""
    return u32(data, at) << 32 | u32(data, at + 4)
