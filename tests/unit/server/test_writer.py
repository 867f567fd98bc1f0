import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial

import pytest
from tests.waiting import PATIENCE_S, wait_until

from dueline.broker.writing import Results
from dueline.errors import BrokerError, InvalidRequest, LimitExceeded, StoreClosed, Unavailable
from dueline.message import Message
from dueline.server.gathering import Gathering
from dueline.server.writer import Writer
from dueline.store import PutResult


class Disk:
    """Answers like a store, but only while it is let to; remembers the groups."""

    def __init__(self) -> None:
        self.groups: list[list[bytes]] = []
        self.ready = threading.Event()
        self.busy = threading.Event()
        self.error: Exception | None = None
        self.threads: list[int] = []

    def put_all(self, messages: Sequence[Message]) -> Results:
        self.threads.append(threading.get_ident())
        self.busy.set()
        assert self.ready.wait(PATIENCE_S)
        if self.error is not None:
            raise self.error
        self.groups.append([message.body for message in messages])
        return [answer_to(message) for message in messages]


def answer_to(message: Message) -> PutResult | BrokerError:
    if message.body == b"bad":
        return InvalidRequest("bad")
    return PutResult(
        topic=message.topic,
        queue_id=0,
        queue_offset=0,
        position=0,
        store_ms=0,
        store_host=b"",
        unique_id=message.body.decode(),
    )


class Answers:
    """Collects what senders are told."""

    def __init__(self) -> None:
        self.given: list[Results | BaseException] = []

    def __call__(self, results: Results | BaseException) -> None:
        self.given.append(results)

    def ids(self) -> list[list[str]]:
        return [
            [getattr(result, "unique_id", "refused") for result in results]
            for results in self.given
            if not isinstance(results, BaseException)
        ]


@contextmanager
def writing(
    disk: Disk, *, is_at_hand: Callable[[], bool] = lambda: True, **bounds: int
) -> Iterator[tuple[Writer, list[BaseException]]]:
    failures: list[BaseException] = []
    writer = Writer(
        disk.put_all,
        count_max=bounds.get("count_max", 1000),
        size_bytes_max=bounds.get("size_bytes_max", 1 << 20),
        on_failure=failures.append,
        is_at_hand=is_at_hand,
    )
    writer.start()
    try:
        yield writer, failures
    finally:
        disk.ready.set()
        writer.stop()


def messages(*bodies: str) -> list[Message]:
    return [Message(topic="t", body=body.encode()) for body in bodies]


def test_what_gathers_behind_a_slow_write_is_written_together() -> None:
    disk, answers = Disk(), Answers()
    with writing(disk) as (writer, _):
        writer.submit(messages("a"), answers)
        assert disk.busy.wait(PATIENCE_S)
        writer.submit(messages("b", "bad"), answers)
        writer.submit(messages("c"), answers)
        disk.ready.set()

    assert disk.groups == [[b"a"], [b"b", b"bad", b"c"]]
    assert answers.ids() == [["a"], ["b", "refused"], ["c"]]


def test_more_than_may_wait_is_refused_at_once_and_told_so() -> None:
    disk, answers = Disk(), Answers()
    with writing(disk, count_max=3) as (writer, _):
        writer.submit(messages("a"), answers)
        assert disk.busy.wait(PATIENCE_S)
        writer.submit(messages("b", "c"), answers)
        with pytest.raises(LimitExceeded, match="busy: expected at most 3 messages") as caught:
            writer.submit(messages("d", "e"), answers)

    assert (caught.value.limit, caught.value.found) == (3, 4)
    assert answers.ids() == [["a"], ["b", "c"]]


def test_bytes_are_bounded_too() -> None:
    disk, answers = Disk(), Answers()
    with writing(disk, size_bytes_max=10) as (writer, _):
        writer.submit(messages("a"), answers)
        assert disk.busy.wait(PATIENCE_S)
        writer.submit(messages("12345678"), answers)
        with pytest.raises(LimitExceeded, match="expected at most 10 bytes"):
            writer.submit(messages("abc"), answers)


