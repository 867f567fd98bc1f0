import base64
from pathlib import Path

import pytest
from tests.unit.server.local import running, small_config
from tests.unit.web.local import Answer, Site, site_of

from dueline.errors import Unauthenticated
from dueline.web.security import user_of

NEW = {"topic": "a"}


def test_a_call_that_names_another_host_is_refused(site: Site) -> None:
    answer = site.ask("GET", "/api/v1/report", headers={"Host": "evil.example:8080"})

    assert (answer.status, answer.json["error"]) == (403, "NotAllowed")


@pytest.mark.parametrize("host", ["localhost:1", "127.0.0.1", "[::1]:8080"])
def test_loopback_may_be_named_in_any_way(site: Site, host: str) -> None:
    assert site.ask("GET", "/health/live", headers={"Host": host}).status == 200


@pytest.mark.parametrize(
    "headers",
    [
        {"Origin": "http://evil.example"},
        {"Origin": "null"},
        {"Sec-Fetch-Site": "cross-site"},
        {"Sec-Fetch-Site": "same-site"},
    ],
)
def test_a_change_that_another_site_asks_for_is_refused(
    site: Site, headers: dict[str, str]
) -> None:
    answer = site.ask("POST", "/api/v1/topics", NEW, headers=headers)

    assert answer.status == 403
    assert site.get("/api/v1/topics").json["topics"] == []


def test_our_own_pages_and_programs_may(site: Site) -> None:
    own = {"Origin": f"http://127.0.0.1:{site.port}", "Sec-Fetch-Site": "same-origin"}

    assert site.ask("POST", "/api/v1/topics", NEW, headers=own).status == 200
    assert site.ask("POST", "/api/v1/topics", NEW).status == 200


def test_what_a_form_can_send_is_no_change(site: Site) -> None:
    answer = site.ask(
        "POST", "/api/v1/topics", data=b'{"topic":"a"}', headers={"Content-Type": "text/plain"}
    )

    assert answer.status == 415


def asked_as(site: Site, shown: str, method: str = "GET", path: str = "/api/v1/report") -> Answer:
    """As a user, by Basic authorization."""
    encoded = base64.b64encode(shown.encode()).decode()
    body = NEW if method == "POST" else None
    return site.ask(method, path, body, headers={"Authorization": f"Basic {encoded}"})


def test_with_access_control_everybody_asks_as_themselves(tmp_path: Path) -> None:
    secret = tmp_path / "super"
    secret.write_text("root:a-long-secret-of-the-root")
    secret.chmod(0o600)
    flags = {"access.enabled": "true", "access.super_user_file": str(secret)}
    with (
        running(small_config(tmp_path / "data", **flags)) as broker,
        site_of(broker.address) as site,
    ):
        nobody, page = site.get("/api/v1/report"), site.get("/")
        wrong = asked_as(site, "root:something else entirely")
        known = asked_as(site, "root:a-long-secret-of-the-root")
        bearer = site.ask(
            "GET",
            "/api/v1/report",
            headers={"Authorization": "Bearer root:a-long-secret-of-the-root"},
        )
        made = asked_as(site, "root:a-long-secret-of-the-root", "POST", "/api/v1/topics")
        after = site.ask("POST", "/api/v1/topics", NEW)

    assert (nobody.status, nobody.json["error"]) == (401, "Unauthenticated")
    assert nobody.headers["www-authenticate"].startswith("Basic ")
    assert (page.status, "Who are you?" in page.text) == (401, True)
    assert wrong.status == 401
    assert [known.status, bearer.status, made.status] == [200, 200, 200]
    assert after.status == 401, "nobody inherits the rights of whoever asked before"


@pytest.mark.parametrize(
    "header",
    ["Basic", "Basic ?", "Basic YQ==", "Bearer x", "Digest a:b", "Bearer :x", "Basic /w=="],
)
def test_a_user_that_cannot_be_read_is_nobody(header: str) -> None:
    with pytest.raises(Unauthenticated, match="expected Basic"):
        user_of(header)
