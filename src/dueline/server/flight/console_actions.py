"""What the web process asks: figures, topics, groups, dead letters, one message, sending."""

from __future__ import annotations

import itertools
from collections.abc import Mapping
from dataclasses import asdict
from typing import Final

from dueline.admission import check_properties
from dueline.broker import Broker
from dueline.broker.access import Action
from dueline.broker.dead_letters import Letter
from dueline.broker.directory import GroupEntry, TopicEntry, page_of
from dueline.broker.distribution import Distribution
from dueline.broker.inspecting import Story
from dueline.broker.progress import TO_END_MS
from dueline.broker.sending import Sending
from dueline.broker.topics import TopicConfig
from dueline.broker.writing import Results, accepted
from dueline.config import Config, settings
from dueline.errors import InvalidRequest, NotFound
from dueline.flight import console
from dueline.message import Message
from dueline.server.flight.answering import Handler, handler
from dueline.server.flight.call_loop import CallLoop
from dueline.server.flight.callers import may
from dueline.settings import masked

__all__ = ["ConsoleActions"]

_PREVIEW_SIZE: Final = 4_096
_TIMES: Final = {
    "deliver_at_ms": "TIMER_DELIVER_MS",
    "delay_ms": "TIMER_DELAY_MS",
    "delay_level": "DELAY",
}


