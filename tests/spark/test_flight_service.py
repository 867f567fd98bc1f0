"""The Flight service over a real store, without Spark: the calls of a micro-batch one by one."""

import threading

import numpy as np
import pyarrow as pa
import pytest
from tests.spark.conftest import START_MS, Broker, next_window
from tests.waiting import PATIENCE_S

from dueline.broker.pipeline import Pipeline, Staging
from dueline.errors import (
    InvalidRequest,
    LimitExceeded,
    NotFound,
    RemoteProtocolError,
    Unavailable,
)
from dueline.flight import FlightClient, protocol
from dueline.flight.access import is_here
from dueline.server.flight import FlightDoor
from dueline.store.files import Files
from dueline.store.log import LogReader
from dueline.store.schema import ROUTE_NAMES, SCHEDULE_SCHEMA, WINDOW_SCHEMA, routed_schema

FAR_MS = 1 << 60


def plan(client: FlightClient, slice_count_max: int = 1) -> protocol.WindowPlan:
    end = next_window(client, until_ms=FAR_MS)
    assert end is not None
    request = protocol.PlanWindow(end=end, slice_count_max=slice_count_max, slice_row_count_min=1)
    return client.call(request, protocol.WindowPlan)


def read(
    client: FlightClient, window: protocol.WindowPlan, index: int = 0, batch: int = 0
) -> pa.Table:
    request = protocol.ReadSlice(
        plan=window.plan, index=index, run="run", batch=batch, units_only=False
    )
    batches = list(client.read(protocol.Ticket(slice=request)))
    return pa.Table.from_batches(batches, schema=WINDOW_SCHEMA)


def stage(client: FlightClient, token: str, rows: pa.Table) -> None:
    routed = rows.select(ROUTE_NAMES).cast(routed_schema())
    assert client.stage(token, routed_schema(), routed.to_batches()) == rows.num_rows


def commit(
    client: FlightClient, *tokens: str, batch: int = 0, is_transformed: bool = False
) -> protocol.Committed:
    request = protocol.CommitWindow(
        run="run", batch=batch, tokens=tokens, is_transformed=is_transformed
    )
    return client.call(request, protocol.Committed)


# --- what is due ----------------------------------------------------------------------------------


def test_nothing_to_do_is_no_window(broker: Broker) -> None:
    broker.put(b"later", delay_ms=60_000)

    with broker.client() as client:
        assert next_window(client) is None


def test_a_window_begins_with_what_is_due_soon_and_takes_the_rest_along(broker: Broker) -> None:
    broker.put(b"soon", delay_ms=1_000)
    broker.put(b"along", delay_ms=4_000)
    broker.put(b"later", delay_ms=6_000)

    with broker.client() as client:
        end = next_window(client, lead_ms=1_000)

    assert end is not None
    assert (end.due_ms, end.end) == (START_MS + 5_000, 3)


def test_what_is_not_urgent_waits_for_more(broker: Broker) -> None:
    broker.put(b"not yet", delay_ms=4_000)

    with broker.client() as client:
        assert next_window(client, lead_ms=1_000) is None
        broker.advance(3_000)
        assert next_window(client, lead_ms=1_000) is not None


def test_a_full_window_does_not_wait(broker: Broker) -> None:
    for number in range(3):
        broker.put(b"%d" % number, delay_ms=4_000)

    with broker.client() as client:
        assert next_window(client, lead_ms=1_000, row_count_max=3) is None
        end = next_window(client, lead_ms=1_000, row_count_max=2)

    assert end is not None
    assert (end.due_ms, end.seq) == (START_MS + 4_000, 1)


def test_a_question_waits_for_a_message_with_a_short_delay(broker: Broker) -> None:
    found: list[protocol.WindowCorner | None] = []

    def ask() -> None:
        with broker.client() as client:
            found.append(next_window(client, wait_ms=60_000))

    thread = threading.Thread(target=ask)
    thread.start()
    broker.put(b"short", delay_ms=10)
    thread.join(timeout=PATIENCE_S)

    assert len(found) == 1
    assert found[0] is not None


