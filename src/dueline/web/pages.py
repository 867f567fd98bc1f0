"""The pages: each is a path, a template, and a function that asks the broker for what it shows.

A page whose broker is away says so, with the status of the error, and looks again by itself.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from typing import Any, Final

from jinja2 import Environment, PackageLoader, StrictUndefined
from starlette.requests import Request
from starlette.responses import HTMLResponse, Response
from starlette.routing import Route

from dueline.errors import BrokerError, InvalidRequest, Unauthenticated, Unavailable
from dueline.web.endpoint import CHALLENGE
from dueline.web.gateway import Gateway
from dueline.web.page_contents import PAGES, Page
from dueline.web.problems import status_of
from dueline.web.shown import FILTERS

__all__ = ["page_routes", "render"]

_templates: Final = Environment(
    loader=PackageLoader("dueline.web"),
    autoescape=True,
    undefined=StrictUndefined,
    trim_blocks=True,
    lstrip_blocks=True,
)
_templates.filters.update(FILTERS)
_NAVIGATION: Final = tuple((each.path, each.title) for each in PAGES if each.title)


def page_routes(gateway: Gateway) -> list[Route]:
    """A route for each page."""
    return [Route(each.path, _handler(gateway, each)) for each in PAGES]


def _handler(gateway: Gateway, page: Page) -> Callable[[Request], Awaitable[Response]]:
    async def handle(request: Request) -> Response:
        try:
            contents = await page.load(gateway, dict(request.query_params))
        except BrokerError as error:
            return problem_page(gateway, error, page.path)
        return render(gateway, page.template, contents, here=page.path)

    return handle


def problem_page(gateway: Gateway, error: BrokerError, here: str = "") -> Response:
    """What went wrong, for people."""
    is_away = isinstance(error, Unavailable)
    title = "The broker is away" if is_away else "This cannot be shown"
    if isinstance(error, Unauthenticated):
        title = "Who are you?"
    if isinstance(error, InvalidRequest):
        title = "The address is wrong"
    contents = {"title": title, "problem": error.message, "is_away": is_away}
    response = render(gateway, "problem.html", contents, here=here, status=status_of(error))
    if response.status_code == 401:
        response.headers["WWW-Authenticate"] = CHALLENGE
    return response


def render(
    gateway: Gateway,
    template: str,
    contents: Mapping[str, Any],
    *,
    here: str,
    status: int = 200,
) -> Response:
    """A page with its frame."""
    text = _templates.get_template(template).render(
        navigation=_NAVIGATION, here=here, broker=gateway.address, user="", **contents
    )
    return HTMLResponse(text, status)