def test_a_request_larger_than_the_bound_passes_when_nothing_waits() -> None:
    disk, answers = Disk(), Answers()
    disk.ready.set()
    with writing(disk, count_max=2, size_bytes_max=2) as (writer, _):
        writer.submit(messages("abc", "d", "e"), answers)

    assert answers.ids() == [["abc", "d", "e"]]


def test_what_was_taken_is_answered_before_the_end_and_nothing_is_taken_after() -> None:
    disk, answers = Disk(), Answers()
    with writing(disk) as (writer, _):
        for number in range(100):
            writer.submit(messages(str(number)), answers)

    assert [name for group in answers.ids() for name in group] == [str(n) for n in range(100)]
    with pytest.raises(Unavailable, match="stopping"):
        writer.submit(messages("x"), answers)


def test_a_sender_that_fails_does_not_hinder_the_others() -> None:
    disk, answers = Disk(), Answers()

    def gone(results: Results | BaseException) -> None:
        raise ConnectionError

    with writing(disk) as (writer, failures):
        writer.submit(messages("a"), gone)
        writer.submit(messages("b"), answers)
        disk.ready.set()

    assert answers.ids() == [["b"]]
    assert failures == []


def test_every_sender_of_a_failed_group_is_told_and_a_closed_store_is_reported() -> None:
    disk, answers = Disk(), Answers()
    disk.error = StoreClosed("the disk is gone")
    with writing(disk) as (writer, failures):
        writer.submit(messages("a"), answers)
        writer.submit(messages("b"), answers)
        disk.ready.set()

    assert answers.given == [disk.error, disk.error]
    assert failures
    assert set(failures) == {disk.error}


def test_a_mistake_in_one_group_does_not_end_the_writer() -> None:
    disk, answers = Disk(), Answers()
    disk.error = ValueError("a mistake")
    with writing(disk) as (writer, failures):
        disk.ready.set()
        writer.submit(messages("a"), answers)
        wait_until(lambda: answers.given, "an answer")
        disk.error = None
        writer.submit(messages("b"), answers)

    assert isinstance(answers.given[0], ValueError)
    assert answers.ids() == [["b"]]
    assert failures == []


def has_given(answers: Answers, count: int) -> bool:
    return len(answers.given) == count


def test_nothing_is_left_waiting_while_the_writer_waits_for_more() -> None:
    """A slow disk and eight senders have taught it to wait; then one of them sends alone."""
    disk, answers = Disk(), Answers()
    with writing(disk) as (writer, _):
        for number in range(20):
            disk.ready.clear()
            disk.busy.clear()
            writer.submit([Message(topic="t", body=b"first")], answers)
            assert disk.busy.wait(PATIENCE_S)
            for each in range(8):
                writer.submit([Message(topic="t", body=b"%d" % each)], answers)
            disk.ready.set()
            expected = 9 * (number + 1)
            wait_until(partial(has_given, answers, expected), "all answers")

        writer.submit([Message(topic="t", body=b"alone")], answers)

        wait_until(partial(has_given, answers, 181), "the last answer")
    assert disk.groups[-1] == [b"alone"]


def test_a_writer_that_waits_for_more_ends_at_once_and_writes_what_it_has() -> None:
    disk, answers = Disk(), Answers()
    with writing(disk) as (writer, _):
        writer.submit([Message(topic="t", body=b"%d" % n) for n in range(8)], answers)
        assert disk.busy.wait(PATIENCE_S)
        disk.ready.set()
        wait_until(partial(has_given, answers, 1), "the first answer")
        writer.submit([Message(topic="t", body=b"last")], answers)

        writer.stop()

        assert disk.groups[-1] == [b"last"]
        assert len(answers.given) == 2


