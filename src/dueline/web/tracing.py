"""Traces of messages, where OpenTelemetry's variables name a collector; otherwise nothing is done.

    OTEL_EXPORTER_OTLP_ENDPOINT=http://127.0.0.1:4318 dueline serve

Once a second the broker is asked which messages with a trace became visible and who was handed
them; `spans` makes spans of that and exports them. All of it is after the fact and in the web
process: no message waits for a collector, and one that is down costs spans and nothing else.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager, suppress
from typing import TYPE_CHECKING, Final

from dueline.errors import BrokerError
from dueline.flight.console import ReadTraces, TracesRead
from dueline.web.gateway import Gateway, asking

if TYPE_CHECKING:
    from dueline.web.spans import Spans

__all__ = ["tracing"]

PAUSE_S: Final = 1.0
PROTOCOL: Final = "http/protobuf"
_ENDPOINTS: Final = ("OTEL_EXPORTER_OTLP_TRACES_ENDPOINT", "OTEL_EXPORTER_OTLP_ENDPOINT")
_PROTOCOLS: Final = ("OTEL_EXPORTER_OTLP_TRACES_PROTOCOL", "OTEL_EXPORTER_OTLP_PROTOCOL")

log = logging.getLogger(__name__)


@asynccontextmanager
async def tracing(gateway: Gateway, environ: Mapping[str, str]) -> AsyncIterator[None]:
    """Export traces meanwhile, if that is wanted."""
    spans = _spans(environ)
    if spans is None:
        yield
        return
    following = asyncio.create_task(_follow(gateway, spans))
    try:
        yield
    finally:
        following.cancel()
        with suppress(asyncio.CancelledError):
            await following
        await asyncio.to_thread(spans.close)


def _spans(environ: Mapping[str, str]) -> Spans | None:
    """Where spans go; None if nobody wants them, or if they cannot be made."""
    if environ.get("OTEL_SDK_DISABLED", "").lower() == "true":
        return None
    if environ.get("OTEL_TRACES_EXPORTER", "otlp") != "otlp":
        return None
    if not any(environ.get(name) for name in _ENDPOINTS):
        return None
    found = next((environ[name] for name in _PROTOCOLS if environ.get(name)), PROTOCOL)
    if found != PROTOCOL:
        log.warning("traces: expected the protocol %s, found %s; none are made", PROTOCOL, found)
        return None
    try:
        from dueline.web.spans import Spans  # some 300 ms to load
    except ImportError as error:
        log.warning(
            "traces: expected OpenTelemetry's packages, found that %s; none are made: install "
            "dueline[otel], or unset OTEL_EXPORTER_OTLP_ENDPOINT",
            error,
        )
        return None
    return Spans()


async def _follow(gateway: Gateway, spans: Spans) -> None:
    """Ask for traces until it is cancelled; a broker that is away is asked again."""
    is_away = False
    while True:
        has_more = False
        try:
            with asking(gateway.own):
                found = await gateway.ask(ReadTraces(), TracesRead)
        except BrokerError as error:
            if not is_away:
                log.warning("traces: the broker was asked in vain and will be again: %s", error)
            is_away = True
        else:
            is_away, has_more = False, found.has_more
            spans.tell(found)
        if not has_more:
            await asyncio.sleep(PAUSE_S)
