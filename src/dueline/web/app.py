"""The ASGI application: pages, API, health, metrics and static files around one gateway."""

from __future__ import annotations

import os
from collections.abc import AsyncIterator, Collection
from contextlib import asynccontextmanager
from functools import partial

import msgspec
from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.middleware import Middleware
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import BaseRoute, Mount, Route
from starlette.staticfiles import StaticFiles

from dueline.errors import BrokerError, InvalidRequest, NotFound
from dueline.flight.console import Measure, Measured
from dueline.flight.operators import Report, Reported
from dueline.web.api import ENDPOINTS
from dueline.web.endpoint import CHALLENGE, Endpoint, json_response, problem_response, respond
from dueline.web.gateway import Gateway, asking
from dueline.web.health import Health, health_of
from dueline.web.metrics import metrics_text
from dueline.web.openapi import openapi
from dueline.web.pages import page_routes
from dueline.web.problems import problem_of, status_of
from dueline.web.security import Guard
from dueline.web.tracing import tracing

__all__ = ["make_app"]

_TEXT = "text/plain; version=0.0.4; charset=utf-8"


def make_app(gateway: Gateway, *, hosts: Collection[str] | None = ()) -> Starlette:
    """An application that asks this gateway, and closes it at its end.

    Args:
        hosts: what calls may name as their host, beside loopback; None: anything.
    """
    document = msgspec.json.encode(openapi(ENDPOINTS))

    @asynccontextmanager
    async def lifespan(_: Starlette) -> AsyncIterator[None]:
        try:
            async with tracing(gateway, os.environ):
                yield
        finally:
            gateway.close()

    async def describe(_: Request) -> Response:
        return Response(document, media_type="application/json")

    return Starlette(
        routes=[
            Route("/health/live", _live),
            Route("/health/ready", partial(_ready, gateway)),
            Route("/metrics", partial(_metrics, gateway)),
            Route("/api/v1/openapi.json", describe),
            *(_route(gateway, each) for each in ENDPOINTS),
            *page_routes(gateway),
            Mount("/static", StaticFiles(packages=[("dueline.web", "static")])),
        ],
        middleware=[Middleware(Guard, hosts=hosts)],
        exception_handlers={HTTPException: _not_here},
        lifespan=lifespan,
    )


def _route(gateway: Gateway, endpoint: Endpoint) -> BaseRoute:
    async def handle(request: Request) -> Response:
        return await respond(endpoint, gateway, request)

    return Route(endpoint.path, handle, methods=[endpoint.method], name=endpoint.name)


async def _live(_: Request) -> Response:
    return json_response(Health(status="live"))


async def _ready(gateway: Gateway, _: Request) -> Response:
    try:
        with asking(gateway.own):
            health = health_of(await gateway.ask(Report(), Reported))
    except BrokerError as error:
        health = Health(status="not ready", reasons=(error.message,))
    return json_response(health, 503 if health.reasons else 200)


async def _metrics(gateway: Gateway, _: Request) -> Response:
    try:
        report = await gateway.ask(Report(), Reported)
        text = metrics_text(report, await gateway.ask(Measure(), Measured))
    except BrokerError as error:
        status = status_of(error)
        headers = {"WWW-Authenticate": CHALLENGE} if status == 401 else None
        return Response(f"# {problem_of(error).message}\n", status, headers, media_type=_TEXT)
    return Response(text, media_type=_TEXT)


async def _not_here(request: Request, error: Exception) -> Response:
    """What routing itself refuses: no such path, or another method."""
    assert isinstance(error, HTTPException)
    path = request.url.path[:200]
    if error.status_code == 405:
        known = (error.headers or {}).get("Allow", "another method")
        problem: BrokerError = InvalidRequest(
            f"{path}: expected {known}, found {request.method[:20]}"
        )
    else:
        problem = NotFound(f"{path}: expected a path of this site, found none")
    response = problem_response(problem, error.status_code)
    response.headers.update(error.headers or {})
    return response
