from tests.unit.server.local import carry, outgoing, send
from tests.unit.web.local import Site
from tests.waiting import wait_until

from dueline.server.process import BrokerProcess


def test_the_overview_says_what_needs_attention(site: Site, broker: BrokerProcess) -> None:
    send(broker, outgoing("x", TIMER_DELAY_MS="600"))  # too long for the way around the pipeline
    wait_until(lambda: broker.broker.meter.figures().overdue.count or None, "an overdue message")

    text = site.get("/").text

    assert "1 messages are overdue" in text
    assert "No pipeline delivers" in text
    broker.pipeline.asked(is_transformed=False)
    carry(broker.store)
    text = site.get("/").text
    assert "overdue" not in text
    assert "No pipeline delivers" not in text


def test_a_message_shows_its_times_its_place_and_its_readers(
    site: Site, broker: BrokerProcess
) -> None:
    send(broker, outgoing('{"a": [1]}', KEYS="k", TIMER_DELAY_MS="20", colour="red"))
    carry(broker.store)
    broker.broker.offsets.set("billing", "orders", {0: 1})
    wait_until(lambda: "at offset" in site.get("/message?name=k").text or None, "its delivery")

    text = site.get("/message?name=k").text

    assert "orders/0 at offset 0" in text
    assert "billing" in text
    assert "red" in text
    assert "&#34;a&#34;: [\n    1\n  ]" in text
    assert "7b 22 61 22" in site.get("/message?name=k&as=hex").text
    assert "Deliver now" not in text


def test_a_message_that_waits_can_be_changed(site: Site, broker: BrokerProcess) -> None:
    send(broker, outgoing("x", KEYS="k", TIMER_DELAY_MS="900000"))

    text = site.get("/message?name=k").text

    assert 'data-number="0"' in text
    assert "Deliver now" in text


def test_settings_are_grouped_and_changes_marked(site: Site) -> None:
    text = site.get("/settings").text

    assert 'aria-label="store"' in text
    assert "changed" in text


def test_groups_without_letters_lead_to_an_empty_list(site: Site, broker: BrokerProcess) -> None:
    assert "No consumer group was here yet." in site.get("/dead-letters").text
    broker.broker.consumer_groups.ensure("billing")
    assert "billing has no dead letters." in site.get("/dead-letters").text
    assert site.get("/dead-letters?group=nobody").status == 404
