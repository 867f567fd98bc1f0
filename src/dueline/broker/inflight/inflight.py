"""Messages and their receipts: a received message belongs to its consumer, for a while.

    take            messages nobody holds, with a receipt each; invisible to others for a duration
    acknowledge     by receipt: it will not come again, and that is on disk
    extend          by receipt: another duration from now on, and a new receipt
    peek            what a receipt stands for

A consumer that does not acknowledge a message in time gets it again, or another of its group does,
one attempt older; after the last attempt `take` gives it to the caller as *dead*, to be put into
the dead-letter topic and then acknowledged. Messages are never copied for this: they stay where
they stand in their queue, and a lane (see `lane`) remembers what the group holds.

A receipt names the lane, the offset and the serial number of the holding; each new holding makes
the receipts before it invalid. A receipt whose time is over but whose message nobody has received
since still counts: the work was done, and to do it twice helps nobody.

`renew`: a holding that is renewed for as long as its owner is there (`renew_while`), up to
a bound. It happens when its time is over and somebody looks, so it costs nothing before.

Survives a kill at any moment (see `log`). Any thread may call; calls for one group and topic take
turns. Nothing here waits: `watch` says when to look again.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Final

from dueline.broker.consumer_offsets import ConsumerOffsets
from dueline.broker.filters import EVERYTHING, Filter
from dueline.broker.inflight.holding import Ack, Held, Holding, Outcomes, Taken
from dueline.broker.inflight.lane import RETRY_LANE, Entry, Lane
from dueline.broker.inflight.lane_set import LaneSet, QueueReader
from dueline.broker.inflight.lanes import Lanes
from dueline.broker.inflight.log import Done, LaneName, ReceiptLog, finish, hold
from dueline.broker.inflight.receipt import InvalidReceipt, Receipt, receipt_text
from dueline.broker.inflight.taking import Take
from dueline.clock import Clock
from dueline.errors import BrokerError, NotFound
from dueline.store.files import Files

__all__ = ["InFlight"]

SIZE_BYTES_MAX: Final = 4 << 20
"""Of one call of `take`: an answer has to fit into a frame, and into memory many times over."""


class InFlight:
    """Everything that groups hold."""

    def __init__(  # noqa: PLR0913 - what it stands on, by keyword
        self,
        path: Path,
        *,
        files: Files,
        store: QueueReader,
        clock: Clock,
        offsets: ConsumerOffsets | None = None,
        is_synced: bool = True,
    ) -> None:
        """Open or create the file of receipts at `path`.

        Args:
            offsets: where groups stood that used another protocol; it is told how far they are.
        """
        self._clock = clock
        self._log = ReceiptLog(path, files, clock, is_synced=is_synced)
        self._lanes = Lanes(self._log, store, offsets)
        self._presences: list[Callable[[str], bool]] = []
        if offsets is not None:
            offsets.on_reset(self._lanes.reset)

    # The file

    def on_gathered(self, callback: Callable[[], None]) -> None:
        """Call when there is something to flush."""
        self._log.on_gathered(callback)

    def flush(self) -> None:
        """Write what has gathered; answers those who wait for it."""
        self._log.flush(self._lanes.state)

    def close(self) -> None:
        self._log.close(self._lanes.state)

    def forget(self, group: str) -> None:
        """A group is deleted: what it holds is free, and its receipts are void."""
        self._lanes.forget(group)

    # Receiving

    def renew_while(self, is_present: Callable[[str], bool]) -> None:
        """Renew what an owner holds while this says that it is there; each door knows its own."""
        self._presences.append(is_present)

    def _is_present(self, owner: str) -> bool:
        return any(is_present(owner) for is_present in self._presences)

    def take(  # noqa: PLR0913 - from where, and keyword-only how
        self,
        group: str,
        topic: str,
        queue_ids: Sequence[int],
        *,
        count_max: int,
        holding: Holding,
        wanted: Filter = EVERYTHING,
        size_bytes_max: int = SIZE_BYTES_MAX,
        retry_queue_ids: Sequence[int] = (),
    ) -> Taken:
        """Take up to `count_max` messages that nobody holds: first what comes again, then new ones.

        Args:
            size_bytes_max: of all records together; the first one is taken however large it is.
            retry_queue_ids: queues of the group's retry topic, for messages of this topic that
                clients of the other protocol have refused.

        Raises:
            LimitExceeded: too many groups and queues, or too much is held and not finished.
            Unavailable, StoreClosed: receipts cannot be written.
        """
        lane_set = self._lanes.of(group, topic)
        with lane_set.lock:
            ids = [RETRY_LANE | queue_id for queue_id in retry_queue_ids]
            ids += lane_set.next_turn(queue_ids)
            lanes = [self._lanes.lane(lane_set, queue_id) for queue_id in ids]
            self._lanes.follow(lane_set, lanes)
            take = Take(
                lane_set=lane_set,
                holding=holding,
                wanted=wanted,
                count_max=count_max,
                size_bytes_max=size_bytes_max,
                now_ms=self._clock.now_ms(),
                is_present=self._is_present,
                messages=[],
                dead=[],
                changes=[],
            )
            try:
                for lane in lanes:
                    take.again(lane)
                for lane in lanes:
                    take.new(lane)
                    if take.others:
                        self._lanes.make_for_others(lane_set, lane, take.others)
                        take.others.clear()
            finally:
                if take.changes:
                    self._log.append(take.changes)
            if not take.messages and not take.dead:
                self._lanes.check_room()
            self._lanes.publish(lane_set, lanes)
        return Taken(messages=take.messages, dead=take.dead)

    def next_visible_ms(self, group: str, topic: str) -> int | None:
        """When the next message that is held now may come again."""
        lane_set = self._lanes.of(group, topic)
        with lane_set.lock:
            times = [lane.next_visible_ms() for lane in list(lane_set.lanes.values())]
        return min((time for time in times if time is not None), default=None)

    def watch(self, group: str, topic: str, wake: Callable[[], None]) -> Callable[[], None]:
        """Call `wake` whenever a message of the group may be received sooner than was said.

        Returns:
            A function that ends it.
        """
        watchers = self._lanes.of(group, topic).watchers
        watchers.add(wake)
        return lambda: watchers.discard(wake)

    # Receipts

    def acknowledge(self, group: str, topic: str, receipt: str, done: Done | None) -> None:
        """Acknowledge; `done` is called when it is on disk, or with what went wrong.

        Raises:
            InvalidReceipt: not ours, or replaced; `done` is not called.
            Unavailable, StoreClosed: it cannot be written; `done` is not called.
        """
        lane_set, lane, offset, serial = self._parse(group, topic, receipt)
        with lane_set.lock:
            entry = lane.entries.get(offset)
            if entry is None:
                if offset >= lane.cursor:
                    raise InvalidReceipt("receipt: expected one of this store, found another's")
                # Done before; who asks again wants to be sure.
                self._log.append((), done)
                return
            _check_serial(entry, serial)
            freed = lane.finish(offset)
            self._log.append([finish(lane, offset)], done)
            self._lanes.publish(lane_set, (lane,))
        if freed is not None:
            lane_set.wake()

    def acknowledge_all(self, acks: Sequence[Ack], done: Callable[[Outcomes], None]) -> None:
        """Acknowledge many; `done` gets an outcome for each when all are on disk."""
        outcomes: Outcomes = []
        for ack in acks:
            try:
                self.acknowledge(*ack, None)
            except BrokerError as error:
                outcomes.append(error)
            else:
                outcomes.append(None)

        def written(error: BaseException | None) -> None:
            done([outcome or error for outcome in outcomes])

        if None not in outcomes:
            done(outcomes)
            return
        try:
            # Behind them all in the file: when this is on disk, they are.
            self._log.append((), written)
        except BrokerError as error:
            written(error)

    def extend(
        self, group: str, topic: str, receipt: str, invisible_ms: Callable[[int], int] | int
    ) -> str:
        """Hold for another duration from now on; returns the new receipt.

        Args:
            invisible_ms: the duration, or a function that finds it by the attempt's number.

        Raises:
            InvalidReceipt: not ours, replaced, or of a message that is done.
        """
        lane_set, lane, offset, serial = self._parse(group, topic, receipt)
        with lane_set.lock:
            entry = lane.entries.get(offset)
            if entry is None:
                raise InvalidReceipt("receipt: expected a message that is not done, found one")
            _check_serial(entry, serial)
            duration = (
                invisible_ms if isinstance(invisible_ms, int) else invisible_ms(entry.attempt)
            )
            lane.hold(
                offset,
                entry._replace(
                    visible_ms=self._clock.now_ms() + duration,
                    serial=entry.serial + 1,
                    renew_until_ms=0,
                ),
            )
            self._log.append([hold(lane, offset)])
            receipt = lane_set.receipt(lane, offset)
        lane_set.wake()
        return receipt

    def peek(self, group: str, topic: str, receipt: str) -> Held:
        """The message that a receipt stands for.

        Raises:
            InvalidReceipt: as with `extend`.
            NotFound: its record is gone.
        """
        lane_set, lane, offset, serial = self._parse(group, topic, receipt)
        with lane_set.lock:
            entry = lane.entries.get(offset)
            if entry is None:
                raise InvalidReceipt("receipt: expected a message that is not done, found one")
            _check_serial(entry, serial)
            data = lane_set.read_one(lane, offset)
            if data is None:
                raise NotFound("message: expected its record, found that retention has deleted it")
            return lane_set.held(lane, offset, data)

    def give_back(self, group: str, topic: str, receipts: Sequence[str]) -> None:
        """Taken for nobody: visible again at once, and not counted as an attempt."""
        for receipt in receipts:
            lane_set, lane, offset, serial = self._parse(group, topic, receipt)
            with lane_set.lock:
                entry = lane.entries.get(offset)
                if entry is None or entry.serial != serial:
                    continue
                returned = Entry(
                    attempt=entry.attempt - 1,
                    visible_ms=self._clock.now_ms(),
                    serial=entry.serial + 1,
                    message_group=entry.message_group,
                )
                lane.hold(offset, returned)
                self._log.append([hold(lane, offset)])
            lane_set.wake()

    def release(self, owner: str) -> int:
        """An owner has gone: what it held and would have renewed comes again now."""
        count = 0
        for lane_set in self._lanes.all():
            with lane_set.lock:
                for lane in list(lane_set.lanes.values()):
                    count += self._release(lane, owner)
            lane_set.wake()
        return count

    def _release(self, lane: Lane, owner: str) -> int:
        offsets = [
            offset
            for offset, entry in lane.entries.items()
            if entry.owner == owner and entry.renew_until_ms
        ]
        for offset in offsets:
            entry = lane.entries[offset]
            # The serial stays: the owner may have finished it and its word be on the way.
            lane.hold(
                offset, entry._replace(visible_ms=self._clock.now_ms(), owner="", renew_until_ms=0)
            )
        if offsets:
            self._log.append([hold(lane, offset) for offset in offsets])
        return len(offsets)

    def receipt(self, group: str, topic: str, *, queue_id: int, offset: int, serial: int) -> str:
        """The receipt of a holding, for clients that name it by queue, offset and serial number.

        Raises:
            InvalidReceipt: the group has received nothing from this queue.
        """
        lane = self._lanes.find_by_queue(group, topic, queue_id)
        if lane is None or not 0 <= serial < 1 << 32 or not 0 <= offset < 1 << 62:
            raise InvalidReceipt(
                f"receipt: expected a message that {group} has received from {topic}, found "
                f"queue {queue_id}, offset {offset}, number {serial}"
            )
        return receipt_text(self._log.epoch, lane.number, offset, serial)

    def held_count(self, group: str, topic: str) -> int:
        """How many messages the group holds, parked ones included."""
        lane_set = self._lanes.known(group, topic)
        if lane_set is None:
            return 0
        with lane_set.lock:
            return sum(len(lane.entries) for lane in list(lane_set.lanes.values()))

    # Inside

    def _parse(self, group: str, topic: str, receipt: str) -> tuple[LaneSet, Lane, int, int]:
        parsed = Receipt.decode(receipt)
        found = self._lanes.find(parsed.lane) if parsed.epoch == self._log.epoch else None
        if found is None or found[0].name != LaneName(group=group, topic=topic):
            raise InvalidReceipt(
                "receipt: expected one of this store, group and topic, found another's"
            )
        return *found, parsed.offset, parsed.serial


def _check_serial(entry: Entry, serial: int) -> None:
    if entry.serial != serial:
        raise InvalidReceipt(
            f"receipt: expected the newest ({entry.serial}), found {serial}; the message was "
            "received again or its duration changed since"
        )
