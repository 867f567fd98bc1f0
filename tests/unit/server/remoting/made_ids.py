"""Ids that the broker makes, left out of a comparison of two brokers.

They are counted, also those of messages that are then refused, and those are looked at sooner or
later than what comes before them is written.
"""

from __future__ import annotations

import base64
import re
from typing import Final

PREFIX: Final = "0A" * 10
"""What ids begin with where a test says so."""
_MADE_ID: Final = re.compile(b"%b[0-9A-F]{12}" % PREFIX.encode())


def said(name: str, text: str) -> bytes:
    """A field of an answer."""
    return without_made_ids(
        base64.urlsafe_b64decode(text) if name == "recallHandle" else text.encode()
    )


def without_made_ids(data: bytes) -> bytes:
    return _MADE_ID.sub(b"made", data)
