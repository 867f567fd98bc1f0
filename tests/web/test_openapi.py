"""Every method of the API, from its own document, with input that is right and wrong.

The oracle is schemathesis: it reads the document, makes requests of it, and judges the answers.
"""

from collections.abc import Iterator
from functools import cache
from typing import Any, cast

import pytest
import schemathesis
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from schemathesis import GenerationMode
from schemathesis.checks import not_a_server_error
from schemathesis.specs.openapi.checks import (
    content_type_conformance,
    response_schema_conformance,
    status_code_conformance,
)
from tests.conftest import IS_SOAK
from tests.unit.server.local import outgoing, running, send, small_config
from tests.unit.web.local import Site, site_of
from tests.waiting import PATIENCE_S

from dueline.web.api import ENDPOINTS
from dueline.web.openapi import openapi

EXAMPLE_COUNT = 500 if IS_SOAK else 10
CHECKS = [
    not_a_server_error,
    status_code_conformance,
    content_type_conformance,
    response_schema_conformance,
]


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Site]:
    config = small_config(tmp_path_factory.mktemp("broker"))
    with running(config) as broker, site_of(broker.address) as site:
        send(broker, outgoing("a"), outgoing("b", KEYS="b", TIMER_DELAY_MS="3600000"))
        broker.broker.consumer_groups.ensure("billing")
        yield site


@cache
def operations() -> dict[str, Any]:
    """By their ids, as the document has them."""
    schema = schemathesis.openapi.from_dict(openapi(ENDPOINTS))
    found: list[Any] = [each.ok() for each in cast(Any, schema).get_all_operations()]
    return {each.definition.raw["operationId"]: each for each in found}


def test_the_document_that_is_served_is_the_one_that_is_tested(site: Site) -> None:
    served = site.get("/api/v1/openapi.json").json

    schemathesis.openapi.from_dict(served).validate()
    assert set(operations()) == {
        operation["operationId"] for each in served["paths"].values() for operation in each.values()
    }


@pytest.mark.parametrize("name", [each.name for each in ENDPOINTS])
def test_every_answer_is_what_the_document_says(site: Site, name: str) -> None:
    operation = operations()[name]
    right = operation.as_strategy(generation_mode=GenerationMode.POSITIVE)
    wrong = operation.as_strategy(generation_mode=GenerationMode.NEGATIVE)
    has_input = operation.definition.raw.keys() & {"parameters", "requestBody"}

    @settings(
        max_examples=EXAMPLE_COUNT if has_input else 1,
        deadline=None,
        suppress_health_check=list(HealthCheck),
        derandomize=not IS_SOAK,
        database=None,
    )
    @given(st.one_of(right, wrong) if has_input else right)
    def ask(case: Any) -> None:
        answer = case.call(base_url=f"http://127.0.0.1:{site.port}", timeout=PATIENCE_S)
        case.validate_response(answer, checks=CHECKS)
        assert b"Traceback" not in answer.content

    ask()
