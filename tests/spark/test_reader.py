"""The due source's driver side, without Spark: when there is a batch, and when there is none."""

from collections.abc import Iterator
from typing import Any

import pytest
from pyspark.sql.streaming.datasource import ReadAllAvailable, ReadMaxFiles, ReadMaxRows
from tests.spark.conftest import START_MS, Broker, MakeBroker

from dueline.errors import InvalidRequest, Unavailable
from dueline.spark.options import Options
from dueline.spark.reader import DueReader, EmptyPartition, SlicePartition

LIMIT = ReadMaxRows(1_000)


def reader_of(*brokers: Broker, **options: Any) -> DueReader:
    addresses = tuple(broker.address for broker in brokers)
    plain = {"wait_ms": 0, "slice_row_count_min": 1, **options}
    return DueReader(Options(brokers=addresses, **plain))


@pytest.fixture
def reader(broker: Broker) -> Iterator[DueReader]:
    reader = reader_of(broker)
    yield reader
    reader.stop()


def test_an_idle_broker_gives_the_start_again(broker: Broker, reader: DueReader) -> None:
    start = reader.initialOffset()

    assert reader.latestOffset(start, LIMIT) == start
    broker.put(b"later", delay_ms=60_000)
    assert reader.latestOffset(start, LIMIT) == start


def test_something_to_do_is_another_offset_until_it_is_done(
    broker: Broker, reader: DueReader
) -> None:
    broker.put(b"a", delay_ms=1_000)
    start = reader.initialOffset()

    first = reader.latestOffset(start, LIMIT)
    again = reader.latestOffset(first, LIMIT)

    assert len({str(offset) for offset in (start, first, again)}) == 3
    broker.store.cancel_seqs(
        broker.store.window(broker.store.next_corner(until_ms=1 << 60, row_count_max=10)).units.seq
    )
    assert reader.latestOffset(again, LIMIT) == again


def test_the_limit_is_sparks(broker: Broker, reader: DueReader) -> None:
    for number in range(5):
        broker.put(b"a", delay_ms=1_000 + number)

    few = reader.latestOffset({}, ReadMaxRows(2))[broker.address]
    everything = reader.latestOffset({}, ReadAllAvailable())[broker.address]

    assert (few["due_ms"], few["seq"]) == (START_MS + 1_001, 1)
    assert everything["due_ms"] == START_MS + 5_000
    assert reader.getDefaultReadLimit() == ReadMaxRows(200_000)
    with pytest.raises(InvalidRequest, match="read limit"):
        reader.latestOffset({}, ReadMaxFiles(1))


def test_slices_become_partitions(broker: Broker) -> None:
    for _ in range(10):
        broker.put(b"a", delay_ms=1_000)
    reader = reader_of(broker, slice_count_max=3)

    end = reader.latestOffset({}, LIMIT)
    partitions = reader.partitions({}, end)

    assert [type(partition) for partition in partitions] == [SlicePartition] * 3
    assert [
        partition.index for partition in partitions if isinstance(partition, SlicePartition)
    ] == [0, 1, 2]
    reader.stop()


def test_a_batch_without_rows_has_one_task(broker: Broker, reader: DueReader) -> None:
    (partition,) = reader.partitions({}, {})

    assert isinstance(partition, EmptyPartition)
    assert list(reader.read(partition)) == []


@pytest.mark.parametrize(
    "before", [{}, {"due_ms": 1, "seq": 2, "end": 1, "turn": 3}], ids=["new", "known"]
)
def test_keeping_warm_is_a_batch_now_and_then(broker: Broker, before: dict[str, int]) -> None:
    broker.put(b"a", delay_ms=60_000)
    reader = reader_of(broker, keep_warm_ms=0)
    start = {broker.address: before} if before else {}

    end = reader.latestOffset(start, LIMIT)

    assert end[broker.address]["turn"] == before.get("turn", 0) + 1
    assert [type(partition) for partition in reader.partitions(start, end)] == [EmptyPartition]
    reader.stop()


def test_the_first_batch_does_not_wait_for_rows_and_the_next_one_does(broker: Broker) -> None:
    reader = reader_of(broker, keep_warm_ms=3_600_000)

    first = reader.latestOffset({}, LIMIT)

    assert [type(partition) for partition in reader.partitions({}, first)] == [EmptyPartition]
    assert reader.latestOffset(first, LIMIT) == first
    reader.stop()


def test_a_run_to_the_end_does_not_move_its_horizon(broker: Broker, reader: DueReader) -> None:
    reader.prepareForTriggerAvailableNow()
    broker.put(b"inside", delay_ms=4_999)
    assert reader.latestOffset({}, LIMIT) != {}
    broker.store.cancel_seqs(
        broker.store.window(broker.store.next_corner(until_ms=1 << 60, row_count_max=10)).units.seq
    )

    broker.advance(1_000)
    broker.put(b"outside", delay_ms=4_999)

    assert reader.latestOffset({}, LIMIT) == {}


def test_a_shard_that_is_down_is_left_out(make_broker: MakeBroker) -> None:
    one, two = make_broker("one"), make_broker("two")
    one.put(b"a", delay_ms=1_000)
    two.put(b"b", delay_ms=1_000)
    reader = reader_of(one, two)
    both = reader.latestOffset({}, LIMIT)
    two.service.stop()

    alone = reader.latestOffset({}, LIMIT)

    assert set(both) == {one.address, two.address}
    assert set(alone) == {one.address}
    partitions = reader.partitions({}, both)
    assert {part.shard for part in partitions if isinstance(part, SlicePartition)} == {"one"}
    reader.stop()
    two.serve_at(two.address)


def test_without_any_broker_there_is_an_error(broker: Broker, reader: DueReader) -> None:
    broker.service.stop()

    with pytest.raises(Unavailable, match="is it running"):
        reader.latestOffset({}, LIMIT)
    with pytest.raises(Unavailable, match="is it running"):
        reader.prepareForTriggerAvailableNow()

    broker.serve_at(broker.address)


def test_a_shard_that_has_something_is_not_kept_waiting(make_broker: MakeBroker) -> None:
    one, two = make_broker("one"), make_broker("two")
    two.put(b"b", delay_ms=1_000)
    reader = reader_of(one, two, wait_ms=60_000)

    assert set(reader.latestOffset({}, LIMIT)) == {two.address}
    reader.stop()
