"""People at work: schedule, see it on the road, filter, cancel, move, deliver, send again.

One broker with its Spark and one browser for all tests of this module; each has topics of its own.
"""

from collections.abc import Iterator

import pytest
from selenium.webdriver.remote.webelement import WebElement
from tests.remoting.peer import Peer
from tests.serve.conftest import Served
from tests.unit.web.local import Site
from tests.waiting import wait_until
from tests.web.conftest import Browser

from dueline.wire import RequestCode

pytestmark = [pytest.mark.slow, pytest.mark.spark]

HOSTILE = "<script>window.hurt=1</script><img/src=x/onerror=window.hurt=1>'\"--{{7*7}}${7*7}"
PAGES = (
    *("/", "/pending", "/topics", "/groups", "/dead-letters", "/transactions", "/jobs"),
    *("/ledger", "/audit", "/settings", "/send", "/message"),
)


@pytest.fixture(autouse=True)
def nothing_leaves_the_host(browser: Browser) -> Iterator[None]:
    """Whatever a test does: nobody else is asked, and the browser has nothing to complain about."""
    browser.complaints()
    browser.look(width=1280, height=900, theme="light")
    yield
    asked = browser.asked_urls()
    assert [url for url in asked if not url.startswith((browser.url, "data:", "about:"))] == []
    assert browser.complaints() == []


def schedule(site: Site, topic: str, *keys: str, delay: str = "1h", **fields: object) -> None:
    for key in keys:
        body = {"topic": topic, "body": f"of {key}", "keys": [key], "delay": delay, **fields}
        answer = site.ask("POST", "/api/v1/messages", body)
        assert answer.status == 200, answer.text


def waiting(site: Site, query: str) -> int:
    return int(site.get(f"/api/v1/pending/count?{query}").json["count"])


def confirm(browser: Browser, **fields: str) -> None:
    """Fill in the dialog and do what it asks about."""
    browser.find("dialog[open]")
    for name, value in fields.items():
        browser.find(f"dialog [name={name}]").send_keys(value)
    browser.find("#confirm-yes").click()
    wait_until(lambda: not dialog_is_open(browser) or None, "the dialog's end")


def dialog_is_open(browser: Browser) -> bool:
    return bool(browser.all("dialog[open]"))


def test_what_is_scheduled_is_seen_on_the_road_and_found_by_a_click(
    browser: Browser, site: Site
) -> None:
    schedule(site, "road", "r1", "r2", "r3", delay="20m")

    browser.open("/")
    wait_until(lambda: topic_option(browser, "road"), "the topic in the list").click()
    wait_until(lambda: "3 fall due here" in browser.find("#road-note").text or None, "the road")
    column = browser.find('.column[data-count="3"]')
    browser.press(column)

    wait_until(lambda: "/pending?" in browser.driver.current_url or None, "the messages")
    assert "topic=road" in browser.driver.current_url
    browser.wait_for_text("3 messages")
    assert len(browser.all("input[name=row]")) == 3


def topic_option(browser: Browser, topic: str) -> WebElement | None:
    """Its entry in the list of the road; numbers by topic are some seconds old."""
    found = [each for each in browser.all("#road-topic option") if each.text == topic]
    if not found:
        browser.open("/")
    return found[0] if found else None


def test_what_matches_a_filter_is_counted_and_cancelled(browser: Browser, site: Site) -> None:
    schedule(site, "cancels", *(f"order-{n}" for n in range(5)), "invoice-1")

    browser.open("/pending")
    browser.find("input[name=topic]").send_keys("cancels")
    browser.find("input[name=key]").send_keys("order-*")
    browser.button("Filter").click()
    browser.wait_for_text("5 messages")
    assert "topic=cancels" in browser.driver.current_url
    browser.find("#all-matching").click()
    browser.button("Cancel").click()
    assert browser.find("#confirm-title").text == "Cancel 5 messages"
    confirm(browser)

    browser.wait_for_text("Cancel: 5 done.")
    assert waiting(site, "topic=cancels") == 1
    assert site.get("/api/v1/messages/order-3").json["messages"][0]["state"] == "cancelled"


