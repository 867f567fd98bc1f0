import threading

from dueline.server.threads import Worker, start_thread


def test_what_a_thread_raises_is_handed_on() -> None:
    failures: list[BaseException] = []
    error = ValueError("no")

    def fail() -> None:
        raise error

    start_thread("t", fail, on_failure=failures.append).join()

    assert failures == [error]


def test_a_thread_that_ends_well_is_no_failure() -> None:
    failures: list[BaseException] = []
    done: list[int] = []

    start_thread("t", lambda: done.append(1), on_failure=failures.append).join()

    assert (done, failures) == ([1], [])


class Sleeper(Worker):
    """Works when it is woken."""

    def __init__(self, failures: list[BaseException]) -> None:
        super().__init__("sleeper", on_failure=failures.append)
        self.news = threading.Event()
        self.turns: list[bool] = []

    def _run(self) -> None:
        while not self._stopping.is_set():
            self.news.wait()
            self.news.clear()
            self.turns.append(self._stopping.is_set())

    def _wake(self) -> None:
        self.news.set()


def test_a_worker_that_sleeps_is_woken_to_end_and_waited_for() -> None:
    failures: list[BaseException] = []
    worker = Sleeper(failures)

    worker.start()
    worker.stop()

    assert worker.turns in ([], [True])
    assert failures == []


def test_a_worker_that_was_never_started_can_be_stopped() -> None:
    worker = Sleeper([])

    worker.stop()

    assert worker.turns == []
