"""The methods of the HTTP API, `/api/v1`, one module for each noun."""

from __future__ import annotations

from typing import Final

from dueline.web.api import figures, groups, history, messages, pending, topics
from dueline.web.endpoint import Endpoint

__all__ = ["ENDPOINTS"]

ENDPOINTS: Final[tuple[Endpoint, ...]] = (
    *figures.ENDPOINTS,
    *pending.ENDPOINTS,
    *messages.ENDPOINTS,
    *topics.ENDPOINTS,
    *groups.ENDPOINTS,
    *history.ENDPOINTS,
)
