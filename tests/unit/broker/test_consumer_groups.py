"""Groups are made and deleted in all the tables that know of them."""

from __future__ import annotations

from pathlib import Path

import pytest

from dueline.broker.consumer_groups import ConsumerGroups
from dueline.broker.consumer_offsets import ConsumerOffsets
from dueline.broker.group_configs import GroupConfig, GroupTable
from dueline.broker.inflight import Holding, InFlight
from dueline.broker.topics import Topics
from dueline.errors import InvalidRequest
from dueline.message import Message
from dueline.store import Files, Store, StoreOptions
from dueline.testing import ManualClock

SMALL = StoreOptions(commit_segment_size_bytes=1 << 18, delay_segment_size_bytes=1 << 18)


class World:
    """One broker's tables; opened again, it has what was on disk."""

    def __init__(self, folder: Path) -> None:
        clock, files = ManualClock(1_000_000), Files()
        self.store = Store.open(folder / "store", SMALL, clock=clock, files=files)
        self.table = GroupTable(folder / "groups.json", files, clock=clock)
        self.topics = Topics(folder / "topics.json", files, clock=clock, stored=self.store)
        self.offsets = ConsumerOffsets(folder / "offsets.json", files)
        self.inflight = InFlight(
            folder / "receipts.log",
            files=files,
            store=self.store,
            clock=clock,
            offsets=self.offsets,
        )
        self.groups = ConsumerGroups(self.table, self.topics, self.offsets, self.inflight)

    def close(self) -> None:
        self.inflight.close()
        self.offsets.save()
        self.store.close()


def test_a_group_that_is_used_has_a_configuration_and_a_topic_for_retries(tmp_path: Path) -> None:
    world = World(tmp_path)
    world.groups.configure(GroupConfig(group_name="wide", retry_queue_nums=3))
    world.groups.ensure("g")
    world.groups.ensure("g")
    world.close()

    assert world.topics.find("%RETRY%g").read_queue_nums == 1
    again = World(tmp_path)
    assert again.table.existing("wide").retry_queue_nums == 3
    assert again.topics.find("%RETRY%wide").read_queue_nums == 3
    again.close()


def receive(world: World, group: str) -> list[str]:
    """Receipts of what a group is given."""
    taken = world.inflight.take(group, "t", [0], count_max=9, holding=Holding(invisible_ms=30_000))
    return [each.receipt for each in taken.messages]


def test_a_deleted_group_is_forgotten_with_its_offsets_and_what_it_held(tmp_path: Path) -> None:
    world = World(tmp_path)
    world.store.put_all([Message(topic="t", body=b"%d" % number) for number in range(3)])
    for group in ("gone", "stays"):
        world.groups.ensure(group)
        assert len(receive(world, group)) == 3

    world.groups.delete("gone", with_offsets=True)
    world.close()

    again = World(tmp_path)
    assert again.table.get("gone") is None
    assert list(again.offsets.all()) == [("t", "stays")]
    assert receive(again, "stays") == []
    assert len(receive(again, "gone")) == 3
    again.close()


def test_a_group_may_be_deleted_and_keep_its_place(tmp_path: Path) -> None:
    world = World(tmp_path)
    world.groups.ensure("g")
    world.offsets.set("g", "t", {0: 2})

    world.groups.delete("g", with_offsets=False)

    assert world.table.get("g") is None
    assert world.offsets.get("g", "t") == {0: 2}
    world.close()


def test_the_brokers_own_group_cannot_be_deleted(tmp_path: Path) -> None:
    world = World(tmp_path)
    world.offsets.set("CID_RMQ_SYS_TRANS", "RMQ_SYS_TRANS_HALF_TOPIC", {0: 2})

    with pytest.raises(InvalidRequest, match="the broker's own"):
        world.groups.delete("CID_RMQ_SYS_TRANS", with_offsets=True)

    assert world.offsets.get("CID_RMQ_SYS_TRANS", "RMQ_SYS_TRANS_HALF_TOPIC") == {0: 2}
    world.close()
