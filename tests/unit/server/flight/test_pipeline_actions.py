"""What Spark asks: a window is planned, read, carried over and committed, without a port."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import TypeVar

import pytest
from tests.unit.store.making import START_MS, Wall, bodies, delayed, open_store, routed

from dueline.broker.pipeline import Pipeline
from dueline.errors import InvalidRequest
from dueline.flight import protocol
from dueline.flight.values import Value
from dueline.server.flight.pipeline_actions import PipelineActions
from dueline.server.flight.waiting import Waiting
from dueline.store import Store
from dueline.store.schema import SCHEDULE_SCHEMA

A = TypeVar("A", bound=Value)


@pytest.fixture
def wall() -> Wall:
    return Wall()


@pytest.fixture
def store(tmp_path: Path, wall: Wall) -> Iterator[Store]:
    store = open_store(tmp_path, wall)
    yield store
    store.close()


@pytest.fixture
def pipeline(store: Store) -> Pipeline:
    return Pipeline(store)


@pytest.fixture
def actions(pipeline: Pipeline) -> PipelineActions:
    return PipelineActions(pipeline, Waiting(), shard="shard-1")


def ask(actions: PipelineActions, name: str, request: Value, answer: type[A]) -> A:
    return answer.decode(actions.table[name](request.encode()))


def next_window(actions: PipelineActions) -> protocol.WindowEnd:
    request = protocol.NextWindow(ahead_ms=10_000, lead_ms=10_000, row_count_max=100, wait_ms=0)
    return ask(actions, "next_window", request, protocol.WindowEnd)


def test_a_broker_describes_itself(actions: PipelineActions, store: Store) -> None:
    found = ask(actions, "describe", protocol.Describe(), protocol.Description)

    assert (found.shard, found.now_ms) == ("shard-1", START_MS)
    assert found.body_size_bytes_max == store.options.body_size_max


def test_a_window_goes_from_its_corner_to_its_commit(
    actions: PipelineActions, pipeline: Pipeline, store: Store, wall: Wall
) -> None:
    assert next_window(actions).end is None
    for number in range(4):
        store.put(delayed(5_000 + number, b"%d" % number))
    end = next_window(actions).end
    assert end is not None

    wanted = protocol.PlanWindow(end=end, slice_count_max=2, slice_row_count_min=1)
    plan = ask(actions, "plan_window", wanted, protocol.WindowPlan)
    assert sum(each.row_count for each in plan.slices) == 4
    for index in range(len(plan.slices)):
        window = pipeline.plans.read(plan.plan, index, run="r", batch=0)
        rows = routed(store.read_window(window))
        pipeline.staging.keep(f"token-{index}", rows.schema, iter([rows]))
    tokens = tuple(f"token-{index}" for index in range(len(plan.slices)))
    commit = protocol.CommitWindow(run="r", batch=0, tokens=tokens, is_transformed=False)
    ask(actions, "commit_window", commit, protocol.Committed)

    figures = ask(actions, "stats", protocol.Stats(), protocol.Figures)
    assert (figures.accepted, figures.pending, figures.at_gate) == (4, 0, 4)
    wall.advance(6_000)
    store.open_gate()
    assert bodies(store) == [b"0", b"1", b"2", b"3"]


def test_a_question_without_sense_is_refused_but_noticed(
    actions: PipelineActions, pipeline: Pipeline
) -> None:
    request = protocol.NextWindow(ahead_ms=-1, lead_ms=0, row_count_max=1, wait_ms=0)

    with pytest.raises(InvalidRequest, match="ahead_ms"):
        actions.table["next_window"](request.encode())
    assert pipeline.status.report().asked_ms == START_MS


def test_messages_are_cancelled_and_moved_with_an_answer_for_each(
    actions: PipelineActions, store: Store
) -> None:
    store.put(delayed(5_000, KEYS="a"))
    store.put(delayed(5_000, KEYS="b"))

    cancel = protocol.Cancel(keys=("a", "nobody"))
    found = ask(actions, "cancel", cancel, protocol.Answers)
    assert (found.answers, found.counts) == (("cancelled", "unknown"), (1, 0))
    moves = (protocol.Move(key="b", due_ms=START_MS + 9_000),)
    found = ask(actions, "reschedule", protocol.Reschedule(moves=moves), protocol.Answers)
    assert found.answers == ("rescheduled",)
    assert store.next_due_ms() == START_MS + 9_000


def test_what_was_staged_can_be_given_up(actions: PipelineActions, pipeline: Pipeline) -> None:
    pipeline.staging.keep("a", SCHEDULE_SCHEMA, iter([]))

    found = ask(actions, "discard", protocol.Discard(tokens=("a", "b")), protocol.Discarded)
    assert found.token_count == 1
