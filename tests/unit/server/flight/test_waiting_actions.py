"""What waits, over Flight: filtered, counted, looked ahead at, described and changed by jobs."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.unit.server.local import (
    carry,
    outgoing,
    running,
    send,
    small_config,
    visible_bodies,
)
from tests.waiting import wait_until

from dueline.errors import InvalidRequest, LimitExceeded, NotFound
from dueline.flight import waiting
from dueline.flight.operators import OperatorClient
from dueline.flight.waiting import PendingFilter
from dueline.server.process import BrokerProcess

HOUR_MS = 3_600_000
MAIL = PendingFilter(topic="mail")


@pytest.fixture
def broker(tmp_path: Path) -> Iterator[BrokerProcess]:
    with running(small_config(tmp_path)) as broker:
        for number in range(30):
            topic = ("orders", "mail")[number % 2]
            delay_ms = HOUR_MS + number * 1_000
            send(
                broker,
                outgoing(
                    f"m{number}",
                    topic=topic,
                    TIMER_DELAY_MS=str(delay_ms),
                    KEYS=f"k-{number}",
                    TAGS="ab"[number % 3 == 0],
                ),
            )
        yield broker


@pytest.fixture
def client(broker: BrokerProcess) -> Iterator[OperatorClient]:
    with OperatorClient(broker.address) as client:
        yield client


def finished(client: OperatorClient, job: waiting.Job) -> waiting.Job:
    def ended() -> waiting.Job | None:
        found = client.ask(waiting.FindJob(number=job.number), waiting.Job)
        return found if found.ended_ms is not None else None

    return wait_until(ended, "the job's end")


def test_what_waits_is_counted_and_listed(client: OperatorClient) -> None:
    tagged = PendingFilter(topic="mail", tag="b")

    counted = client.ask(waiting.CountMatching(filter=tagged), waiting.MatchingCount)
    page = client.ask(waiting.ListMatching(filter=tagged, limit=3), waiting.MatchingPage)
    rest = client.ask(
        waiting.ListMatching(filter=tagged, limit=100, cursor=page.cursor), waiting.MatchingPage
    )

    assert (counted.count, counted.topics, counted.cursor) == (5, {"mail": 5}, None)
    assert [row.keys for row in (*page.rows, *rest.rows)] == ["k-3", "k-9", "k-15", "k-21", "k-27"]
    assert rest.cursor is None


def test_the_road_ahead(broker: BrokerProcess, client: OperatorClient) -> None:
    now_ms = broker.clock.now_ms()
    carry(broker.store, ahead_ms=HOUR_MS + 5_000)

    road = client.ask(
        waiting.LookAhead(start_ms=now_ms, end_ms=now_ms + 2 * HOUR_MS, bucket_ms=HOUR_MS),
        waiting.Road,
    )

    assert sum(road.counts) == 30
    assert {name: sum(counts) for name, counts in road.topics.items()} == {"orders": 15, "mail": 15}
    assert road.at_gate > 0


def test_one_message_is_described(client: OperatorClient) -> None:
    request = waiting.DescribeMessage(number=4, body_bytes_max=10)

    (entry,) = client.ask(request, waiting.MessageEntries).entries
    by_id = client.ask(waiting.DescribeMessage(unique_id=entry.unique_id), waiting.MessageEntries)

    assert (entry.body, entry.keys, entry.state, entry.topic) == (b"m4", "k-4", "pending", "orders")
    assert [event.name for event in entry.events] == ["accepted"]
    assert by_id.entries[0].number == 4
    with pytest.raises(NotFound):
        client.ask(waiting.DescribeMessage(number=1_000), waiting.MessageEntries)


def test_a_job_cancels_what_matches(broker: BrokerProcess, client: OperatorClient) -> None:
    job = client.ask(waiting.StartJob(action="cancel", filter=MAIL), waiting.Job)

    job = finished(client, job)

    assert (job.state, job.total, job.answers.done, job.filter) == ("done", 15, 15, MAIL)
    assert broker.store.survey().pending_by_topic() == {"orders": 15}
    assert client.ask(waiting.ListJobs(), waiting.JobList).jobs == (job,)
    assert client.ask(waiting.StopJob(number=job.number), waiting.Job).state == "done"


def test_a_job_delivers_now(broker: BrokerProcess, client: OperatorClient) -> None:
    first = PendingFilter(where="number < 6 and topic = 'orders'")
    job = finished(
        client, client.ask(waiting.StartJob(action="deliver", filter=first), waiting.Job)
    )

    carry(broker.store)

    assert job.answers.done == 3
    found = wait_until(
        lambda: len(each := visible_bodies(broker)) == 3 and each, "the messages to be visible"
    )
    assert found == ["m0", "m2", "m4"]


def test_jobs_outlive_the_broker(tmp_path: Path) -> None:
    config = small_config(tmp_path)
    with running(config) as broker, OperatorClient(broker.address) as client:
        send(broker, outgoing("x", TIMER_DELAY_MS=str(HOUR_MS)))
        job = finished(
            client,
            client.ask(waiting.StartJob(action="cancel", filter=PendingFilter()), waiting.Job),
        )
    with running(config) as broker, OperatorClient(broker.address) as client:
        assert client.ask(waiting.FindJob(number=job.number), waiting.Job) == job


def test_numbers_are_changed_at_once(broker: BrokerProcess, client: OperatorClient) -> None:
    due_ms = broker.clock.now_ms() + 2 * HOUR_MS
    move = waiting.ChangeNumbers(
        action="reschedule", numbers=(1, 2, 99), dues_ms=(due_ms, due_ms + 1, due_ms)
    )

    first = client.ask(move, waiting.NumberAnswers)
    again = client.ask(move, waiting.NumberAnswers)
    cancel = waiting.ChangeNumbers(action="cancel", numbers=(1, 3))

    assert first.answers == again.answers == ("done", "done", "unknown")
    assert client.ask(cancel, waiting.NumberAnswers).answers == ("too late", "done")
    assert broker.store.pending_count() == 29


def test_requests_without_sense_are_refused(client: OperatorClient) -> None:
    with pytest.raises(InvalidRequest, match="expected a column"):
        client.ask(waiting.CountMatching(filter=PendingFilter(where="x")), waiting.MatchingCount)
    with pytest.raises(InvalidRequest, match="a filter or numbers"):
        client.ask(waiting.StartJob(action="cancel"), waiting.Job)
    with pytest.raises(InvalidRequest, match="a time for each number"):
        client.ask(
            waiting.ChangeNumbers(action="reschedule", numbers=(1, 2), dues_ms=(1,)),
            waiting.NumberAnswers,
        )
    with pytest.raises(LimitExceeded, match="start a job"):
        client.ask(
            waiting.ChangeNumbers(action="cancel", numbers=tuple(range(10_001))),
            waiting.NumberAnswers,
        )


def test_rules_are_set_and_told(broker: BrokerProcess, client: OperatorClient) -> None:
    carry(broker.store, ahead_ms=2 * HOUR_MS)

    answer = client.ask(waiting.SetRule(topic="mail", is_paused=True, rate=5), waiting.RuleList)

    (rule,) = answer.rules
    assert (rule.topic, rule.is_paused, rule.rate, rule.pending) == ("mail", True, 5, 15)
    assert broker.store.survey().pending_by_topic() == {"mail": 15}
    assert client.ask(waiting.ListRules(), waiting.RuleList) == answer
    resumed = client.ask(waiting.SetRule(topic="mail", is_paused=False), waiting.RuleList)
    assert [each.is_paused for each in resumed.rules] == [False]


def test_a_crowd_beyond_the_rate_is_forecast(client: OperatorClient) -> None:
    client.ask(waiting.SetRule(topic="mail", rate=1), waiting.RuleList)
    assert client.ask(waiting.AskForecast(), waiting.Forecast).crowds == ()
    with pytest.raises(InvalidRequest, match="ahead_ms"):
        client.ask(waiting.AskForecast(ahead_ms=1), waiting.Forecast)
