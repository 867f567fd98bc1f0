"""What is asked about what waits, and what is done with it."""

from __future__ import annotations

from dataclasses import asdict
from typing import Final

import numpy as np

from dueline.broker import Broker
from dueline.broker.access import Action
from dueline.broker.waiting import PendingFilter
from dueline.broker.waiting.changing import Change, change_numbers
from dueline.broker.waiting.jobs import JobOrder, JobReport
from dueline.broker.waiting.ledger_pages import LedgerFilter, ledger_page
from dueline.broker.waiting.road import road_ahead
from dueline.broker.waiting.story import Story, story_of
from dueline.errors import InvalidRequest, LimitExceeded
from dueline.flight import waiting
from dueline.server.flight.answering import Handler, handler
from dueline.server.flight.callers import caller, may

__all__ = ["WaitingActions"]

NUMBER_COUNT_MAX: Final = 10_000
_ANSWERS: Final = ("done", "too late", "unknown", "failed")


class WaitingActions:
    """The requests of `dueline.flight.waiting`, by their names in `table`."""

    def __init__(self, broker: Broker) -> None:
        self._broker = broker
        self.table: Final[dict[str, Handler]] = {
            "count_matching": handler(waiting.CountMatching, self._count),
            "list_matching": handler(waiting.ListMatching, self._list),
            "look_ahead": handler(waiting.LookAhead, self._look_ahead),
            "describe_message": handler(waiting.DescribeMessage, self._describe),
            "change_numbers": handler(waiting.ChangeNumbers, self._change),
            "start_job": handler(waiting.StartJob, self._start_job),
            "find_job": handler(waiting.FindJob, self._find_job),
            "stop_job": handler(waiting.StopJob, self._stop_job),
            "list_jobs": handler(waiting.ListJobs, self._list_jobs),
            "set_rule": handler(waiting.SetRule, self._set_rule),
            "list_rules": handler(waiting.ListRules, lambda request: self._rules()),
            "forecast": handler(waiting.AskForecast, self._forecast),
            "list_ledger": handler(waiting.ListLedger, self._ledger),
        }

    # Looking

    def _count(self, request: waiting.CountMatching) -> waiting.MatchingCount:
        found = self._broker.jobs.matching.count(_filter(request.filter), request.cursor)
        return waiting.MatchingCount(
            count=found.count,
            at_gate=found.at_gate_count,
            topics=found.by_topic,
            cursor=found.cursor,
        )

    def _list(self, request: waiting.ListMatching) -> waiting.MatchingPage:
        page = self._broker.jobs.matching.page(
            _filter(request.filter), limit=request.limit, cursor=request.cursor
        )
        rows = tuple(waiting.PendingRow(**asdict(row)) for row in page.rows)
        return waiting.MatchingPage(rows=rows, cursor=page.cursor)

    def _look_ahead(self, request: waiting.LookAhead) -> waiting.Road:
        road = road_ahead(
            self._broker.store,
            start_ms=request.start_ms,
            end_ms=request.end_ms,
            bucket_ms=request.bucket_ms,
            topic=request.topic,
        )
        return waiting.Road(
            start_ms=road.start_ms,
            bucket_ms=road.bucket_ms,
            counts=tuple(road.counts),
            topics={name: tuple(counts) for name, counts in road.by_topic.items()},
            before=road.before_count,
            after=road.after_count,
            at_gate=road.at_gate_count,
        )

    def _describe(self, request: waiting.DescribeMessage) -> waiting.MessageEntries:
        found = story_of(
            self._broker.store,
            number=request.number,
            unique_id=request.unique_id,
            body_bytes_max=request.body_bytes_max,
        )
        is_seen = may(Action.PUB | Action.SUB | Action.GET, Action.GET)
        return waiting.MessageEntries(
            entries=tuple(_entry(each) for each in found if is_seen(each.topic))
        )

    def _ledger(self, request: waiting.ListLedger) -> waiting.LedgerPage:
        wanted = LedgerFilter(topic=request.topic, outcome=request.outcome, late_ms=request.late_ms)
        page = ledger_page(self._broker.store, wanted, limit=request.limit, cursor=request.cursor)
        rows = tuple(waiting.LedgerRow(**row) for row in page.rows)
        return waiting.LedgerPage(rows=rows, cursor=page.cursor)

    # Changing

    def _change(self, request: waiting.ChangeNumbers) -> waiting.NumberAnswers:
        broker = self._broker
        broker.acceptance.check()
        count = len(request.numbers)
        if count > NUMBER_COUNT_MAX:
            raise LimitExceeded(
                f"numbers: expected at most {NUMBER_COUNT_MAX}, found {count}; start a job",
                limit=NUMBER_COUNT_MAX,
                found=count,
            )
        dues_ms = None
        due_ms = request.due_ms
        if request.dues_ms is not None:
            if len(request.dues_ms) != count or request.action != "reschedule":
                raise InvalidRequest(
                    "dues_ms: expected a time for each number, with the action reschedule"
                )
            dues_ms = np.array(request.dues_ms, dtype=np.int64)
            due_ms = max(request.dues_ms, default=0) if due_ms is None else due_ms
        change = Change(action=request.action, due_ms=due_ms, shift_ms=request.shift_ms)
        change.check(
            now_ms=broker.clock.now_ms(), delay_max_ms=broker.store_options.rules.delay_max_ms
        )
        numbers = np.array(request.numbers, dtype=np.int64)
        answers = change_numbers(broker.store, change, numbers, dues_ms)
        return waiting.NumberAnswers(answers=tuple(_ANSWERS[code] for code in answers.tolist()))

    def _start_job(self, request: waiting.StartJob) -> waiting.Job:
        self._broker.acceptance.check()
        change = Change(action=request.action, due_ms=request.due_ms, shift_ms=request.shift_ms)
        order = JobOrder(
            change=change,
            filter=None if request.filter is None else _filter(request.filter),
            numbers=request.numbers,
            token=request.token[:200],
            by=caller().user or "",
        )
        return _job(self._broker.jobs.start(order))

    def _find_job(self, request: waiting.FindJob) -> waiting.Job:
        return _job(self._broker.jobs.find(request.number))

    def _stop_job(self, request: waiting.StopJob) -> waiting.Job:
        return _job(self._broker.jobs.stop(request.number))

    def _list_jobs(self, request: waiting.ListJobs) -> waiting.JobList:
        return waiting.JobList(jobs=tuple(map(_job, self._broker.jobs.list())))

    # Rules

    def _set_rule(self, request: waiting.SetRule) -> waiting.RuleList:
        self._broker.acceptance.check()
        self._broker.rules.change(
            request.topic,
            is_paused=request.is_paused,
            rate=request.rate,
            expiry_ms=request.expiry_ms,
        )
        return self._rules()

    def _rules(self) -> waiting.RuleList:
        return waiting.RuleList(
            rules=tuple(
                waiting.TopicRule(
                    topic=rule.topic,
                    is_paused=rule.is_paused,
                    rate=rule.rate,
                    expiry_ms=rule.expiry_ms,
                    pending=rule.pending_count,
                    held_back=rule.held_back_count,
                )
                for rule in self._broker.rules.list()
            )
        )

    def _forecast(self, request: waiting.AskForecast) -> waiting.Forecast:
        found = self._broker.rules.forecast.crowds(request.ahead_ms)
        return waiting.Forecast(crowds=tuple(waiting.Crowd(**asdict(crowd)) for crowd in found))


