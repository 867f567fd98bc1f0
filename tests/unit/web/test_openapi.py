import re

from dueline.web.api import ENDPOINTS
from dueline.web.openapi import openapi


def test_every_method_is_described_with_its_parameters() -> None:
    document = openapi(ENDPOINTS)

    described = {
        (method.upper(), path) for path, methods in document["paths"].items() for method in methods
    }
    assert described == {(each.method, each.path.replace(":path}", "}")) for each in ENDPOINTS}
    for path, methods in document["paths"].items():
        for operation in methods.values():
            named = {
                each["name"]
                for each in operation.get("parameters", ())
                if each["in"] == "path" and each["required"]
            }
            assert named == set(re.findall(r"\{(\w+)\}", path))
            assert operation["summary"]
            assert operation["operationId"]


def test_every_reference_leads_somewhere() -> None:
    document = openapi(ENDPOINTS)

    references = set(re.findall(r"#/components/schemas/(\w+)", str(document)))
    assert references <= document["components"]["schemas"].keys()


def test_parameters_that_may_be_left_out_have_a_plain_type() -> None:
    document = openapi(ENDPOINTS)
    (parameter,) = [
        each
        for each in document["paths"]["/api/v1/groups/{group}/dead-letters"]["get"]["parameters"]
        if each["name"] == "before"
    ]

    assert parameter == {
        "name": "before",
        "in": "query",
        "required": False,
        "schema": {"type": "integer"},
    }
