import pytest
from tests.unit.web.local import Site

from dueline.web import endpoint


@pytest.mark.parametrize(
    ("data", "said"),
    [
        (b"{", "expected JSON"),
        (b"[" * 100_000, "expected JSON"),
        (b"[]", "expected a JSON object"),
        (b'{"topic": 1}', "topic: expected `str`, got `int`"),
        (b"{}", "missing required field `topic`"),
        (b'{"topic": "a", "topics": 1}', "unknown field `topics`"),
        (b'{"topic": "a b"}', "topic"),
    ],
)
def test_a_body_that_is_wrong_is_refused_and_the_place_named(
    site: Site, data: bytes, said: str
) -> None:
    headers = {"Content-Type": "application/json; charset=utf-8"}
    answer = site.ask("POST", "/api/v1/topics", data=data, headers=headers)

    assert (answer.status, answer.json["error"]) == (400, "InvalidRequest")
    assert said in answer.json["message"]


@pytest.mark.parametrize(
    ("query", "said"),
    [
        ("count_max=0", "count_max: expected 1 to 1000, found 0"),
        ("count_max=x", "count_max: expected `int`"),
        ("count_max=1&count_max=2", "count_max: expected it once"),
        ("colour=red", "unknown field `colour`"),
        ("is_internal=perhaps", "is_internal"),
    ],
)
def test_a_query_that_is_wrong_is_refused_and_the_place_named(
    site: Site, query: str, said: str
) -> None:
    answer = site.get(f"/api/v1/topics?{query}")

    assert answer.status == 400
    assert said in answer.json["message"]


def test_a_body_has_a_bound(site: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(endpoint, "BODY_SIZE_BYTES_MAX", 100)

    answer = site.ask("POST", "/api/v1/topics", {"topic": "a" * 200})

    assert (answer.status, answer.json["error"]) == (413, "TooLarge")
