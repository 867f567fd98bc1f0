"""Carries messages over without the pipeline: short delays, and all while there is no pipeline.

A thread that sleeps until the store has accepted something that is due soon, the pipeline's status
has changed, or the deputy wants to be called again. Then it lets the shortcut and the deputy do
their work. What comes meanwhile goes together in the next turn.

While the shortcut is closed, whatever is accepted wakes it: a transform may have gone without a
word, and nobody else would notice that the shortcut may open.
"""

from __future__ import annotations

import threading
from typing import Protocol

from dueline.broker import Observer
from dueline.server.threads import OnFailure, Worker

__all__ = ["Courier"]


class Carrying(Protocol):
    """What is asked of the shortcut here."""

    @property
    def is_open(self) -> bool: ...

    @property
    def has_news(self) -> bool: ...

    def carry_over(self) -> int: ...


class StandingIn(Protocol):
    """What is asked of the deputy here."""

    def turn(self) -> float | None: ...

    def rest(self) -> None: ...


class Courier(Observer, Worker):
    """The thread; observes the store, to be awake when something was accepted."""

    def __init__(self, shortcut: Carrying, deputy: StandingIn, *, on_failure: OnFailure) -> None:
        super().__init__("courier", on_failure=on_failure)
        self._shortcut = shortcut
        self._deputy = deputy
        self._news = threading.Event()

    def wake(self) -> None:
        """The pipeline comes or goes, or it is to end. Any thread; returns at once."""
        self._news.set()

    _wake = wake

    def accepted(self, count: int, delayed_count: int, refused_count: int) -> None:
        """Something may be due soon. Any thread; returns at once."""
        if delayed_count and (self._shortcut.has_news or not self._shortcut.is_open):
            self._news.set()

    def rescheduled(self, count: int) -> None:
        if count:
            self._news.set()

    def _run(self) -> None:
        pause_s: float | None = 0.0
        try:
            while not self._stopping.is_set():
                self._news.wait(pause_s)
                self._news.clear()
                # Looked at after the flag is cleared: what comes later sets it again.
                self._shortcut.carry_over()
                pause_s = self._deputy.turn()
        finally:
            self._deputy.rest()
