import threading

from tests.waiting import PATIENCE_S

from dueline.server.flight.waiting import Waiting


def test_what_is_there_is_found_without_waiting() -> None:
    assert Waiting().wait_for(lambda: "found", 0.0) == "found"


def test_it_looks_once_however_short_the_time() -> None:
    looks: list[int] = []

    assert Waiting().wait_for(lambda: looks.append(1), 0.0) is None
    assert looks == [1]


def test_it_looks_until_there_is_something() -> None:
    left = iter([None, None, "found"])

    assert Waiting().wait_for(lambda: next(left), 60.0) == "found"


def test_stopping_lets_everyone_go() -> None:
    waiting = Waiting()
    is_waiting = threading.Event()
    found: list[object] = []

    def look() -> None:
        is_waiting.set()

    caller = threading.Thread(target=lambda: found.append(waiting.wait_for(look, 3_600.0)))
    caller.start()
    is_waiting.wait(PATIENCE_S)
    waiting.stop()
    caller.join(PATIENCE_S)

    assert found == [None]
    assert waiting.wait_for(lambda: None, 3_600.0) is None, "nobody waits any more"