def test_stopping_the_service_ends_questions_that_wait(broker: Broker) -> None:
    service = FlightDoor(Pipeline(broker.store), shard="other")
    service.start()
    answers: list[object] = []

    def ask() -> None:
        with FlightClient(f"127.0.0.1:{service.port}") as client:
            try:
                answers.append(next_window(client, wait_ms=60_000))
            except Unavailable as error:
                answers.append(error)

    thread = threading.Thread(target=ask)
    thread.start()
    service.stop()
    thread.join(timeout=PATIENCE_S)

    assert len(answers) == 1


@pytest.mark.parametrize(
    "given", [{"row_count_max": 0}, {"wait_ms": -1}, {"ahead_ms": 100_000_000}]
)
def test_questions_that_make_no_sense_are_refused(broker: Broker, given: dict[str, int]) -> None:
    with broker.client() as client, pytest.raises(InvalidRequest, match=next(iter(given))):
        next_window(client, **given)


# --- slices ---------------------------------------------------------------------------------------


def test_slices_are_the_window_in_due_order(broker: Broker) -> None:
    for number in range(10):
        broker.put(b"%d" % number, delay_ms=10_000 - number)

    with broker.client() as client:
        window = plan(client, slice_count_max=3)
        parts = [read(client, window, index) for index in range(len(window.slices))]

    assert [part.num_rows for part in parts] == [each.row_count for each in window.slices]
    assert len(parts) == 3
    origins = [origin for part in parts for origin in part["origin"].to_pylist()]
    assert origins == list(range(9, -1, -1))
    stored = broker.store._core.timeline.open.units().size
    assert sum(each.size_bytes for each in window.slices) == int(stored.sum())


def test_units_point_at_the_same_records(broker: Broker) -> None:
    for number in range(10):
        broker.put(b"%d" % number, delay_ms=1_000)

    with broker.client() as client:
        window = plan(client)
        request = protocol.ReadSlice(plan=window.plan, index=0, run="run", batch=0, units_only=True)
        units = next(iter(client.read(protocol.Ticket(slice=request))))
        sent = read(client, window)
        files = client.describe().files

    assert files is not None
    assert is_here(files)
    reader = LogReader(Files(), broker.path / "delaylog", files.segment_size_bytes)
    records = reader.gather(units["position"].to_numpy(), units["size"].to_numpy())
    assert records.to_pylist() == sent["record"].to_pylist()
    assert units.schema.equals(protocol.UNIT_SCHEMA)


def test_files_elsewhere_are_not_here(broker: Broker) -> None:
    with broker.client() as client:
        files = client.describe().files
    assert files is not None
    plain = files.to_json()

    for change in ({"machine": "x"}, {"folder_id": "0:0"}, {"folder": "/nowhere"}):
        assert not is_here(protocol.FileAccess.from_json({**plain, **change}))


def test_a_plan_belongs_to_one_batch(broker: Broker) -> None:
    broker.put(b"a", delay_ms=1_000)

    with broker.client() as client:
        window = plan(client)
        read(client, window, batch=1)
        read(client, window, batch=1)  # a task that is repeated
        with pytest.raises(InvalidRequest, match="to be read by"):
            read(client, window, batch=2)
        with pytest.raises(NotFound, match="slices below 1"):
            read(client, window, index=1, batch=1)


# --- commits --------------------------------------------------------------------------------------


def test_a_window_is_delivered_once_and_seen_when_due(broker: Broker) -> None:
    broker.put(b"a", delay_ms=1_000)
    broker.put(b"b", delay_ms=2_000)

    with broker.client() as client:
        stage(client, "token", read(client, plan(client)))
        done = commit(client, "token")
        assert next_window(client, until_ms=FAR_MS) is None

    assert (done.delivered, done.skipped, done.dropped, done.repeated) == (2, 0, 0, 0)
    assert broker.bodies() == []
    broker.advance(1_000)
    assert broker.bodies() == [b"a"]
    broker.advance(1_000)
    assert broker.bodies() == [b"a", b"b"]


def test_two_batches_over_the_same_window_deliver_once(broker: Broker) -> None:
    broker.put(b"a", delay_ms=0 + 1)

    with broker.client() as client:
        stage(client, "one", read(client, plan(client), batch=1))
        stage(client, "two", read(client, plan(client), batch=2))
        first, second = commit(client, "one", batch=1), commit(client, "two", batch=2)

    assert (first.delivered, second.delivered, second.skipped) == (1, 0, 1)
    broker.advance(1)
    assert broker.bodies() == [b"a"]


