"""A pipeline that is not there: the broker carries over in its place, each message once."""

import random
import threading
from pathlib import Path

import pyarrow as pa
import pytest
from tests.conftest import IS_SOAK
from tests.unit.store.making import (
    START_MS,
    Wall,
    bodies,
    delayed,
    open_store,
    read_all,
    routed,
)
from tests.waiting import PATIENCE_S

from dueline.broker.pipeline import Staging, deputy, known_schema
from dueline.broker.pipeline.carry_over import rows_to_pass_on
from dueline.broker.pipeline.deputy import AHEAD_MS, LEAD_MS, PAUSE_S_MAX, SLEEP_S_MAX, Deputy
from dueline.broker.pipeline.plans import Plans
from dueline.broker.pipeline.status import TRANSFORM_MS, PipelineStatus
from dueline.errors import Unavailable
from dueline.store import Answer, DeliverResult, Store, Window
from dueline.store.road import RoadRule


@pytest.fixture(autouse=True)
def no_rest(monkeypatch: pytest.MonkeyPatch) -> None:
    """Looks are as many as turns."""
    monkeypatch.setattr(deputy, "REST_RATIO", 0)


@pytest.fixture
def wall() -> Wall:
    return Wall()


@pytest.fixture
def store(tmp_path: Path, wall: Wall) -> Store:
    return open_store(tmp_path, wall)


@pytest.fixture
def status(store: Store) -> PipelineStatus:
    status = PipelineStatus(store.clock, is_transformed=False)
    follow(status, "starting")
    return status


@pytest.fixture
def stand_in(store: Store, status: PipelineStatus) -> Deputy:
    return Deputy(store, status)


def follow(status: PipelineStatus, name: str) -> None:
    status.follow(status=name, pid=7, start_count=1, reason="")


def work(stand_in: Deputy) -> float | None:
    """Turns until it wants to rest; returns for how long."""
    while (pause_s := stand_in.turn()) == 0:
        pass
    return pause_s


class Spark:
    """What a pipeline asks the broker, step by step."""

    def __init__(self, store: Store, status: PipelineStatus) -> None:
        self._store = store
        self._status = status
        self._staging = Staging(store.clock)
        self._plans = Plans(store, self._staging)
        self._batch = 0
        self._rows: pa.RecordBatch | None = None

    def read(self, *, ahead_ms: int) -> None:
        """Plan a batch and read it, if there is something."""
        self._status.asked(is_transformed=False)
        until_ms = self._store.clock.now_ms() + ahead_ms
        end = self._store.next_corner(until_ms=until_ms, row_count_max=1_000)
        plan = self._plans.plan(end, slice_count_max=1, slice_row_count_min=1)
        self._rows = None
        if plan.slices:
            self._batch += 1
            window = self._plans.read(plan.name, 0, run="run", batch=self._batch)
            self._rows = routed(self._store.read_window(window))

    def commit(self) -> tuple[int, int]:
        """Commit what was read; returns how many were delivered, and how many done before."""
        rows, self._rows = self._rows, None
        if rows is None:  # an empty batch
            self._status.committed()
            return 0, 0
        token = f"token-{self._batch}"
        self._staging.keep(token, known_schema(rows.schema), [rows])
        committed = self._plans.commit(
            run="run", batch=self._batch, tokens=[token], is_transformed=False
        )
        self._status.committed()
        return committed.delivered, committed.skipped


@pytest.mark.parametrize("name", ["starting", "waiting"])
def test_what_falls_due_while_the_pipeline_is_away_comes_when_it_is_due(
    store: Store, status: PipelineStatus, stand_in: Deputy, wall: Wall, name: str
) -> None:
    store.put_all([delayed(2_000, b"second"), delayed(900, b"first"), delayed(3_001, b"later")])
    follow(status, name)

    pause_s = work(stand_in)

    assert (store.pending_count(), store.gate_row_count) == (1, 2)
    assert pause_s == SLEEP_S_MAX
    for step_ms, expected in ((899, []), (1, [b"first"]), (1_099, [b"first"])):
        wall.advance(step_ms)
        store.open_gate()
        assert bodies(store) == expected
    wall.advance(2)
    work(stand_in)
    wall.advance(1_000)
    store.open_gate()
    assert [(record.body, record.store_ms - START_MS) for record in read_all(store)] == [
        (b"first", 900),
        (b"second", 2_000),
        (b"later", 3_001),
    ]


