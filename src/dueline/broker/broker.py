"""Everything that a messaging protocol needs, in one place.

    topics            which topics there are                      topics.json
    group_table       what consumer groups may do                 subscriptionGroup.json
    offsets           how far they have read                      consumerOffset.json
    groups            who is here, and what they subscribe to     memory: heartbeats
    locks             who consumes which queue in order           memory: renewals
    transactions      half messages that wait for a decision      read from the store
    asking            questions about them to their producers     memory
    inflight          received and not acknowledged yet           receipts.log
    delayed           messages that were accepted and are not due the store
    access            who may do what                             users.json
    jobs              long changes of them                        jobs/
    rules             of topics: pause, release rate, expiry      road.json
    acceptance        whether anything new is taken               memory
    receiving         consumers that receive and acknowledge      memory
    reading           pulls, who waits for what, and traces       memory: waiting readers
    progress          how far groups are                          the offsets
    assignments       which client gets which queue               memory: modes
    meter             figures for people and monitors             memory
    directory         topics and groups, as people look them up   memory
    dead_letters      what groups could not handle                the store
    inspecting        everything that is known of one message     the store
    measures          more of them, and the last day              memory

Both protocols share one `Broker`, so a message that is sent with one is received with the other.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from dueline.broker.acceptance import Acceptance
from dueline.broker.access import Access, Management, Trail
from dueline.broker.asking import Asking
from dueline.broker.assignments import Assignments
from dueline.broker.consumer_groups import ConsumerGroups
from dueline.broker.consumer_offsets import ConsumerOffsets
from dueline.broker.dead_letters import DeadLetters
from dueline.broker.delayed import Delayed
from dueline.broker.directory import Directory
from dueline.broker.figures import Meter
from dueline.broker.group_configs import GroupTable
from dueline.broker.groups import Groups
from dueline.broker.inflight import InFlight, Receiving
from dueline.broker.inspecting import Inspecting
from dueline.broker.locks import QueueLocks
from dueline.broker.measures import Measures
from dueline.broker.pipeline import Pipeline, PipelineStatus
from dueline.broker.progress import Progress
from dueline.broker.quotas import Quotas
from dueline.broker.reading import Reading
from dueline.broker.retries import RetryOptions
from dueline.broker.topics import TopicOptions, Topics
from dueline.broker.transactions import TransactionOptions, Transactions
from dueline.broker.waiting.jobs import Jobs
from dueline.broker.waiting.rules import TopicRules
from dueline.broker.writing import Done, Put, PutRows, RowsDone
from dueline.message import Message
from dueline.message_rows import MessageRows
from dueline.store import Files, Store, StoreOptions

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
        store: Store,
        offsets: ConsumerOffsets,
        *,
        submit: Put,
        submit_rows: PutRows | None = None,
        files: Files | None = None,
        options: BrokerOptions | None = None,
        receipts_path: Path | None = None,
        pipeline_status: PipelineStatus | None = None,
        access: Access | None = None,
        trail: Trail | None = None,
        quotas: Quotas | None = None,
    ) -> None:
        """Open what is on disk; `close` lets go of it.

        Args:
            receipts_path: the file of what is in flight; by default beside the topics.
            access: by default everybody may do everything.
            trail: by default beside the topics.
            quotas: by default there are none.

        Raises:
            InvalidRequest: a file of receipts that is none.
        """
        self.options: Final = options or BrokerOptions()
        self.store: Final = store
        self.clock: Final = store.clock
        self.acceptance: Final = Acceptance()
        self._submit, self._submit_rows = submit, submit_rows
        self.offsets: Final = offsets
        files, folder = files or Files(), store.path / "config"
        self.access: Final = access or Access(folder, files, clock=self.clock)
        self.users: Final = Management(self.access, self.clock)
        self.trail: Final = trail or Trail(folder, files, clock=self.clock)
        path, path_of_groups = folder / "topics.json", folder / "subscriptionGroup.json"
        self.quotas: Final = quotas or Quotas()
        self.topics: Final = Topics(
            path, files, clock=self.clock, options=self.options.topics, stored=store
        )
        self.group_table: Final = GroupTable(
            path_of_groups, files, clock=self.clock, auto_create=self.options.auto_create_groups
        )
        self.groups: Final = Groups()
        self.assignments: Final = Assignments(self.topics, self.groups, self.group_table)
        self.locks: Final = QueueLocks(self.clock)
        self.transactions: Final = Transactions(store, offsets, self.put, self.options.transactions)
        self.asking: Final = Asking(self.transactions)
        name = self.options.broker_name
        self.delayed: Final = Delayed(
            store, self.acceptance, self.topics, broker_name=name, quotas=self.quotas
        )
        self.jobs: Final = Jobs(store, store.path / "jobs", files)
        self.rules: Final = TopicRules(store, offsets)
        self.pipeline: Final = Pipeline(store, self.delayed, status=pipeline_status)
        self.inflight: Final = self._open_receipts(receipts_path or folder / "receipts.log", files)
        self.consumer_groups: Final = ConsumerGroups(
            self.group_table, self.topics, offsets, self.inflight
        )
        self.reading: Final = Reading(
            store, self.acceptance, self.topics, self.group_table, self.groups
        )
        self.progress: Final = Progress(
            offsets, self.reading, self.topics, self.groups, self.consumer_groups
        )
        self.meter: Final = Meter(store, self.reading.watches)
        self.measures: Final = self._measures(files)
        self.receiving: Final = self._receiving()

    def _receiving(self) -> Receiving:
        return Receiving(
            self.reading,
            self.inflight,
            put=self.put,
            topics=self.topics,
            groups=self.group_table,
            retries=self.options.retries,
        )

    def _open_receipts(self, path: Path, files: Files) -> InFlight:
        return InFlight(
            path,
            files=files,
            store=self.store,
            clock=self.clock,
            offsets=self.offsets,
            is_synced=self.store.options.flush == "sync",
        )

    def _measures(self, files: Files) -> Measures:
        return Measures(
            self.store,
            files=files,
            topics=self.topics,
            offsets=self.offsets,
            groups=self.groups,
            reading=self.reading,
            inflight=self.inflight,
        )

    # What people ask now and then

    @property
    def directory(self) -> Directory:
        return Directory(
            self.topics,
            self.groups,
            self.group_table,
            reading=self.reading,
            progress=self.progress,
            measures=self.measures,
        )

    @property
    def dead_letters(self) -> DeadLetters:
        return DeadLetters(self.reading, self.group_table)

    @property
    def inspecting(self) -> Inspecting:
        return Inspecting(self.delayed, self.reading, self.offsets)

    @property
    def store_options(self) -> StoreOptions:
        """What the operator has chosen for the store, and what it may hold."""
        return self.store.options

    @property
    def folder(self) -> Path:
        """Where the store is."""
        return self.store.path

    def refuse(self) -> None:
        """Accept nothing more and let waiting readers go; what was accepted is still answered."""
        self.acceptance.end()
        self.reading.watches.wake_all()

    def put(self, messages: Sequence[Message], done: Done) -> None:
        """Hand messages to the writer as they are; `done` is called by whoever writes them.

        Raises:
            Unavailable: the broker is stopping; `done` is not called.
            LimitExceeded: too much waits for the disk; `done` is not called.
        """
        self.acceptance.check()
        self._submit(messages, done)

    @property
    def has_rows(self) -> bool:
        """Is there a writer that takes rows?"""
        return self._submit_rows is not None

    def put_rows(self, messages: MessageRows, done: RowsDone) -> None:
        """The same for rows of messages.

        Raises:
            Unavailable, LimitExceeded: as `put`.
        """
        self.acceptance.check()
        assert self._submit_rows is not None
        self._submit_rows(messages, done)

    def save(self) -> None:
        """Make topics and groups durable; blocks for the disk."""
        self.topics.save()
        self.group_table.save()

    def close(self) -> None:
        """Write what has gathered and let go of the files; nobody may be served any more."""
        self.inflight.close()
