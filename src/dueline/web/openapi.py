"""The OpenAPI 3.1 document, made from the same structs that requests are decoded with."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any, Final

import msgspec

from dueline import __version__
from dueline.flight.values import Value
from dueline.web.endpoint import Endpoint
from dueline.web.problems import PROBLEM_STATUSES, Problem

__all__ = ["openapi"]

_REF: Final = "#/components/schemas/{name}"
_INTRODUCTION: Final = (
    "Everything that the pages of a Dueline broker show and do. Times are milliseconds since 1970 "
    "in answers; in requests also text, such as `2027-01-01T10:00+01:00` or `30m`. Lists have a "
    "bound and go on with the cursor that their `next` names. Bytes are in base 64."
)


def openapi(endpoints: Sequence[Endpoint]) -> dict[str, Any]:
    """The document as plain values."""
    kinds: set[type[Value]] = {Problem}
    for each in endpoints:
        kinds |= {each.params, each.answer, *([each.body] if each.body is not None else [])}
    ordered = sorted(kinds, key=lambda kind: kind.__name__)
    schemas, components = msgspec.json.schema_components(ordered, ref_template=_REF)
    references = dict(zip(ordered, schemas, strict=True))
    paths: dict[str, dict[str, Any]] = {}
    for each in endpoints:
        path = re.sub(r":path\}", "}", each.path)
        operation = _operation(each, references, components)
        paths.setdefault(path, {})[each.method.lower()] = operation
    tags = dict.fromkeys(each.tag for each in endpoints)
    return {
        "openapi": "3.1.0",
        "info": {"title": "Dueline", "version": __version__, "description": _INTRODUCTION},
        "tags": [{"name": tag} for tag in tags],
        "paths": paths,
        "components": {"schemas": components},
    }


def _operation(
    endpoint: Endpoint, references: Mapping[type[Value], Any], components: dict[str, Any]
) -> dict[str, Any]:
    found: dict[str, Any] = {
        "operationId": endpoint.name,
        "summary": endpoint.summary,
        "tags": [endpoint.tag],
        "responses": {
            "200": {
                "description": "Done.",
                "content": {"application/json": {"schema": references[endpoint.answer]}},
            },
            **{
                str(status): {
                    "description": text,
                    "content": {"application/json": {"schema": references[Problem]}},
                }
                for status, text in PROBLEM_STATUSES.items()
            },
        },
    }
    parameters = _parameters(endpoint, components[endpoint.params.__name__])
    if parameters:
        found["parameters"] = parameters
    if endpoint.body is not None:
        found["requestBody"] = {
            "required": True,
            "content": {"application/json": {"schema": references[endpoint.body]}},
        }
    return found


def _parameters(endpoint: Endpoint, schema: dict[str, Any]) -> list[dict[str, Any]]:
    required = set(schema.get("required", ()))
    return [
        {
            "name": name,
            "in": "path" if name in endpoint.path_names else "query",
            "required": name in endpoint.path_names or name in required,
            "schema": _without_null(field),
        }
        for name, field in schema["properties"].items()
    ]


def _without_null(field: dict[str, Any]) -> dict[str, Any]:
    """A query has no null: a parameter is there or not."""
    choices: list[dict[str, Any]] = [
        each for each in field.get("anyOf", ()) if each != {"type": "null"}
    ]
    if len(choices) == 1:
        return choices[0]
    return {name: value for name, value in field.items() if (name, value) != ("default", None)}
