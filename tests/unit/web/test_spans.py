"""Spans say what the broker told: their times, their parents, and who got a message."""

from __future__ import annotations

import pytest
from opentelemetry.sdk.trace import ReadableSpan
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

from dueline.flight.console import TracedHandOut, TracedMessage, TracesRead
from dueline.web import spans as module
from dueline.web.spans import Spans

TRACE_ID, SPAN_ID = 0x0AF7651916CD43DD8448EB211C80319C, 0xB7AD6B7169203331
MESSAGE = TracedMessage(
    topic="orders",
    queue_id=3,
    queue_offset=17,
    unique_id="u1",
    traceparent=f"00-{TRACE_ID:032x}-{SPAN_ID:016x}-01",
    tracestate="",
    size_bytes=5,
    sent_ms=1_000,
    accepted_ms=1_004,
    due_ms=9_000,
    visible_ms=9_002,
)
HANDED = TracedHandOut(message=MESSAGE, group="billing", attempt=1, handed_ms=9_010)


def made(*found: TracesRead) -> list[ReadableSpan]:
    exporter = InMemorySpanExporter()
    spans = Spans(exporter)
    for each in found:
        spans.tell(each)
    spans.close()
    return list(exporter.get_finished_spans())


def told(*messages: TracedMessage, handed: tuple[TracedHandOut, ...] = ()) -> TracesRead:
    return TracesRead(messages=messages, handed=handed, lost_count=0, has_more=False)


def times_ms(span: ReadableSpan) -> tuple[float, float]:
    return (span.start_time or 0) / 1e6, (span.end_time or 0) / 1e6


def test_a_message_is_sent_waits_and_is_received_in_the_trace_of_its_producer() -> None:
    send, wait, receive = made(told(MESSAGE), told(handed=(HANDED,)))

    assert [each.name for each in (send, wait, receive)] == [
        "send orders",
        "wait orders",
        "receive orders",
    ]
    assert {each.context.trace_id for each in (send, wait, receive)} == {TRACE_ID}
    assert send.parent is not None
    assert send.parent.span_id == SPAN_ID
    for child in (wait, receive):
        assert child.parent is not None
        assert child.parent.span_id == send.context.span_id
    assert times_ms(send) == (1_000, 1_004)
    assert times_ms(wait) == (1_004, 9_002)
    assert times_ms(receive) == (9_002, 9_010)
    assert wait.attributes is not None
    assert wait.attributes["dueline.late_ms"] == 2
    assert wait.attributes["messaging.rocketmq.message.delivery_timestamp"] == 9_000
    assert receive.attributes is not None
    assert receive.attributes["messaging.consumer.group.name"] == "billing"
    assert receive.attributes["messaging.destination.partition.id"] == "3"


def test_an_ordinary_message_does_not_wait() -> None:
    now = MESSAGE.changed(due_ms=None, accepted_ms=1_004, visible_ms=1_004)

    assert [each.name for each in made(told(now))] == ["send orders"]


def test_a_producer_whose_clock_is_ahead_sends_in_no_time() -> None:
    send = made(told(MESSAGE.changed(sent_ms=5_000)))[0]

    assert times_ms(send) == (1_004, 1_004)


def test_without_the_time_of_acceptance_it_waits_from_the_start() -> None:
    send, wait = made(told(MESSAGE.changed(accepted_ms=None, due_ms=None)))

    assert times_ms(send) == (1_000, 1_000)
    assert times_ms(wait) == (1_000, 9_002)


def test_a_hand_out_of_an_unknown_message_is_a_child_of_its_producer(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(module, "SENDS_MAX", 1)
    again = HANDED.changed(attempt=2, handed_ms=20_000)
    newer = MESSAGE.changed(queue_offset=18)

    *_, receive = made(told(MESSAGE, newer), told(handed=(again,)))

    assert receive.parent is not None
    assert receive.parent.span_id == SPAN_ID
    assert times_ms(receive) == (20_000, 20_000)


def test_the_sampler_of_the_environment_decides(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OTEL_TRACES_SAMPLER", "always_off")

    assert made(told(MESSAGE)) == []


@pytest.mark.parametrize(("given", "expected"), [("", "dueline"), ("shop", "shop")])
def test_the_service_has_a_name(monkeypatch: pytest.MonkeyPatch, given: str, expected: str) -> None:
    monkeypatch.setenv("OTEL_SERVICE_NAME", given)

    assert made(told(MESSAGE))[0].resource.attributes["service.name"] == expected
