"""Waiting for what must come: the only way tests let time pass."""

import time
from collections.abc import Callable
from typing import TypeVar

PATIENCE_S = 400
"""What has not come by then never comes: far more than a machine needs that others use too."""

_T = TypeVar("_T")


def wait_until(condition: Callable[[], _T | None], what: str) -> _T:
    """What `condition` returns once it is true; asks again every few milliseconds.

    Raises:
        TimeoutError: it never was; `what` says what was waited for.
    """
    end_s = time.monotonic() + PATIENCE_S
    while not (found := condition()):
        if time.monotonic() > end_s:
            raise TimeoutError(f"{what}: not within {PATIENCE_S:g} s")
        time.sleep(0.01)
    return found