def test_what_was_due_while_the_broker_was_away_comes_at_once_in_due_order(
    tmp_path: Path, store: Store, wall: Wall
) -> None:
    store.put_all([delayed(delay_ms, b"%d" % delay_ms) for delay_ms in (5_000, 1_000, 3_000)])
    store.close()
    wall.advance(60_000)
    again = open_store(tmp_path, wall)
    status = PipelineStatus(again.clock, is_transformed=False)
    follow(status, "starting")

    work(Deputy(again, status))

    again.open_gate()
    assert bodies(again) == [b"1000", b"3000", b"5000"]


def test_it_waits_until_something_is_nearly_due_and_then_takes_what_follows_along(
    store: Store, stand_in: Deputy, wall: Wall
) -> None:
    delays_ms = (LEAD_MS + 200, AHEAD_MS + 200, AHEAD_MS + 201)
    store.put_all([delayed(delay_ms) for delay_ms in delays_ms])

    assert stand_in.turn() == 0.2
    assert store.pending_count() == 3
    wall.advance(200)
    work(stand_in)

    assert store.pending_count() == 1


@pytest.mark.parametrize("name", ["off", "stopped"])
def test_a_pipeline_that_is_not_ours_to_start_is_waited_for(
    store: Store, status: PipelineStatus, stand_in: Deputy, name: str
) -> None:
    store.put(delayed(10))
    follow(status, name)

    assert stand_in.turn() is None
    assert store.pending_count() == 1


def test_with_a_transform_messages_wait_for_the_pipeline(store: Store) -> None:
    status = PipelineStatus(store.clock)  # as the settings have it
    follow(status, "starting")
    store.put(delayed(10))

    assert Deputy(store, status).turn() == PAUSE_S_MAX
    assert store.pending_count() == 1


def test_when_a_transform_has_gone_it_stands_in_without_being_told(
    store: Store, wall: Wall
) -> None:
    status = PipelineStatus(store.clock)
    status.asked(is_transformed=True)
    status.asked(is_transformed=False)
    follow(status, "waiting")
    stand_in = Deputy(store, status)
    store.put(delayed(10))

    assert stand_in.turn() == PAUSE_S_MAX
    wall.advance(TRANSFORM_MS + 1)
    work(stand_in)

    assert store.pending_count() == 0


def test_it_makes_way_when_the_pipeline_is_ready_and_returns_when_that_is_gone(
    store: Store, status: PipelineStatus, stand_in: Deputy
) -> None:
    status.committed()
    store.put(delayed(600))
    assert stand_in.turn() is None
    assert store.pending_count() == 1

    follow(status, "waiting")
    work(stand_in)
    assert store.pending_count() == 0


def test_what_both_have_in_hand_is_carried_over_once(
    store: Store, status: PipelineStatus, stand_in: Deputy, wall: Wall
) -> None:
    store.put_all([delayed(delay_ms, b"%d" % delay_ms) for delay_ms in (500, 900, 20_000)])
    spark = Spark(store, status)

    spark.read(ahead_ms=30_000)
    work(stand_in)
    store.put(delayed(700, b"700"))
    work(stand_in)
    assert spark.commit() == (1, 2)
    assert stand_in.turn() is None

    for _ in range(4):
        wall.advance(5_000)
        store.open_gate()
    assert bodies(store) == [b"500", b"700", b"900", b"20000"]