class ConsoleActions:
    """The requests of `dueline.flight.console`, by their names in `table`."""

    def __init__(self, broker: Broker, config: Config) -> None:
        self._broker = broker
        self._config = config
        self._turns = itertools.count()
        self.table: Final[dict[str, Handler]] = {
            "measure": handler(console.Measure, self._measure),
            "read_history": handler(console.ReadHistory, self._history),
            "list_settings": handler(console.ListSettings, self._settings),
            "list_topics": handler(console.ListTopics, self._topics),
            "create_topic": handler(console.CreateTopic, self._create_topic),
            "delete_topic": handler(console.DeleteTopic, self._delete_topic),
            "list_groups": handler(console.ListGroups, self._groups),
            "reset_group": handler(console.ResetGroup, self._reset),
            "list_dead_letters": handler(console.ListDeadLetters, self._dead_letters),
            "resend_dead_letter": handler(console.ResendDeadLetter, self._resend),
            "list_undecided": handler(console.ListUndecided, self._undecided),
            "inspect": handler(console.Inspect, self._inspect),
            "send": handler(console.Send, self._send),
            "read_traces": handler(console.ReadTraces, self._traces),
        }

    # Figures

    def _measure(self, request: console.Measure) -> console.Measured:
        found, history = self._broker.measures.snapshot(), self._broker.measures.history
        return console.Measured(
            cluster=self._config.messaging.cluster,
            runway_ms=found.runway_ms,
            ahead_ms=self._config.delivery.runway_ms,
            horizons={str(each): count for each, count in found.horizons.items()},
            topics=tuple(console.MeasuredTopic(**asdict(each)) for each in found.topics),
            places=tuple(console.MeasuredPlace(**asdict(each)) for each in found.places),
            is_cut=found.is_cut,
            disk_used_bytes=found.disk_used_bytes,
            disk_free_bytes=found.disk_free_bytes,
            first_stored_ms=found.first_stored_ms,
            undecided_count=len(self._broker.transactions),
            lateness_ms=_histogram(history.lateness_ms),
            sync_s=_histogram(history.sync_s),
            group_rows=_histogram(history.group_rows),
            batch_rows=_histogram(history.batch_rows),
        )

    def _history(self, request: console.ReadHistory) -> console.HistoryRead:
        history = self._broker.measures.history
        return console.HistoryRead(
            now_ms=self._broker.clock.now_ms(),
            minutes=tuple(console.MinuteFigures(**asdict(each)) for each in history.minutes()),
            batches=tuple(console.BatchFigures(**asdict(each)) for each in history.batches()),
        )

    def _settings(self, request: console.ListSettings) -> console.SettingList:
        return console.SettingList(
            settings=tuple(
                console.SettingValue(
                    name=each.name,
                    value=each.kind.show(masked(each.value_in(self._config))),
                    default=each.kind.show(each.default),
                    text=each.text,
                )
                for each in settings()
            )
        )

    def _traces(self, request: console.ReadTraces) -> console.TracesRead:
        found = self._broker.reading.traces.read()
        return console.TracesRead(
            messages=tuple(console.TracedMessage(**asdict(each)) for each in found.messages),
            handed=tuple(
                console.TracedHandOut(
                    message=console.TracedMessage(**asdict(each.message)),
                    group=each.group,
                    attempt=each.attempt,
                    handed_ms=each.handed_ms,
                )
                for each in found.handed
            ),
            lost_count=found.lost_count,
            has_more=found.has_more,
        )

    # Topics and groups

    def _topics(self, request: console.ListTopics) -> console.TopicList:
        request.check()
        directory = self._broker.directory
        names = directory.topic_names(contains=request.contains, is_internal=request.is_internal)
        page = page_of(names, after=request.after, count_max=request.count_max)
        return console.TopicList(
            topics=tuple(_topic(directory.topic(name)) for name in page.names),
            next=page.next,
            retention_ms=self._config.store.retention_ms,
        )

    def _create_topic(self, request: console.CreateTopic) -> console.TopicChanged:
        if request.queue_count < 1:
            raise InvalidRequest(
                f"queue_count: expected 1 or more, found {request.queue_count}",
                field="queue_count",
            )
        count = request.queue_count
        config = TopicConfig(
            topic_name=request.topic, read_queue_nums=count, write_queue_nums=count
        )
        self._broker.topics.configure(config, {})
        return console.TopicChanged(topic=request.topic)

    def _delete_topic(self, request: console.DeleteTopic) -> console.TopicChanged:
        if not self._broker.topics.delete(request.topic):
            raise NotFound(
                f"topic {request.topic[:200]}: expected one that exists, found none", what="topic"
            )
        self._broker.topics.save()
        return console.TopicChanged(topic=request.topic)

    def _groups(self, request: console.ListGroups) -> console.GroupList:
        request.check()
        directory = self._broker.directory
        names = directory.group_names(contains=request.contains)
        page = page_of(names, after=request.after, count_max=request.count_max)
        return console.GroupList(
            groups=tuple(_group(directory.group(name)) for name in page.names), next=page.next
        )

    def _reset(self, request: console.ResetGroup) -> console.GroupReset:
        self._broker.group_table.existing(request.group)
        at_ms = TO_END_MS if request.timestamp_ms is None else max(request.timestamp_ms, 0)
        found = self._broker.progress.reset(request.group, request.topic, timestamp_ms=at_ms)
        return console.GroupReset(offsets={str(each): offset for each, offset in found.items()})

    # Dead letters and transactions

    def _dead_letters(self, request: console.ListDeadLetters) -> console.DeadLetterList:
        request.check()
        found = self._broker.dead_letters.newest(
            request.group, before=request.before, count_max=request.count_max
        )
        return console.DeadLetterList(letters=tuple(map(_letter, found.letters)), next=found.next)

    def _resend(self, request: console.ResendDeadLetter) -> console.DeadLetterResent:
        message = self._broker.dead_letters.again(
            request.group, request.offset, is_to_topic=request.is_to_topic
        )
        sent = self._put(message) if request.is_to_topic else self._forward(message)
        return console.DeadLetterResent(unique_id=sent.unique_id)

    def _undecided(self, request: console.ListUndecided) -> console.UndecidedList:
        request.check()
        found = self._broker.transactions.undecided(count_max=request.count_max)
        return console.UndecidedList(
            count=len(self._broker.transactions),
            messages=tuple(
                console.Undecided(
                    topic=each.topic,
                    group=each.group,
                    stored_ms=each.store_ms,
                    ask_count=each.ask_count,
                )
                for each in found
            ),
        )

    # Messages

    def _inspect(self, request: console.Inspect) -> console.InspectedList:
        is_seen = may(Action.PUB | Action.SUB | Action.GET, Action.GET)
        stories = self._broker.inspecting.stories(request.name, topic=request.topic)
        found = [story for story in stories if is_seen(story.topic)]
        return console.InspectedList(
            now_ms=self._broker.clock.now_ms(), messages=tuple(map(_inspected, found))
        )

    def _send(self, request: console.Send) -> console.SentMessage:
        request.check()
        check_properties(request.properties)
        return self._put(_message(request), queue_id=request.queue_id)

    def _put(self, message: Message, *, queue_id: int | None = None) -> console.SentMessage:
        loop = CallLoop()
        sending = Sending(self._broker, loop)
        wanted = -1 if queue_id is None else queue_id
        destination = sending.destination(message.topic, queue_id=wanted)
        if queue_id is None:
            queue_id = next(self._turns) % destination.config.write_queue_nums
        answers: list[Results | BaseException] = []
        placed = Message(
            topic=message.topic,
            body=message.body,
            queue_id=queue_id,
            properties=message.properties,
            born_ms=self._broker.clock.now_ms(),
        )
        sending.send(destination, [placed], answers.append, size_bytes=len(message.body))
        return _sent(loop.until(answers))

    def _forward(self, message: Message) -> console.SentMessage:
        loop = CallLoop()
        answers: list[Results | BaseException] = []
        Sending(self._broker, loop).forward(message, answers.append)
        return _sent(loop.until(answers))


