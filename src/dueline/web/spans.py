"""Spans of messages, exported over OTLP. The only module that imports OpenTelemetry.

    send orders       from the producer's clock to acceptance      child of the `traceparent` sent
      wait orders     from acceptance until consumers could see it
      receive orders  from then until a client of a group had it; later attempts: a moment

Names of attributes are OpenTelemetry's for messaging where it has one. The standard variables hold:
endpoint, headers, timeouts, sampler, batches, resource. What cannot be exported is dropped by the
exporter, after its queue is full, and said in the log. For one thread.
"""

from __future__ import annotations

import logging
import threading
from collections import OrderedDict
from typing import Final

from opentelemetry import trace
from opentelemetry.context import Context
from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
from opentelemetry.sdk.resources import SERVICE_NAME, Resource
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import BatchSpanProcessor, SpanExporter
from opentelemetry.trace import SpanKind
from opentelemetry.trace.propagation.tracecontext import TraceContextTextMapPropagator
from opentelemetry.util.types import AttributeValue

from dueline import __version__
from dueline.flight.console import TracedHandOut, TracedMessage, TracesRead

__all__ = ["Spans"]

SENDS_MAX: Final = 10_000
"""Messages whose hand-outs find their `send`; of older ones they are children of its parent."""
CLOSE_S_MAX: Final = 2.0
_UNNAMED: Final = "unknown_service"
_NS: Final = 1_000_000

log = logging.getLogger(__name__)


class Spans:
    """Makes spans and exports them."""

    def __init__(self, exporter: SpanExporter | None = None) -> None:
        resource = Resource.create()
        if str(resource.attributes.get(SERVICE_NAME, _UNNAMED)).startswith(_UNNAMED):
            resource = resource.merge(Resource({SERVICE_NAME: "dueline"}))
        self._provider = TracerProvider(resource=resource, shutdown_on_exit=False)
        self._provider.add_span_processor(BatchSpanProcessor(exporter or OTLPSpanExporter()))
        self._tracer = self._provider.get_tracer("dueline", __version__)
        self._propagator = TraceContextTextMapPropagator()
        self._sends: OrderedDict[tuple[str, int, int], Context] = OrderedDict()

    def tell(self, found: TracesRead) -> None:
        """Make spans of what the broker has told."""
        for message in found.messages:
            self._sends[_key(message)] = self._message(message)
            if len(self._sends) > SENDS_MAX:
                self._sends.popitem(last=False)
        for handed in found.handed:
            self._handed(handed)
        if found.lost_count:
            log.warning("traces: %d hand-outs were not asked for in time", found.lost_count)

    def close(self) -> None:
        """Export what is left, for a moment at most."""
        closing = threading.Thread(target=self._provider.shutdown, daemon=True)
        closing.start()
        closing.join(CLOSE_S_MAX)

    def _message(self, message: TracedMessage) -> Context:
        accepted_ms = message.sent_ms if message.accepted_ms is None else message.accepted_ms
        context = self._span(
            "send",
            message,
            self._parent(message),
            start_ms=min(message.sent_ms, accepted_ms),  # a producer's clock may be ahead of ours
            end_ms=accepted_ms,
        )
        if message.visible_ms > accepted_ms:
            due: dict[str, AttributeValue] = {}
            if message.due_ms is not None:
                due = {
                    "messaging.rocketmq.message.delivery_timestamp": message.due_ms,
                    "dueline.late_ms": max(message.visible_ms - message.due_ms, 0),
                }
            times = {"start_ms": accepted_ms, "end_ms": message.visible_ms}
            self._span("wait", message, context, due, kind=SpanKind.INTERNAL, **times)
        return context

    def _handed(self, handed: TracedHandOut) -> None:
        message = handed.message
        visible_ms = min(message.visible_ms, handed.handed_ms)
        self._span(
            "receive",
            message,
            self._sends.get(_key(message)) or self._parent(message),
            {
                "messaging.consumer.group.name": handed.group,
                "dueline.attempt": handed.attempt,
            },
            start_ms=visible_ms if handed.attempt == 1 else handed.handed_ms,
            end_ms=handed.handed_ms,
        )

    def _parent(self, message: TracedMessage) -> Context:
        carried = {"traceparent": message.traceparent, "tracestate": message.tracestate}
        return self._propagator.extract(carried, Context())

    def _span(  # noqa: PLR0913 - what a span is
        self,
        verb: str,
        message: TracedMessage,
        parent: Context,
        attributes: dict[str, AttributeValue] | None = None,
        *,
        kind: SpanKind = SpanKind.SERVER,
        start_ms: int,
        end_ms: int,
    ) -> Context:
        """Make a span that is over; returns what its children are made in."""
        span = self._tracer.start_span(
            f"{verb} {message.topic}",
            parent,
            kind,
            {
                "messaging.system": "rocketmq",
                "messaging.operation.name": verb,
                "messaging.destination.name": message.topic,
                "messaging.destination.partition.id": str(message.queue_id),
                "messaging.message.id": message.unique_id,
                "messaging.message.body.size": message.size_bytes,
                **(attributes or {}),
            },
            start_time=start_ms * _NS,
        )
        span.end(end_ms * _NS)
        return trace.set_span_in_context(span, Context())


def _key(message: TracedMessage) -> tuple[str, int, int]:
    return message.topic, message.queue_id, message.queue_offset
