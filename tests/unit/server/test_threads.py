from dueline.server.threads import start_thread


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
