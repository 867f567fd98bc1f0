"""The words of the ledger for the outcome of a delayed message: of the broker, page and API."""

from __future__ import annotations

from typing import Final

__all__ = ["ENDED", "OUTCOMES", "WAITING"]

WAITING: Final = ("pending", "carried over")
ENDED: Final = ("cancelled", "moved", "expired", "dropped")
"""Not delivered, and no longer waiting."""

OUTCOMES: Final = (*WAITING, "delivered", *ENDED)
