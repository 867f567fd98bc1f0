"""Everything that a messaging protocol needs beside the engine, in one place.

    topics            which topics there are                      topics.json
    group_table       what consumer groups may do                 subscriptionGroup.json
    offsets           how far they have read                      consumerOffset.json
    groups            who is here, and what they subscribe to     memory: heartbeats
    locks             who consumes which queue in order           memory: renewals
    transactions      half messages that wait for a decision      read from the store
    asking            questions about them to their producers     memory
    inflight          received and not acknowledged yet           receipts.log
    delayed           messages that were accepted and are not due the store
    acceptance        whether anything new is taken               memory
    receiving         consumers that receive and acknowledge      memory

Both protocols share one `Broker`, so a message that is sent with one is received with the other.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from dueline.broker.asking import Asking
from dueline.broker.consumer_groups import ConsumerGroups
from dueline.broker.consumer_offsets import ConsumerOffsets
from dueline.broker.delayed import Delayed
from dueline.broker.engine import Engine
from dueline.broker.group_configs import GroupTable
from dueline.broker.groups import Groups
from dueline.broker.inflight import InFlight, Receiving
from dueline.broker.locks import QueueLocks
from dueline.broker.pipeline import Pipeline, PipelineStatus
from dueline.broker.retries import RetryOptions
from dueline.broker.topics import TopicOptions, Topics
from dueline.broker.transactions import TransactionOptions, Transactions
from dueline.broker.writing import Done, Put
from dueline.message import Message
from dueline.store import Files

__all__ = ["Broker", "BrokerOptions"]


@dataclass(frozen=True, slots=True, kw_only=True)
class BrokerOptions:
    """What operators may choose."""

    broker_name: str = "dueline"
    cluster_name: str = "DefaultCluster"
    topics: TopicOptions = field(default_factory=TopicOptions)
    auto_create_groups: bool = True
    transactions: TransactionOptions = field(default_factory=TransactionOptions)
    retries: RetryOptions = field(default_factory=RetryOptions)


class Broker:
    """The state that all protocols share."""

    def __init__(  # noqa: PLR0913 - what it stands on, mostly keyword-only
        self,
        engine: Engine,
        offsets: ConsumerOffsets,
        *,
        submit: Put,
        files: Files | None = None,
        options: BrokerOptions | None = None,
        receipts_path: Path | None = None,
        pipeline_status: PipelineStatus | None = None,
    ) -> None:
        """Open what is on disk; `close` lets go of it.

        Args:
            receipts_path: the file of what is in flight; by default beside the topics.

        Raises:
            InvalidRequest: a file of receipts that is none.
        """
        self.options: Final = options or BrokerOptions()
        self.engine: Final = engine
        self.store: Final = engine.store
        self.clock: Final = engine.clock
        self.acceptance: Final = engine.acceptance
        self._submit = submit
        self.offsets: Final = offsets
        files, clock, store = files or Files(), self.clock, self.store
        folder = store.path / "config"
        self.topics: Final = Topics(
            folder / "topics.json", files, clock=clock, options=self.options.topics, stored=store
        )
        self.group_table: Final = GroupTable(
            folder / "subscriptionGroup.json",
            files,
            clock=clock,
            auto_create=self.options.auto_create_groups,
        )
        self.groups: Final = Groups()
        self.locks: Final = QueueLocks(self.clock)
        self.transactions: Final = Transactions(
            self.store, offsets, self.put, self.options.transactions
        )
        self.asking: Final = Asking(self.transactions)
        self.delayed: Final = Delayed(
            self.store, self.acceptance, self.topics, broker_name=self.options.broker_name
        )
        self.pipeline: Final = Pipeline(self.store, self.delayed, status=pipeline_status)
        self.inflight: Final = InFlight(
            receipts_path or folder / "receipts.log",
            files=files,
            store=engine.store,
            clock=self.clock,
            offsets=offsets,
            is_synced=engine.store.options.flush == "sync",
        )
        self.consumer_groups: Final = ConsumerGroups(
            self.group_table, self.topics, offsets, self.inflight
        )
        self.receiving: Final = Receiving(
            engine,
            self.inflight,
            put=self.put,
            topics=self.topics,
            groups=self.group_table,
            retries=self.options.retries,
        )

    def put(self, messages: Sequence[Message], done: Done) -> None:
        """Hand messages to the writer as they are; `done` is called from its thread.

        Raises:
            Unavailable: the broker is stopping; `done` is not called.
            LimitExceeded: too much waits for the disk; `done` is not called.
        """
        self.acceptance.check()
        self._submit(messages, done)

    def save(self) -> None:
        """Make topics and groups durable; blocks for the disk."""
        self.topics.save()
        self.group_table.save()

    def close(self) -> None:
        """Write what has gathered and let go of the files; nobody may be served any more."""
        self.inflight.close()
