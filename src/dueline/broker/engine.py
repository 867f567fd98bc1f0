"""The verbs that every protocol offers, over one store and one clock.

    pull          read a queue; if there is nothing yet, be woken when there is
    figures       for people and monitors

The engine reacts to calls and starts no threads. Delivering is between the pipeline and the store.
Any thread may call any verb.

Errors are `dueline.errors`; each protocol turns them into its own codes.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from dueline.broker.acceptance import Acceptance
from dueline.broker.figures import Figures, Meter
from dueline.broker.watches import Wake, Watch, Watches
from dueline.store import ReadResult, ReadStatus, Store
from dueline.store.reading import Accept

__all__ = ["Engine", "Pulled"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Pulled:
    """What was read. With a `watch` nothing was, and the reader will be woken."""

    result: ReadResult
    watch: Watch | None = None


class Engine:
    """One store's verbs."""

    def __init__(self, store: Store) -> None:
        self.store: Final = store
        self.clock: Final = store.clock
        self.acceptance: Final = Acceptance()
        self._watches = Watches()
        store.observe(self._watches)
        self.meter: Final = Meter(store, self._watches)

    def refuse(self) -> None:
        """Accept nothing more and let waiting readers go; what was accepted is still answered."""
        self.acceptance.end()
        self._watches.wake_all()

    @property
    def is_accepting(self) -> bool:
        return self.acceptance.is_open

    # Reading

    def pull(  # noqa: PLR0913 - a queue, a place and bounds, mostly keyword-only
        self,
        topic: str,
        queue_id: int,
        offset: int,
        *,
        count_max: int = 32,
        size_bytes_max: int = 256 * 1024,
        accept: Accept | None = None,
        wake: Wake | None = None,
    ) -> Pulled:
        """Read from `offset` on. With `wake`, a reader at the end is called when there is more."""

        def read() -> ReadResult:
            return self.store.read(
                topic,
                queue_id,
                offset,
                count_max=count_max,
                size_bytes_max=size_bytes_max,
                accept=accept,
            )

        result = read()
        if wake is None or result.status is not ReadStatus.AT_END or not self.acceptance.is_open:
            return Pulled(result=result)
        watch = self.watch(topic, queue_id, wake)
        # What became visible between the read and the watch has woken nobody.
        result = read()
        if result.status is not ReadStatus.AT_END:
            watch.cancel()
            return Pulled(result=result)
        return Pulled(result=result, watch=watch)

    def watch(self, topic: str, queue_id: int | None, wake: Wake) -> Watch:
        """Call `wake` once when a queue (None: any of the topic) has grown; then read again."""
        watch = self._watches.add(topic, queue_id, wake)
        if not self.acceptance.is_open:  # since a moment ago, perhaps: nobody may be left waiting
            watch.cancel()
            wake()
        return watch

    # Figures

    def figures(self) -> Figures:
        return self.meter.figures()
