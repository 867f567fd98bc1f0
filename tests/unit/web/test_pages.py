"""Pages as the server renders them; what a browser makes of them is in tests/web."""

import re

import pytest
from tests.ports import free_port
from tests.unit.server.local import outgoing, send
from tests.unit.web.local import Site, site_of

from dueline.server.process import BrokerProcess
from dueline.web.page_contents import PAGES

HOSTILE = "<script>alert(1)</script>\"'><img src=x onerror=alert(1)>{{1031*1033}}x"


@pytest.mark.parametrize("path", [each.path for each in PAGES])
def test_every_page_is_there_when_nothing_is(site: Site, path: str) -> None:
    answer = site.get(path)

    assert answer.status == 200
    assert answer.headers["content-type"].startswith("text/html")
    assert 'aria-current="page"' in answer.text


@pytest.mark.parametrize("path", [each.path for each in PAGES])
def test_a_broker_that_is_away_is_said_and_no_traceback_shown(path: str) -> None:
    with site_of(f"127.0.0.1:{free_port()}") as site:
        answer = site.get(path)

    if path == "/message":  # it asks nothing yet
        assert answer.status == 200
        return
    assert answer.status == 503
    assert "The broker is away" in answer.text
    assert "Traceback" not in answer.text


def test_pages_name_no_other_host_and_have_nothing_inline(site: Site) -> None:
    for page in PAGES:
        text = site.get(page.path).text
        assert re.findall(r'\s(?:src|href|action)="(?!/|#)[^"]*"', text) == []
        assert re.findall(r"<script(?![^>]*\bsrc=)|<style|\bstyle=|\bon\w+=", text) == []


def test_what_messages_say_is_text_everywhere(site: Site, broker: BrokerProcess) -> None:
    body = {
        "topic": "orders",
        "body": HOSTILE,
        "keys": [HOSTILE.replace(" ", "_"), "k"],
        "tag": "t",
        "properties": {"colour": HOSTILE, "<b>name</b>": "x"},
        "delay": "1h",
    }
    sent = site.ask("POST", "/api/v1/messages", body)
    assert sent.status == 200, sent.text
    send(broker, outgoing(HOSTILE, topic="%DLQ%g", DLQ_ORIGIN_TOPIC=HOSTILE, KEYS=HOSTILE))
    broker.broker.consumer_groups.ensure("g")

    for path in ("/pending", "/message?name=k", "/message?name=k&as=text", "/dead-letters?group=g"):
        text = site.get(path).text
        assert "&lt;script&gt;" in text, path
        for raw in ("<script>alert", "<img src=x", "<b>name", f"{1031 * 1033}x"):
            assert raw not in text, (path, raw)


def test_an_address_of_hostile_words_shows_them_as_text(site: Site) -> None:
    for path in (
        "/pending?topic=%3Cscript%3Ealert(1)%3C/script%3E",
        "/pending?where=%3Cscript%3E",
        "/pending?due_from=%22%3E%3Cscript%3E",
        "/message?name=%3Cscript%3Ealert(1)%3C/script%3E",
        "/dead-letters?group=%3Cscript%3E",
        "/topics?contains=%3Cscript%3E",
        "/%3Cscript%3E",
    ):
        answer = site.get(path)
        assert answer.status in (200, 404), (path, answer.text)
        is_page = answer.headers["content-type"].startswith("text/html")
        assert not (is_page and "<script>" in answer.text), path


def test_a_filter_that_is_wrong_is_said_beside_the_form(site: Site) -> None:
    answer = site.get("/pending?due_from=whenever&topic=orders")

    assert answer.status == 200
    assert "due_from: " in answer.text
    assert 'value="whenever"' in answer.text


def test_a_page_of_many_leads_to_the_next(site: Site, broker: BrokerProcess) -> None:
    send(broker, *(outgoing(str(n), KEYS=f"k{n}", TIMER_DELAY_MS="900000") for n in range(60)))

    first = site.get("/pending?topic=orders").text
    (more,) = re.findall(r'rel="next" href="([^"]+)"', first)
    second = site.get(more.replace("&amp;", "&")).text

    seen = re.findall(r'title="(k\d+)"', first) + re.findall(r'title="(k\d+)"', second)
    assert sorted(seen) == sorted(f"k{n}" for n in range(60))
    assert 'rel="next"' not in second


def test_static_files_may_be_kept_and_others_are_not_served(site: Site) -> None:
    assert site.get("/static/app.js").status == 200
    assert "cache-control" not in site.get("/static/app.js").headers
    assert site.get("/static/../pages.py").status == 404
    assert site.get("/static/%2e%2e/pages.py").status == 404
