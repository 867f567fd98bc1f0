import threading
from collections.abc import Callable

import pytest

from dueline.errors import OutcomeUnknown
from dueline.server.flight import call_loop
from dueline.server.flight.call_loop import CallLoop


def test_what_is_posted_runs_in_the_thread_that_waits() -> None:
    loop, answers = CallLoop(), list[int]()
    threads = []

    def answer() -> None:
        threads.append(threading.current_thread())
        answers.append(7)

    threading.Thread(target=lambda: loop.post(answer)).start()

    assert loop.until(answers) == 7
    assert threads == [threading.current_thread()]


def test_work_that_fails_is_told() -> None:
    loop, told = CallLoop(), list[BaseException | None]()
    works: list[Callable[[], object]] = [lambda: None, lambda: 1 / 0]

    for work in works:
        loop.run(work, told.append)

    assert told[0] is None
    assert isinstance(told[1], ZeroDivisionError)


def test_an_answer_that_does_not_come_is_unknown(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(call_loop, "WAIT_S_MAX", 0.0)

    with pytest.raises(OutcomeUnknown, match="stored or not"):
        CallLoop().until([])