def test_what_a_transform_left_out_is_dropped(broker: Broker) -> None:
    kept, dropped = broker.put(b"a", delay_ms=1), broker.put(b"b", delay_ms=1, KEYS="k")

    with broker.client() as client:
        rows = read(client, plan(client))
        stage(client, "token", rows.slice(0, 1))
        done = commit(client, "token", is_transformed=True)

    assert (done.delivered, done.dropped) == (1, 1)
    assert rows["origin"].to_pylist() == [kept, dropped]
    broker.advance(1)
    assert broker.bodies() == [b"a"]
    assert broker.store.pending_count() == 0


def test_a_transform_may_leave_out_everything(broker: Broker) -> None:
    broker.put(b"a", delay_ms=1)

    with broker.client() as client:
        read(client, plan(client))
        done = commit(client, is_transformed=True)

    assert (done.delivered, done.dropped) == (0, 1)


def test_missing_rows_without_a_transform_are_an_error(broker: Broker) -> None:
    for _ in range(2):
        broker.put(b"a", delay_ms=1)

    with broker.client() as client:
        rows = read(client, plan(client))
        stage(client, "token", rows.slice(0, 1))
        with pytest.raises(InvalidRequest, match="missing=drop"):
            commit(client, "token")

    assert broker.store.pending_count() == 2


def test_rows_that_nobody_read_are_never_dropped(broker: Broker) -> None:
    for _ in range(2):
        broker.put(b"a", delay_ms=1)

    with broker.client() as client:
        window = plan(client, slice_count_max=2)
        stage(client, "token", read(client, window, 0))
        with pytest.raises(InvalidRequest, match="all of its 2 slices"):
            commit(client, "token", is_transformed=True)

    assert broker.store.pending_count() == 2


def test_messages_accepted_since_the_plan_are_not_dropped(broker: Broker) -> None:
    broker.put(b"a", delay_ms=1_000)

    with broker.client() as client:
        read(client, plan(client))
        broker.put(b"b", delay_ms=500)
        commit(client, is_transformed=True)

    assert broker.store.pending_count() == 1


def test_cancelled_since_the_plan_stays_cancelled(broker: Broker) -> None:
    broker.put(b"a", delay_ms=1, KEYS="k")

    with broker.client() as client:
        stage(client, "token", read(client, plan(client)))
        answers = client.call(protocol.Cancel(keys=("k", "none")), protocol.Answers).answers
        done = commit(client, "token")

    assert answers == ("cancelled", "unknown")
    assert (done.delivered, done.skipped) == (0, 1)
    broker.advance(1)
    assert broker.bodies() == []


def test_an_origin_that_comes_twice_is_delivered_once(broker: Broker) -> None:
    broker.put(b"a", delay_ms=1)

    with broker.client() as client:
        rows = read(client, plan(client))
        stage(client, "one", rows)
        stage(client, "two", rows)
        done = commit(client, "one", "two")

    assert (done.delivered, done.repeated) == (1, 1)
    broker.advance(1)
    assert broker.bodies() == [b"a"]


@pytest.mark.parametrize(
    ("column", "found"), [("origin", "that this batch has read"), ("due_ms", "due_ms")]
)
def test_identity_must_not_be_changed(broker: Broker, column: str, found: str) -> None:
    broker.put(b"other", delay_ms=60_000)
    broker.put(b"a", delay_ms=1)

    with broker.client() as client:
        end = next_window(client)
        assert end is not None
        request = protocol.PlanWindow(end=end, slice_count_max=1, slice_row_count_min=1)
        rows = read(client, client.call(request, protocol.WindowPlan))
        at = rows.column_names.index(column)
        changed = pa.array(np.subtract(rows[column].to_numpy(), 1))
        stage(client, "token", rows.set_column(at, rows.schema.field(column), changed))
        with pytest.raises(InvalidRequest, match=found):
            commit(client, "token", is_transformed=True)

    assert broker.store.pending_count() == 2


def test_a_batch_that_the_broker_does_not_know_is_refused(broker: Broker) -> None:
    broker.put(b"a", delay_ms=1)

    with broker.client() as client:
        stage(client, "token", read(client, plan(client)))
        with pytest.raises(NotFound, match="batch 7"):
            commit(client, "token", batch=7)
        with pytest.raises(NotFound, match="'other'"):
            commit(client, "token", "other")
        assert commit(client, batch=7).delivered == 0


