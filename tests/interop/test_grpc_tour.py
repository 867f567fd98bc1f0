"""The official 5.x clients, unmodified, against one `dueline serve`: each sees what it should."""

from __future__ import annotations

import uuid
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest
from tests.interop import grpc_tour
from tests.interop.live import Live
from tests.interop.processes import Event, Process

DELAYED = {f"delayed-{number}" for number in range(5)}
NORMAL = {f"normal-{number}" for number in range(5)}


@dataclass(frozen=True, slots=True, kw_only=True)
class Tour:
    """One client's tour under way."""

    language: str
    prefix: str
    process: Process

    def events(self, name: str) -> list[Event]:
        self.process.wait_events("done")
        return self.process.events(name)

    def received(self, by: str) -> list[Event]:
        return [event for event in self.events("received") if event["by"] == by]

    def bodies(self, by: str) -> list[str]:
        return [event["body"] for event in self.received(by)]


@pytest.fixture(scope="module")
def tours(live: Live, tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, Tour]]:
    """All tours at once: each takes its time waiting, not working."""
    folder = tmp_path_factory.mktemp("grpc")
    started: dict[str, Tour] = {}
    try:
        for language in grpc_tour.LANGUAGES:
            try:
                grpc_tour.program(language, folder)
            except pytest.skip.Exception:
                continue  # the tests of this language say what is missing
            prefix = f"{language}-{uuid.uuid4().hex[:8]}"
            live.set_attempts(f"{prefix}-dead", 3)
            process = grpc_tour.start(language, live.endpoint, prefix, folder / language)
            started[language] = Tour(language=language, prefix=prefix, process=process)
        yield started
    finally:
        for tour in started.values():
            tour.process.kill()


@pytest.fixture(params=grpc_tour.LANGUAGES)
def tour(request: pytest.FixtureRequest, tours: dict[str, Tour], tmp_path: Path) -> Tour:
    grpc_tour.program(request.param, tmp_path)  # skips, if something is missing
    return tours[request.param]


def test_push_consumer_gets_each_message_once(tour: Tour) -> None:
    bodies = tour.bodies("push")

    assert sorted(bodies) == sorted({*NORMAL, *DELAYED, "timed", "committed", "orphan"})


def test_delayed_messages_are_never_early(tour: Tour) -> None:
    late_ms = {
        event["body"]: event["now_ms"] - event["due_ms"]
        for event in tour.received("push")
        if event["due_ms"]
    }

    assert set(late_ms) == {*DELAYED, "timed"}
    print(f"{tour.language}: late by {sorted(late_ms.values())} ms")  # noqa: T201 - for people
    assert min(late_ms.values()) >= 0


def test_tag_and_topic_come_back(tour: Tour) -> None:
    for event in tour.received("push"):
        assert event["tag"] == "tour"
        assert event["topic"] in (f"{tour.prefix}-plain", f"{tour.prefix}-half")


def test_recalled_message_never_comes(tour: Tour) -> None:
    assert len(tour.events("recalled")) == 1
    assert "recalled" not in tour.bodies("push")


def test_recall_with_a_bad_handle_is_refused_with_a_reason(tour: Tour) -> None:
    (refused,) = tour.events("recall-refused")

    assert "recall handle" in refused["text"]


def test_producer_is_asked_about_the_transaction_it_left(tour: Tour) -> None:
    assert {event["body"] for event in tour.events("asked")} == {"orphan"}
    assert "rolled-back" not in tour.bodies("push")


def test_unacknowledged_message_comes_again_one_attempt_older(tour: Tour) -> None:
    first, second, third = tour.received("simple")

    assert [event["attempt"] for event in (first, second, third)] == [1, 2, 3]
    # How long each is held the client cannot measure: it may notice the first one late.
    assert first["now_ms"] < second["now_ms"] < third["now_ms"]


def test_message_groups_keep_their_order(tour: Tour) -> None:
    bodies = tour.bodies("order")

    for group in "ab":
        assert [body for body in bodies if body[0] == group] == [f"{group}{n}" for n in range(6)]


def test_refused_message_ends_in_the_dead_letters(tour: Tour) -> None:
    assert [event["attempt"] for event in tour.received("failing")] == [1, 2, 3]
    assert tour.bodies("dead") == ["dead"]
