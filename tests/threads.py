"""Threads that a test has started: servers of other tests in this process may be at work."""

import threading


class Started:
    """Those that were not there at `begin`."""

    def __init__(self) -> None:
        self._before: set[threading.Thread] = set()

    def begin(self) -> None:
        self._before = set(threading.enumerate())

    def named(self, prefix: str) -> list[str]:
        """Their names, as far as they begin so."""
        new = set(threading.enumerate()) - self._before
        return [each.name for each in new if each.name.startswith(prefix)]
