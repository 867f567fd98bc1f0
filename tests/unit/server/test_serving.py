"""The parent's decisions: what it makes of the words and ends of its children, without any."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from time import monotonic

import pytest
from tests.unit.commands.test_serve import ACCEPTING, child
from tests.unit.server.local import small_config
from tests.waiting import PATIENCE_S

from dueline.errors import Unavailable
from dueline.server.child import REFUSED_STATUS, Child, ChildReport
from dueline.server.folder import ServeLock
from dueline.server.rotating import RotatingFile
from dueline.server.serving import _Parent, _with_addresses
from dueline.server.telling import Accepting, Failed, Filled, Refused, ServingFigures, encode


class Watching:
    """Keeps what people would see."""

    tick_s = 60.0

    def __init__(self) -> None:
        self.told: list[str] = []

    def accepting(self, broker: Accepting) -> None:
        self.told.append("accepting")

    def changed(self, child: Child, report: ChildReport) -> None:
        self.told.append(f"{child.name} {report.status}")

    def ready(self, child: Child, text: str) -> None:
        self.told.append(text)

    def tick(self, figures: ServingFigures) -> None:
        self.told.append("figures")

    def failed(self, message: str) -> None:
        self.told.append(f"failed: {message}")

    def restarted(self, message: str) -> None:
        self.told.append(message)

    def stopping(self) -> None:
        self.told.append("stopping")


class World:
    """A parent that has started nothing."""

    def __init__(self, folder: Path, lock: ServeLock) -> None:
        # No pipeline and no pages: when the broker accepts, there is nobody else to start.
        config = small_config(folder, **{"delivery.enabled": "false"})
        self.watcher = Watching()
        self.parent = _Parent(config, self.watcher, lock, RotatingFile(folder / "serve.log"))
        self.broker = self.parent._broker.child
        self.pipeline = child("pipeline", "Spark", folder)

    def settle(self) -> None:
        """Handle what has come."""
        while not self.parent._inbox.empty():
            self.parent._inbox.get()()

    def give_up(self, child: Child, reason: str, status: int) -> None:
        self.parent.gave_up(child, reason, status)
        self.settle()

    def say(self, *events: Accepting | Failed | Filled | Refused) -> None:
        for event in events:
            assert self.parent.said(self.broker, encode(event))
        self.settle()


@pytest.fixture
def world(tmp_path: Path) -> Iterator[World]:
    lock = ServeLock(tmp_path)
    yield World(tmp_path, lock)
    lock.release()


def test_words_of_libraries_are_left_to_the_log(world: World) -> None:
    assert not world.parent.said(world.broker, b"WARNING: something\n")
    assert world.parent._inbox.empty()


def test_what_is_told_is_handled_by_the_parent_s_own_thread(world: World) -> None:
    world.parent.said(world.broker, encode(ACCEPTING))
    world.parent.changed(world.pipeline, ChildReport(status="starting"))
    assert world.watcher.told == []

    world.settle()

    assert world.watcher.told == ["accepting", "pipeline starting"]


def test_a_broker_that_comes_back_is_not_announced_again(world: World) -> None:
    world.say(ACCEPTING, ACCEPTING)

    assert world.watcher.told == ["accepting"]


def test_a_broker_that_refuses_at_the_start_is_an_error_in_its_own_words(world: World) -> None:
    world.say(Refused(message="the port is taken"))
    world.give_up(world.broker, "it ended with status 2", REFUSED_STATUS)

    assert isinstance(world.parent._error, Unavailable)
    assert world.parent._error.message == "the port is taken"
    assert world.watcher.told == [], "who called is told, and not twice"


def test_a_broker_that_has_accepted_fails_with_a_code(world: World) -> None:
    world.say(Refused(message="old"), ACCEPTING)
    world.give_up(world.broker, "it ended with status 2", REFUSED_STATUS)

    assert (world.parent._error, world.parent._code) == (None, REFUSED_STATUS)
    assert world.watcher.told[-1] == "failed: it ended with status 2", "the old words are not its"


@pytest.mark.parametrize(
    ("status", "words", "code"),
    [
        (REFUSED_STATUS, "the pipeline cannot work as it is set up: no Java", REFUSED_STATUS),
        (1, "the pipeline cannot be kept running: no Java", 1),
    ],
)
def test_a_child_that_is_needed_ends_everything(
    world: World, status: int, words: str, code: int
) -> None:
    world.give_up(world.pipeline, "no Java", status)

    assert world.watcher.told == [f"failed: {words}"]
    assert world.parent._code == code


def test_a_child_that_is_optional_is_only_missed(world: World) -> None:
    world.give_up(replace(world.pipeline, name="web", is_optional=True), "no port", 2)

    assert world.watcher.told == ["Spark does not run: no port"]
    assert world.parent._code is None


def test_the_first_failure_is_the_one_that_counts(world: World) -> None:
    world.say(Failed(message="the disk"))
    world.give_up(world.pipeline, "no Java", REFUSED_STATUS)

    assert world.watcher.told == ["failed: the disk"]
    assert world.parent._code == 1


def test_waiting_ends_with_its_time_or_with_what_it_waits_for(world: World) -> None:
    parent = world.parent
    assert not parent._handle_until(lambda: False, end_s=0.0)

    parent.said(world.broker, encode(Filled()))

    assert parent._handle_until(lambda: parent._has_filled, end_s=monotonic() + PATIENCE_S)


def test_ports_that_were_taken_are_kept_and_hosts_stay(tmp_path: Path) -> None:
    config = small_config(tmp_path, **{"listen.grpc": "0.0.0.0:0"})

    listen = _with_addresses(config, ACCEPTING).listen

    assert listen.flight == ACCEPTING.address
    assert (listen.name_server, listen.grpc) == ("127.0.0.1:2", "0.0.0.0:3")
    assert listen.remoting == "127.0.0.1:0", "a door that is off took no port"
