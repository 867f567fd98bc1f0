"""Topics: list, create, delete; rules of the road, and what they will not be able to carry."""

from __future__ import annotations

from typing import Any, Final

from dueline.flight import console, waiting
from dueline.flight.values import Value
from dueline.times import duration_ms
from dueline.web.endpoint import Endpoint
from dueline.web.gateway import Gateway

__all__ = ["ENDPOINTS"]


class TopicName(Value, frozen=True, kw_only=True):
    topic: str


async def _list(gateway: Gateway, params: console.ListTopics, body: None) -> console.TopicList:
    params.check()
    return await gateway.ask(params, console.TopicList)


async def _create(gateway: Gateway, params: Any, body: console.CreateTopic) -> console.TopicChanged:
    return await gateway.ask(body, console.TopicChanged)


class RuleToSet(Value, frozen=True, kw_only=True):
    """What is left out stays as it is. `rate`: at most so many a second become visible, 0 for no
    bound. `expiry`: so long after its due time a message is no longer delivered, `0s` for none."""

    is_paused: bool | None = None
    rate: int | None = None
    expiry: str | None = None


class ForecastQuery(Value, frozen=True, kw_only=True):
    """`ahead` is how far to look, such as `1d`."""

    ahead: str = "1d"


async def _rules(gateway: Gateway, params: Any, body: None) -> waiting.RuleList:
    return await gateway.ask(waiting.ListRules(), waiting.RuleList)


async def _set_rule(gateway: Gateway, params: TopicName, body: RuleToSet) -> waiting.RuleList:
    request = waiting.SetRule(
        topic=params.topic,
        is_paused=body.is_paused,
        rate=body.rate,
        expiry_ms=None if body.expiry is None else duration_ms(body.expiry, name="expiry"),
    )
    return await gateway.ask(request, waiting.RuleList)


async def _forecast(gateway: Gateway, params: ForecastQuery, body: None) -> waiting.Forecast:
    request = waiting.AskForecast(ahead_ms=duration_ms(params.ahead, name="ahead"))
    return await gateway.ask(request, waiting.Forecast)


async def _delete(gateway: Gateway, params: TopicName, body: None) -> console.TopicChanged:
    return await gateway.ask(console.DeleteTopic(topic=params.topic), console.TopicChanged)


ENDPOINTS: Final = (
    Endpoint(
        method="GET",
        path="/api/v1/topics",
        name="listTopics",
        summary="Topics by name, with what they hold and who reads them",
        tag="topics",
        handle=_list,
        answer=console.TopicList,
        params=console.ListTopics,
    ),
    Endpoint(
        method="POST",
        path="/api/v1/topics",
        name="createTopic",
        summary="Make a topic, or change how many queues it has",
        tag="topics",
        handle=_create,
        answer=console.TopicChanged,
        body=console.CreateTopic,
    ),
    Endpoint(
        method="POST",
        path="/api/v1/topics/{topic}/rules",
        name="setRule",
        summary="Pause or resume a topic, or give it a release rate or an expiry",
        tag="topics",
        handle=_set_rule,
        answer=waiting.RuleList,
        params=TopicName,
        body=RuleToSet,
    ),
    Endpoint(
        method="GET",
        path="/api/v1/rules",
        name="listRules",
        summary="Topics that are paused, or have a release rate or an expiry",
        tag="topics",
        handle=_rules,
        answer=waiting.RuleList,
    ),
    Endpoint(
        method="GET",
        path="/api/v1/forecast",
        name="forecast",
        summary="Crowds ahead that are larger than what can be carried",
        tag="figures",
        handle=_forecast,
        answer=waiting.Forecast,
        params=ForecastQuery,
    ),
    Endpoint(
        method="DELETE",
        path="/api/v1/topics/{topic:path}",
        name="deleteTopic",
        summary="Forget a topic; its messages go when their retention ends",
        tag="topics",
        handle=_delete,
        answer=console.TopicChanged,
        params=TopicName,
    ),
)