def taught(writer: Writer, disk: Disk, answers: Answers) -> None:
    """It has written single messages, and its disk was quick."""
    disk.ready.set()
    writer.submit(messages("first"), answers)
    wait_until(partial(has_given, answers, 1), "the first answer")
    wait_until(lambda: not writer._is_writing, "its end")
    writer._gathering = Gathering()
    for _ in range(50):
        writer._gathering.wrote(1, 0.000_1)


def test_a_sender_writes_itself_where_the_disk_is_quick_and_nobody_writes() -> None:
    disk, answers = Disk(), Answers()
    with writing(disk) as (writer, _):
        taught(writer, disk, answers)
        writer.submit(messages("mine"), answers)

        assert answers.ids() == [["first"], ["mine"]]
        assert disk.threads[1] == threading.get_ident() != disk.threads[0]


def test_a_sender_does_not_write_where_the_store_would_make_it_wait() -> None:
    disk, answers = Disk(), Answers()
    with writing(disk, is_at_hand=lambda: False) as (writer, _):
        taught(writer, disk, answers)
        writer.submit(messages("theirs"), answers)
        wait_until(partial(has_given, answers, 2), "the answer")

    assert threading.get_ident() not in disk.threads


def test_what_comes_while_a_sender_writes_is_written_behind_it() -> None:
    disk, answers = Disk(), Answers()
    with writing(disk) as (writer, _):
        taught(writer, disk, answers)
        disk.ready.clear()
        disk.busy.clear()
        sender = threading.Thread(target=writer.submit, args=(messages("mine"), answers))
        sender.start()
        assert disk.busy.wait(PATIENCE_S)
        writer.submit(messages("a"), answers)
        writer.submit(messages("b"), answers)
        disk.ready.set()
        sender.join(PATIENCE_S)

    assert disk.groups == [[b"first"], [b"mine"], [b"a", b"b"]]
    assert disk.threads[1] == sender.ident
    assert disk.threads[2] == disk.threads[0]


def test_the_end_waits_for_a_sender_that_writes() -> None:
    disk, answers = Disk(), Answers()
    with writing(disk) as (writer, _):
        taught(writer, disk, answers)
        disk.ready.clear()
        disk.busy.clear()
        sender = threading.Thread(target=writer.submit, args=(messages("mine"), answers))
        sender.start()
        assert disk.busy.wait(PATIENCE_S)
        stopping = threading.Thread(target=writer.stop)
        stopping.start()
        wait_until(lambda: writer._is_stopping, "the beginning of the end")
        assert stopping.is_alive()
        disk.ready.set()
        stopping.join(PATIENCE_S)

        assert answers.ids() == [["first"], ["mine"]]


def test_a_sender_that_writes_hears_of_a_closed_store_like_all_others() -> None:
    disk, answers = Disk(), Answers()
    with writing(disk) as (writer, failures):
        taught(writer, disk, answers)
        disk.error = StoreClosed("the disk is gone")
        writer.submit(messages("mine"), answers)

        assert answers.given[1] is disk.error
        assert failures == [disk.error]
        assert not writer._is_writing


def test_senders_and_the_writer_take_turns_and_every_message_is_written_once_in_order() -> None:
    disk, answers = Disk(), Answers()
    count = 400
    with writing(disk, count_max=100_000) as (writer, _):
        taught(writer, disk, answers)
        wanted = [[b"%d/%d" % (thread, number) for number in range(count)] for thread in range(4)]

        def send(mine: list[bytes]) -> None:
            for body in mine:
                writer.submit([Message(topic="t", body=body)], answers)

        threads = [threading.Thread(target=send, args=(mine,)) for mine in wanted]
        for each in threads:
            each.start()
        for each in threads:
            each.join(PATIENCE_S)

    written = [body for group in disk.groups for body in group]
    assert sorted(written[1:]) == sorted(body for mine in wanted for body in mine)
    for thread, mine in enumerate(wanted):
        assert [body for body in written if body.startswith(b"%d/" % thread)] == mine
    assert len(answers.given) == 4 * count + 1
