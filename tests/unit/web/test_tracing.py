"""A message's trace reaches a collector: a real broker, real clients, OTLP over HTTP."""

from __future__ import annotations

import asyncio
import logging
import queue
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import (
    ExportTraceServiceRequest,
    ExportTraceServiceResponse,
)
from tests.ports import free_port
from tests.unit.server.local import running, small_config
from tests.unit.web.local import site_of
from tests.waiting import PATIENCE_S, wait_until

from dueline.client import Consumer, Producer, Received, SimpleConsumer
from dueline.clock import Clock
from dueline.web.gateway import Gateway
from dueline.web.tracing import tracing

TRACE_ID, SPAN_ID = "0af7651916cd43dd8448eb211c80319c", "b7ad6b7169203331"
PARENT = {"traceparent": f"00-{TRACE_ID}-{SPAN_ID}-01"}


class Collector:
    """What was posted to it, decoded."""

    def __init__(self) -> None:
        self.spans: list[Any] = []
        self.types: set[str] = set()

    def named(self, *names: str) -> list[Any] | None:
        """The spans with these names, once all are here; None before."""
        found = [[span for span in self.spans if span.name == name] for name in names]
        return [each[0] for each in found] if all(found) else None


@contextmanager
def collecting(collector: Collector) -> Iterator[str]:
    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers["Content-Length"]))
            request = ExportTraceServiceRequest.FromString(body)
            collector.types.add(f"{self.path} {self.headers['Content-Type']}")
            collector.spans += [
                span
                for resource in request.resource_spans
                for scope in resource.scope_spans
                for span in scope.spans
            ]
            self.send_response(200)
            self.end_headers()
            self.wfile.write(ExportTraceServiceResponse().SerializeToString())

        def log_message(self, *args: object) -> None:
            """Say nothing."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_address[1]}"
    finally:
        server.shutdown()
        thread.join(PATIENCE_S)
        server.server_close()


@pytest.mark.slow
def test_a_trace_goes_from_send_to_receive(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    collector, came = Collector(), queue.Queue[Received]()
    with collecting(collector) as url, running(small_config(tmp_path)) as broker:
        monkeypatch.setenv("OTEL_EXPORTER_OTLP_ENDPOINT", url)
        monkeypatch.setenv("OTEL_BSP_SCHEDULE_DELAY", "100")
        names = broker.remoting_options.name_server
        assert names is not None
        address = f"127.0.0.1:{names.port}"
        with site_of(broker.address), Producer(address) as producer:
            wait_until(lambda: broker.broker.reading.traces.is_on or None, "the first question")
            before_ms = Clock().now_ms()
            sent = producer.send("orders", b"x", delay="300ms", properties=PARENT)
            producer.send("orders", b"not traced", delay="300ms")
            with Consumer(address, "orders", "billing", came.put):
                bodies = {came.get(timeout=PATIENCE_S).body for _ in range(2)}
            with SimpleConsumer(address, "orders", "audit") as consumer:
                # One that waits in another queue may come in another answer.
                others: set[bytes] = set()
                while not bodies <= others:
                    taken = wait_until(consumer.receive, "a message for another group")
                    others |= {each.message.body for each in taken}
            spans = wait_until(
                lambda: collector.named("send orders", "wait orders", "receive orders"), "spans"
            )
            wait_until(lambda: len(collector.spans) >= 4 or None, "a span of each group")

    assert bodies == {b"x", b"not traced"}
    assert collector.types == {"/v1/traces application/x-protobuf"}
    assert {span.trace_id.hex() for span in collector.spans} == {TRACE_ID}
    send, wait, receive = spans
    assert send.parent_span_id.hex() == SPAN_ID
    assert wait.parent_span_id == receive.parent_span_id == send.span_id
    assert wait.start_time_unix_nano == send.end_time_unix_nano
    assert wait.end_time_unix_nano >= (before_ms + 300) * 1_000_000
    attributes = {each.key: each.value.string_value for each in send.attributes}
    assert attributes["messaging.message.id"] == sent.id
    groups = {
        each.value.string_value
        for span in collector.spans
        for each in span.attributes
        if each.key == "messaging.consumer.group.name"
    }
    assert groups == {"billing", "audit"}


@pytest.mark.parametrize(
    ("environ", "said"),
    [
        ({}, ""),
        ({"OTEL_EXPORTER_OTLP_ENDPOINT": ""}, ""),
        ({"OTEL_EXPORTER_OTLP_ENDPOINT": "http://x", "OTEL_SDK_DISABLED": "true"}, ""),
        ({"OTEL_EXPORTER_OTLP_ENDPOINT": "http://x", "OTEL_TRACES_EXPORTER": "none"}, ""),
        (
            {"OTEL_EXPORTER_OTLP_ENDPOINT": "http://x", "OTEL_EXPORTER_OTLP_PROTOCOL": "grpc"},
            "expected the protocol http/protobuf, found grpc",
        ),
    ],
)
def test_without_a_collector_nobody_is_asked(
    environ: dict[str, str], said: str, caplog: pytest.LogCaptureFixture
) -> None:
    async def run() -> int:
        gateway = Gateway(f"127.0.0.1:{free_port()}")
        async with tracing(gateway, environ):
            count = len(asyncio.all_tasks())
        gateway.close()
        return count

    with caplog.at_level(logging.WARNING):
        assert asyncio.run(run()) == 1, "a task asks the broker"
    assert said in caplog.text
    assert bool(caplog.text) == bool(said)


def test_missing_packages_are_named(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.delitem(sys.modules, "dueline.web.spans", raising=False)
    monkeypatch.setitem(sys.modules, "opentelemetry", None)

    async def run() -> None:
        gateway = Gateway(f"127.0.0.1:{free_port()}")
        async with tracing(gateway, {"OTEL_EXPORTER_OTLP_ENDPOINT": "http://x"}):
            pass
        gateway.close()

    asyncio.run(run())

    assert "install dueline[otel]" in caplog.text


def test_a_broker_that_is_away_is_asked_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr("dueline.web.tracing.PAUSE_S", 0.05)
    config = small_config(tmp_path, **{"listen.flight": f"127.0.0.1:{free_port()}"})
    with collecting(Collector()) as url:
        monkeypatch.setenv("OTEL_EXPORTER_OTLP_ENDPOINT", url)
        with site_of(config.listen.flight):
            wait_until(lambda: "asked in vain" in caplog.text or None, "a complaint")
            with running(config) as broker:
                wait_until(lambda: broker.broker.reading.traces.is_on or None, "a question")
                assert caplog.text.count("asked in vain") == 1


def test_the_web_process_loads_nothing_of_it_unless_it_is_wanted() -> None:
    code = "import sys, dueline.web.server; print([m for m in sys.modules if 'opentelemetry' in m])"

    found = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)

    assert found.stdout.strip() == "[]"
