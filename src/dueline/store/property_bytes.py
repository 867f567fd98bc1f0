"""Names of properties and of delay topics as kernels write and compare them."""

from __future__ import annotations

from typing import Final

import numpy as np
import numpy.typing as npt

from dueline.message import LEVEL_TOPIC, TIMER_TOPIC
from dueline.schedule import DUE_NAME, REAL_QUEUE_NAME, REAL_TOPIC_NAME

__all__ = ["DELIVER", "DUE", "HEX", "LEVEL", "REAL_QUEUE", "REAL_TOPIC", "TIMER", "UNIQUE"]


def _array(text: str) -> npt.NDArray[np.uint8]:
    return np.frombuffer(text.encode(), dtype=np.uint8)


UNIQUE: Final = _array("UNIQ_KEY\x01")
DELIVER: Final = _array("TIMER_DELIVER_MS\x01")
DUE: Final = _array(f"\x02{DUE_NAME}\x01")
REAL_TOPIC: Final = _array(f"\x02{REAL_TOPIC_NAME}\x01")
REAL_QUEUE: Final = _array(f"\x02{REAL_QUEUE_NAME}\x01")
LEVEL: Final = _array(LEVEL_TOPIC)
TIMER: Final = _array(TIMER_TOPIC)
HEX: Final = _array("0123456789ABCDEF")
