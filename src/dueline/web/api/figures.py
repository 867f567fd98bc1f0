"""How it is going: the report, figures for monitors, the last day, the settings."""

from __future__ import annotations

from typing import Any, Final

from dueline.flight import console
from dueline.flight.operators import Report, Reported
from dueline.web.endpoint import Endpoint
from dueline.web.gateway import Gateway

__all__ = ["ENDPOINTS"]


async def _report(gateway: Gateway, params: Any, body: None) -> Reported:
    return await gateway.ask(Report(), Reported)


async def _measure(gateway: Gateway, params: Any, body: None) -> console.Measured:
    return await gateway.ask(console.Measure(), console.Measured)


async def _history(gateway: Gateway, params: Any, body: None) -> console.HistoryRead:
    return await gateway.ask(console.ReadHistory(), console.HistoryRead)


async def _settings(gateway: Gateway, params: Any, body: None) -> console.SettingList:
    return await gateway.ask(console.ListSettings(), console.SettingList)


ENDPOINTS: Final = (
    Endpoint(
        method="GET",
        path="/api/v1/report",
        name="report",
        summary="Counters since the broker's start, what waits, lateness, the pipeline",
        tag="figures",
        handle=_report,
        answer=Reported,
    ),
    Endpoint(
        method="GET",
        path="/api/v1/measures",
        name="measures",
        summary="What a monitor wants to know; `/metrics` has the same for Prometheus",
        tag="figures",
        handle=_measure,
        answer=console.Measured,
    ),
    Endpoint(
        method="GET",
        path="/api/v1/history",
        name="history",
        summary="The last day, minute by minute, and the last batches of the pipeline",
        tag="figures",
        handle=_history,
        answer=console.HistoryRead,
    ),
    Endpoint(
        method="GET",
        path="/api/v1/settings",
        name="settings",
        summary="Every setting of the broker; secrets are masked",
        tag="figures",
        handle=_settings,
        answer=console.SettingList,
    ),
)