def test_after_a_restart_old_plans_and_tokens_are_gone(broker: Broker) -> None:
    broker.put(b"a", delay_ms=1)
    with broker.client() as client:
        window = plan(client)
        stage(client, "token", read(client, window))

    broker.restart()

    with broker.client() as client:
        with pytest.raises(NotFound):
            commit(client, "token")
        with pytest.raises(NotFound, match="restarted"):
            read(client, window)
        stage(client, "token", read(client, plan(client)))
        assert commit(client, "token").delivered == 1


# --- bulk, errors, figures ------------------------------------------------------------------------


def test_staged_messages_are_put_all_or_none(broker: Broker) -> None:
    def rows(topics: list[str]) -> pa.RecordBatch:
        table = pa.table({"topic": topics, "body": [b"x"] * len(topics)})
        columns = [
            table[f.name].combine_chunks()
            if f.name in table.column_names
            else pa.nulls(len(topics), f.type)
            for f in SCHEDULE_SCHEMA
        ]
        columns[4] = pa.array([1_000] * len(topics), pa.int64())
        return pa.RecordBatch.from_arrays(
            [pa.concat_arrays(c.chunks) if isinstance(c, pa.ChunkedArray) else c for c in columns],
            schema=SCHEDULE_SCHEMA,
        )

    with broker.client() as client:
        client.stage("good", SCHEDULE_SCHEMA, [rows(["a", "b"])])
        client.stage("bad", SCHEDULE_SCHEMA, [rows(["a", "no topic!"])])
        with pytest.raises(InvalidRequest, match="topic"):
            client.call(protocol.PutRows(tokens=("bad",)), protocol.RowsPut)
        assert broker.store.pending_count() == 0
        put = client.call(protocol.PutRows(tokens=("good",)), protocol.RowsPut)

    assert (put.first_seq, put.row_count) == (0, 2)
    assert broker.store.survey().pending_by_topic() == {"a": 1, "b": 1}


def test_too_much_staged_is_refused_with_the_limit(broker: Broker) -> None:
    staging = Staging(broker.store.clock, size_bytes_max=10)
    service = FlightDoor(Pipeline(broker.store, staging=staging), shard="other")
    service.start()
    broker.put(b"a", delay_ms=1)

    with FlightClient(f"127.0.0.1:{service.port}") as client:
        rows = read(client, plan(client))
        with pytest.raises(LimitExceeded) as caught:
            stage(client, "token", rows)

    service.stop()
    assert caught.value.limit == 10
    assert len(staging) == 0


def test_rows_of_an_unknown_kind_are_refused(broker: Broker) -> None:
    schema = pa.schema([("a", pa.int32())])
    rows = pa.RecordBatch.from_pydict({"a": [1]}, schema=schema)

    with broker.client() as client, pytest.raises(InvalidRequest, match=r"\['a'\]"):
        client.stage("token", schema, [rows])


def test_unknown_actions_and_tickets_are_refused(broker: Broker) -> None:
    with broker.client() as client:
        with pytest.raises(InvalidRequest, match="ticket"):
            list(client.read(protocol.Ticket()))
        with pytest.raises(NotFound, match="action 'dance'"):
            _call_raw(client, "dance", b"{}")
        with pytest.raises(RemoteProtocolError, match="ahead_ms"):
            _call_raw(client, "next_window", b"{}")


def _call_raw(client: FlightClient, name: str, body: bytes) -> None:
    from pyarrow import flight

    from dueline.flight.errors import from_flight

    try:
        list(flight.connect(f"grpc+tcp://{client.address}").do_action(flight.Action(name, body)))
    except flight.FlightError as error:
        raise from_flight(error, client.address) from error


def test_a_broker_that_is_not_there_is_unavailable() -> None:
    with FlightClient("127.0.0.1:9") as client, pytest.raises(Unavailable, match="is it running"):
        client.describe()


def test_messages_can_be_moved(broker: Broker) -> None:
    broker.put(b"a", delay_ms=1_000, KEYS="k")

    with broker.client() as client:
        move = protocol.Move(key="k", due_ms=START_MS + 50_000)
        answers = client.call(protocol.Reschedule(moves=(move,)), protocol.Answers).answers
        figures = client.call(protocol.Stats(), protocol.Figures)

    assert answers == ("rescheduled",)
    assert (figures.pending, figures.next_due_ms) == (1, START_MS + 50_000)