def test_a_message_is_moved_shifted_and_delivered_now(browser: Browser, site: Site) -> None:
    schedule(site, "moves", "m1", delay="1h")

    def due_ms() -> int:
        return int(site.get("/api/v1/messages/m1").json["messages"][0]["due_ms"])

    before_ms = due_ms()
    browser.open("/message?name=m1")
    browser.button("Move to…").click()
    confirm(browser, deliver_at="+5h")
    wait_until(lambda: 3.9 < (due_ms() - before_ms) / 3_600_000 < 4.1 or None, "the new time")
    browser.wait_for_text("Move: 1 done.")
    browser.button("Shift by…").click()
    confirm(browser, shift="-2h")
    wait_until(lambda: 1.9 < (due_ms() - before_ms) / 3_600_000 < 2.1 or None, "the shift")
    browser.wait_for_text("Shift: 1 done.")

    browser.open("/pending?topic=moves")
    browser.find("input[name=row]").click()
    assert browser.find("#chosen").text == "1 selected"
    browser.button("Deliver now").click()
    confirm(browser)
    browser.wait_for_text("Deliver now: 1 done.")

    def states() -> list[str] | None:
        found = [each["state"] for each in site.get("/api/v1/messages/m1").json["messages"]]
        return found if "delivered" in found else None

    wait_until(states, "its delivery by the pipeline")
    browser.open("/message?name=m1")
    browser.wait_for_text("at offset 0")


def test_what_cannot_be_done_is_said_in_the_dialog(browser: Browser, site: Site) -> None:
    schedule(site, "wrong", "w1")

    browser.open("/message?name=w1")
    browser.button("Move to…").click()
    browser.find("dialog [name=deliver_at]").send_keys("whenever")
    browser.find("#confirm-yes").click()

    browser.wait_for_text("deliver_at: ")
    assert dialog_is_open(browser)
    browser.button("Back").click()
    assert waiting(site, "topic=wrong") == 1


def test_a_message_is_sent_and_a_topic_created_from_a_form(browser: Browser, site: Site) -> None:
    browser.open("/topics")
    browser.find("input[name=topic]").send_keys("fresh")
    browser.button("Create").click()
    browser.wait_for_text("Topic created")
    wait_until(lambda: "fresh" in browser.find("table").text or None, "the topic in the list")

    browser.open("/send")
    for name, value in (("topic", "fresh"), ("keys", "f1 f2"), ("delay", "3h"), ("body", "hello")):
        browser.find(f"[name={name}]").send_keys(value)
    browser.find("[name=properties]").send_keys("colour=red")
    browser.button("Send").click()
    browser.wait_for_text("Sent")

    (found,) = site.get("/api/v1/messages/f2").json["messages"]
    assert (found["topic"], found["properties"]["colour"]) == ("fresh", "red")


def test_a_dead_letter_is_sent_again(browser: Browser, site: Site, served: Served) -> None:
    address = served.said(r"RocketMQ broker on (\S+)")
    with Peer(address) as peer:
        peer.heartbeat("a client", group="mourners", subscriptions={"sad": "*"})
        properties = {"DLQ_ORIGIN_TOPIC": "sad", "KEYS": "letter"}
        ext = peer.send_ext("%DLQ%mourners", properties=properties)
        answer = peer.wait_answer(peer.send(RequestCode.SEND_MESSAGE_V2, ext, b"gone"))
        assert answer.code == 0, answer.remark

    browser.open("/dead-letters?group=mourners")
    browser.button("To the topic").click()
    browser.wait_for_text("Sent to sad as a new message")
    assert site.get("/api/v1/messages/letter?topic=sad").status == 200
    browser.button("To the group").click()
    browser.wait_for_text("Sent again to mourners")
    retry = "/api/v1/messages/letter?topic=%25RETRY%25mourners"
    wait_until(lambda: site.get(retry).status == 200 or None, "the retry, a second later")


def test_a_topic_is_paused_and_resumed(browser: Browser, site: Site) -> None:
    schedule(site, "stops", "p1")

    def is_paused() -> bool:
        rules = site.get("/api/v1/rules").json["rules"]
        return any(each["topic"] == "stops" and each["is_paused"] for each in rules)

    browser.open("/topics?contains=stops")
    browser.button("Pause").click()
    browser.wait_for_text("stops is paused")
    assert is_paused()
    browser.button("Resume").click()
    browser.wait_for_text("stops is resumed")
    assert not is_paused()