def _sent(results: Results | BaseException) -> console.SentMessage:
    if isinstance(results, BaseException):
        raise results
    (found,) = accepted(results)
    return console.SentMessage(
        unique_id=found.unique_id,
        topic=found.topic,
        queue_id=found.queue_id,
        due_ms=found.due_ms,
    )


def _message(request: console.Send) -> Message:
    properties: dict[str, str] = dict(request.properties)
    if request.keys:
        properties["KEYS"] = " ".join(request.keys)
    if request.tag:
        properties["TAGS"] = request.tag
    for field, name in _TIMES.items():
        value = getattr(request, field)
        if value is not None:
            properties[name] = str(value)
    return Message(topic=request.topic, body=request.body, properties=properties)


def _histogram(found: Distribution) -> console.Histogram:
    return console.Histogram(
        bounds=found.bounds, counts=tuple(found.counts.tolist()), total=found.total
    )


def _topic(entry: TopicEntry) -> console.TopicFigures:
    return console.TopicFigures(**asdict(entry))


def _group(entry: GroupEntry) -> console.GroupFigures:
    return console.GroupFigures(
        group=entry.group,
        retry_count_max=entry.retry_count_max,
        dead_letter_count=entry.dead_letter_count,
        clients=tuple(
            console.GroupClient(
                client_id=each.client_id,
                address=each.address,
                language=each.language,
                seen_ms=each.seen_ms,
            )
            for each in entry.clients
        ),
        topics=tuple(console.GroupTopic(**asdict(each)) for each in entry.topics),
    )


def _letter(letter: Letter) -> console.DeadLetter:
    return console.DeadLetter(
        offset=letter.offset,
        unique_id=letter.unique_id,
        topic=letter.topic,
        keys=letter.keys,
        attempts=letter.attempts,
        died_ms=letter.died_ms,
        body=letter.body[:_PREVIEW_SIZE],
        body_size_bytes=len(letter.body),
    )


def _inspected(story: Story) -> console.Inspected:
    properties: Mapping[str, str] = story.properties
    return console.Inspected(
        number=story.number,
        state=story.state,
        topic=story.topic,
        queue_id=story.queue_id,
        unique_id=story.unique_id,
        keys=properties.get("KEYS", ""),
        tag=properties.get("TAGS", ""),
        properties=dict(properties),
        born_ms=story.born_ms,
        accepted_ms=story.accepted_ms,
        due_ms=story.due_ms,
        place=console.Place(**asdict(story.place)) if story.place is not None else None,
        readers=tuple(
            console.Readership(group=group, has_read=has_read)
            for group, has_read in story.readers.items()
        ),
        body=bytes(story.body[: console.BODY_SIZE_MAX]),
        body_size_bytes=len(story.body),
    )