def test_a_pipeline_that_commits_first_leaves_nothing_to_do(
    store: Store, status: PipelineStatus, stand_in: Deputy, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Between the look at what is due and the copying."""
    store.put(delayed(500, b"once"))
    spark = Spark(store, status)
    spark.read(ahead_ms=1_000)
    counts = []

    def late(store: Store, window: Window) -> list[pa.RecordBatch]:
        counts.append(spark.commit())
        return rows_to_pass_on(store, window)

    monkeypatch.setattr(deputy, "rows_to_pass_on", late)
    stand_in.turn()

    assert counts == [(1, 0)]
    assert (store.pending_count(), store.gate_row_count) == (0, 1)


@pytest.fixture(params=["in time", "behind"])
def _pace(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """One that is behind reads a portion ahead, and much may happen before it is carried over."""
    if request.param == "behind":
        monkeypatch.setattr(deputy, "BEHIND_MS", -(1 << 40))
        monkeypatch.setattr(deputy, "BEHIND_RATIO", 2)
        monkeypatch.setattr(deputy, "ROW_COUNT_MAX", 1)


@pytest.mark.usefixtures("_pace")
@pytest.mark.parametrize("seed", range(200 if IS_SOAK else 6))
def test_however_they_take_turns_each_message_comes_once_in_order_and_never_early(
    store: Store, status: PipelineStatus, stand_in: Deputy, wall: Wall, seed: int
) -> None:
    choose = random.Random(seed)
    spark = Spark(store, status)
    due_ms: dict[bytes, int] = {}
    cancelled: set[bytes] = set()
    seen: list[bytes] = []

    def put() -> None:
        for _ in range(choose.randrange(1, 6)):
            body, delay_ms = b"%d" % len(due_ms), choose.choice([600, 1_500, 4_000, 20_000])
            store.put(delayed(delay_ms, body, KEYS=body.decode()))
            due_ms[body] = wall.now_ms + delay_ms

    def cancel() -> None:
        body = choose.choice(list(due_ms) or [b"0"])
        if store.cancel(body.decode()) is Answer.CANCELLED:
            cancelled.add(body)

    def show() -> None:
        wall.advance(choose.randrange(1, 900))
        # Somebody is always there: what is due is never left behind.
        if status.report().status == "ready":
            spark.read(ahead_ms=30_000)
            spark.commit()
        else:
            work(stand_in)
        store.open_gate()
        for body in bodies(store)[len(seen) :]:
            assert due_ms[body] <= wall.now_ms
            seen.append(body)

    steps = (
        put,
        cancel,
        show,
        show,
        lambda: work(stand_in),
        stand_in.turn,
        lambda: spark.read(ahead_ms=choose.choice([2_000, 30_000])),
        spark.commit,
        lambda: follow(status, choose.choice(["starting", "waiting"])),
    )
    for _ in range(150):
        choose.choice(steps)()
    follow(status, "waiting")
    for _ in range(100):
        show()

    expected = [body for body in due_ms if body not in cancelled]
    assert seen == sorted(expected, key=lambda body: (due_ms[body], int(body)))


def test_a_crowd_is_carried_over_in_portions(
    store: Store, stand_in: Deputy, wall: Wall, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(deputy, "ROW_COUNT_MAX", 10)
    store.put_all([delayed(100 + number // 2, b"%d" % number) for number in range(25)])

    left = []
    while stand_in.turn() == 0:
        left.append(store.pending_count())

    assert left == [15, 5, 0]
    wall.advance(200)
    store.open_gate()
    assert bodies(store) == [b"%d" % number for number in range(25)]


def test_portions_are_larger_once_it_is_behind(
    store: Store, stand_in: Deputy, wall: Wall, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(deputy, "ROW_COUNT_MAX", 2)
    store.put_all([delayed(100, b"%d" % number) for number in range(25)])
    wall.advance(100 + deputy.BEHIND_MS - 1)

    stand_in.turn()
    assert store.pending_count() == 23

    wall.advance(1)
    stand_in.turn()
    assert store.pending_count() == 23 - 2 * deputy.BEHIND_RATIO
    work(stand_in)
    store.open_gate()
    assert bodies(store) == [b"%d" % number for number in range(25)]


@pytest.fixture
def behind(
    store: Store, stand_in: Deputy, wall: Wall, monkeypatch: pytest.MonkeyPatch
) -> list[threading.Event]:
    """It is behind with eight messages, two to a portion; what it reads says when it is read."""
    monkeypatch.setattr(deputy, "ROW_COUNT_MAX", 1)
    monkeypatch.setattr(deputy, "BEHIND_RATIO", 2)
    store.put_all([delayed(100, b"%d" % number, KEYS=f"{number}") for number in range(8)])
    wall.advance(60_000)
    events = [threading.Event() for _ in range(9)]
    reads = iter(events)

    def noted(store: Store, window: Window) -> list[pa.RecordBatch]:
        rows = rows_to_pass_on(store, window)
        next(reads).set()
        return rows

    monkeypatch.setattr(deputy, "rows_to_pass_on", noted)
    return events


def test_the_next_portion_is_read_while_one_is_written(
    store: Store,
    stand_in: Deputy,
    behind: list[threading.Event],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    deliver, portions = store.deliver, []

    def slow(batches: list[pa.RecordBatch]) -> DeliverResult:
        portions.append(sum(batch.num_rows for batch in batches))
        assert len(portions) == 4 or behind[len(portions)].wait(PATIENCE_S)
        return deliver(batches)

    monkeypatch.setattr(store, "deliver", slow)
    work(stand_in)

    assert portions == [2, 2, 2, 2]
    store.open_gate()
    assert bodies(store) == [b"%d" % number for number in range(8)]


def test_what_was_read_ahead_and_taken_back_is_not_carried_over(
    store: Store, stand_in: Deputy, behind: list[threading.Event], wall: Wall
) -> None:
    assert stand_in.turn() == 0
    assert behind[1].wait(PATIENCE_S)
    assert store.cancel("2") is Answer.CANCELLED
    assert store.reschedule("3", wall.now_ms + 30_000) is Answer.RESCHEDULED
    work(stand_in)

    wall.advance(60_000)
    work(stand_in)
    store.open_gate()
    assert bodies(store) == [b"%d" % number for number in (0, 1, 4, 5, 6, 7, 3)]


@pytest.mark.usefixtures("behind")
def test_what_was_read_ahead_is_forgotten_when_the_pipeline_comes(
    store: Store, status: PipelineStatus, stand_in: Deputy
) -> None:
    assert stand_in.turn() == 0
    status.committed()

    assert stand_in.turn() is None
    assert store.pending_count() == 6
    follow(status, "waiting")
    work(stand_in)
    assert store.pending_count() == 0


def test_large_messages_go_in_smaller_portions(
    store: Store, stand_in: Deputy, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(deputy, "SIZE_BYTES_MAX", 2_500)
    store.put_all([delayed(100, bytes(1_000)) for _ in range(4)])

    assert stand_in.turn() == 0
    assert store.pending_count() == 2


def test_a_paused_topic_stays_where_it_is(store: Store, stand_in: Deputy) -> None:
    store.put_all([delayed(50), delayed(50, b"free", "other")])
    store.numbers.set_rule("orders", RoadRule(is_paused=True))

    assert work(stand_in) == SLEEP_S_MAX
    assert (store.pending_count(), store.gate_row_count) == (1, 1)


def test_without_room_messages_wait(
    store: Store, stand_in: Deputy, monkeypatch: pytest.MonkeyPatch
) -> None:
    store.put(delayed(50))

    def full(*_: object, **__: object) -> None:
        raise Unavailable("no space")

    with monkeypatch.context() as patch:
        patch.setattr(store, "deliver", full)
        assert stand_in.turn() == PAUSE_S_MAX
        patch.setattr(store, "delivery_room_bytes", lambda: 0)
        assert stand_in.turn() == PAUSE_S_MAX
    assert store.pending_count() == 1
    work(stand_in)
    assert store.pending_count() == 0


def test_it_does_not_look_all_the_time(
    store: Store, stand_in: Deputy, monkeypatch: pytest.MonkeyPatch
) -> None:
    """However often it is woken: others need the store's lock."""
    monkeypatch.setattr(deputy, "REST_RATIO", 1 << 40)
    monkeypatch.setattr(deputy, "REST_S_MAX", 3_600.0)
    looks = []
    monkeypatch.setattr(store, "next_due_ms", lambda: looks.append(1))

    pauses = [stand_in.turn() for _ in range(5)]

    assert len(looks) == 1
    assert all(pause_s is not None and pause_s > 0 for pause_s in pauses)
