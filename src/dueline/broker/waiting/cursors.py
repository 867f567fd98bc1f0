"""Places where a list goes on, as text that means nothing to others.

>>> packed("1700000000000.7")
'MTcwMDAwMDAwMDAwMC43'
>>> unpacked("MTcwMDAwMDAwMDAwMC43")
'1700000000000.7'
"""

from __future__ import annotations

import base64
import binascii
from typing import Final

from dueline.errors import InvalidRequest

__all__ = ["foreign", "packed", "unpacked"]

LENGTH_MAX: Final = 1_000


def packed(plain: str) -> str:
    """A place as a cursor."""
    return base64.urlsafe_b64encode(plain.encode()).decode().rstrip("=")


def unpacked(text: str) -> str:
    """The place that a cursor names.

    Raises:
        InvalidRequest: it is none that a broker has given out.
    """
    try:
        padding = "=" * (-len(text) % 4)
        if len(text) <= LENGTH_MAX:
            return base64.b64decode(text + padding, altchars=b"-_", validate=True).decode()
    except (binascii.Error, ValueError):
        pass
    raise foreign(text)


def foreign(text: str) -> InvalidRequest:
    """A cursor is not one of ours."""
    return InvalidRequest(
        f"cursor: expected one that an earlier answer had, found {text[:100]!r}", field="cursor"
    )