def _filter(wanted: waiting.PendingFilter) -> PendingFilter:
    return PendingFilter(**wanted.to_json())


def _entry(story: Story) -> waiting.MessageEntry:
    plain = {
        name: getattr(story, name)
        for name in waiting.MessageEntry.__struct_fields__
        if name not in ("appended", "events")
    }
    appended = None
    if story.appended is not None:
        appended = waiting.Appended(**asdict(story.appended))
    return waiting.MessageEntry(
        **plain,
        appended=appended,
        events=tuple(
            waiting.MessageEvent(name=name, time_ms=time_ms) for name, time_ms in story.events
        ),
    )


def _job(report: JobReport) -> waiting.Job:
    order = report.order
    wanted = None if order.filter is None else waiting.PendingFilter(**asdict(order.filter))
    return waiting.Job(
        number=report.number,
        action=order.change.action,
        filter=wanted,
        number_count=None if order.numbers is None else len(order.numbers),
        due_ms=order.change.due_ms,
        shift_ms=order.change.shift_ms,
        by=order.by,
        state=report.state,
        started_ms=report.started_ms,
        ended_ms=report.ended_ms,
        total=report.total,
        matched=report.matched,
        answers=waiting.AnswerCounts(**asdict(report.tally)),
        error=report.error,
        is_resumed=report.is_resumed,
    )