def test_a_hostile_message_is_only_text(browser: Browser, site: Site) -> None:
    schedule(
        site,
        "hostile",
        HOSTILE,
        "h1",
        body=HOSTILE,
        tag="<b>tag</b>",
        properties={"colour": HOSTILE, "<i>name</i>": "x"},
    )

    for path in ("/pending?topic=hostile", "/message?name=h1", "/message?name=h1&as=text"):
        browser.open(path)
        browser.wait_for_text("<script>window.hurt=1</script>" if "name=" in path else "hostile")
        assert browser.run("return window.hurt") is None
        assert browser.all("main script, main img, main b, main i") == []
    browser.open(f"/pending?topic=hostile&key={'%3Cscript%3Ewindow.hurt=1%3C/script%3E'}")
    browser.wait_for_text("Nothing that waits matches.")
    assert browser.run("return window.hurt") is None


def test_a_page_is_kept_up_to_date_without_reloading(browser: Browser, site: Site) -> None:
    browser.open("/topics?contains=newcomer")
    browser.wait_for_text("No topics.")
    browser.run("window.isSame = true")

    site.ask("POST", "/api/v1/topics", {"topic": "newcomer"})
    browser.wait_for_text("newcomer")
    pause = browser.button("Pause")
    site.ask("POST", "/api/v1/topics", {"topic": "a-newcomer"})
    browser.wait_for_text("a-newcomer")

    assert browser.run("return window.isSame") is True
    pause.click()  # a row above it is new; this is still the button of the same topic
    browser.wait_for_text("newcomer is paused")
    assert "a-newcomer is paused" not in browser.find("body").text


def test_the_road_is_walked_by_keyboard(browser: Browser, site: Site) -> None:
    schedule(site, "keys", "k1", delay="30m")

    browser.open("/")
    road = browser.find("#road svg")
    wait_until(lambda: browser.all('.column:not([data-count="0"])') or None, "columns")
    browser.run("document.getElementById('road').focus()")
    zoomed = browser.run("return document.querySelectorAll('#road .column').length")
    browser.find("#road").send_keys("-")
    wait_until(lambda: (zoomed and road_is_redrawn(browser, road)) or None, "another zoom")
    browser.find("#road").send_keys("\ue014")  # to the right
    wait_until(lambda: browser.all("#road .tip") or None, "what stands in the column")


def road_is_redrawn(browser: Browser, before: object) -> bool:
    return browser.all("#road svg") != [before]


def test_themes_are_switched_and_kept(browser: Browser) -> None:
    def ground() -> str:
        return str(browser.run("return getComputedStyle(document.body).color"))

    browser.open("/jobs")
    light = ground()
    for expected in ("Theme: light", "Theme: dark"):
        browser.find("#theme").click()
        assert browser.find("#theme").text == expected
    dark = ground()
    browser.open("/settings")
    assert ground() == dark != light
    browser.find("#theme").click()
    assert browser.find("#theme").text == "Theme: system"
    assert ground() == light


@pytest.mark.parametrize(
    ("width", "theme"),
    [
        (1280, "light"),
        (390, "dark"),
        pytest.param(1280, "dark", marks=pytest.mark.soak),
        pytest.param(390, "light", marks=pytest.mark.soak),
    ],
)
def test_pages_have_no_serious_fault(
    browser: Browser, site: Site, axe: str, theme: str, width: int
) -> None:
    schedule(site, "seen", "s1")
    browser.look(width=width, height=900, theme=theme)
    found = []
    for path in (*PAGES, "/message?name=s1", "/pending?topic=seen"):
        browser.open(path)
        browser.find("h1")
        browser.run(axe)
        result = browser.driver.execute_async_script(
            "const done = arguments[arguments.length - 1]; axe.run(document).then(done)"
        )
        found += [
            f"{path}: {each['id']}: {each['nodes'][0]['html'][:120]}"
            for each in result["violations"]
            if each["impact"] in ("serious", "critical")
        ]
        if width < 600:
            wide = browser.run("return document.documentElement.scrollWidth")
            found += [f"{path}: {wide} pixels wide"] if wide > width else []

    assert found == []
