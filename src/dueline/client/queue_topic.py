"""Topics for the queues of task libraries, whose names may have other characters."""

from __future__ import annotations

from urllib.parse import quote

__all__ = ["topic_of"]


def topic_of(queue: str) -> str:
    """Letters, digits, _ and - are kept, others become % and a number.

    >>> topic_of("celery"), topic_of("high.priority")
    ('celery', 'high%2Epriority')
    """
    return quote(queue, safe="").replace(".", "%2E").replace("~", "%7E")
