"""What is served beside the API and the pages: health and metrics, and what there is not."""

from prometheus_client.parser import text_string_to_metric_families
from tests.ports import free_port
from tests.unit.server.local import carry, outgoing, send, visible_bodies
from tests.unit.web.local import Site, site_of
from tests.waiting import wait_until

from dueline.server.process import BrokerProcess


def samples(text: str) -> dict[str, float]:
    """Of each name and its labels that are not the node's."""
    found = {}
    for family in text_string_to_metric_families(text):
        for each in family.samples:
            labels = {
                name: value
                for name, value in each.labels.items()
                if name not in ("cluster", "node_type", "node_id")
            }
            shown = ",".join(f"{name}={value}" for name, value in sorted(labels.items()))
            found[f"{each.name}{{{shown}}}"] = each.value
    return found


def test_it_lives_without_a_broker_and_is_not_ready() -> None:
    address = f"127.0.0.1:{free_port()}"
    with site_of(address) as site:
        live, ready, metrics = map(site.get, ("/health/live", "/health/ready", "/metrics"))

    assert (live.status, live.json["status"]) == (200, "live")
    assert (ready.status, ready.json["status"]) == (503, "not ready")
    assert address in ready.json["reasons"][0]
    assert metrics.status == 503
    assert list(text_string_to_metric_families(metrics.text)) == []


def test_a_broker_that_comes_back_is_found(site: Site, broker: BrokerProcess) -> None:
    assert site.get("/api/v1/report").status == 200

    assert site.get("/health/ready").json["reasons"] == ["the pipeline is off"]
    broker.pipeline.asked(is_transformed=False)
    assert site.get("/health/ready").status == 200


def test_metrics_agree_with_what_was_sent(site: Site, broker: BrokerProcess) -> None:
    send(
        broker,
        outgoing("now"),
        outgoing("soon", TIMER_DELAY_MS="20"),
        outgoing("late", TIMER_DELAY_MS="5000000", KEYS="late"),
    )
    carry(broker.store)
    wait_until(lambda: len(visible_bodies(broker)) == 2 or None, "both messages")
    broker.broker.offsets.set("billing", "orders", {0: 1})

    found = samples(site.get("/metrics").text)

    expected = {
        "rocketmq_messages_in_total{message_type=normal}": 1,
        "rocketmq_messages_in_total{message_type=delay}": 2,
        "rocketmq_timer_dequeue_total{}": 1,
        "rocketmq_timing_messages{topic=orders}": 1,
        "rocketmq_timer_message_snapshot{timer_bound_s=3600}": 0,
        "rocketmq_timer_message_snapshot{timer_bound_s=86400}": 1,
        "rocketmq_consumer_lag_messages{consumer_group=billing,topic=orders}": 1,
        "dueline_pending_messages{}": 1,
        "dueline_topic_messages_total{topic=orders}": 2,
        "dueline_lateness_seconds_count{}": 1,
        "dueline_batch_messages_sum{}": 1,
        "dueline_group_messages_sum{}": 3,
    }
    assert {name: found[name] for name in expected} == expected
    assert found["dueline_fsync_seconds_count{}"] > 0
    assert found["dueline_lateness_seconds_sum{}"] >= 0


def test_what_is_not_there_is_said_in_json(site: Site) -> None:
    missing, other = site.get("/api/v1/nothing"), site.ask("PUT", "/api/v1/topics", {})

    assert (missing.status, missing.json["error"]) == (404, "NotFound")
    assert (other.status, other.json["error"]) == (405, "InvalidRequest")
    assert "PUT" in other.json["message"]


def test_every_answer_has_the_headers_that_protect_a_browser(site: Site) -> None:
    for path in ("/health/live", "/metrics", "/api/v1/report", "/nothing"):
        headers = site.get(path).headers
        assert "default-src 'none'" in headers["content-security-policy"]
        assert "unsafe" not in headers["content-security-policy"]
        assert headers["x-content-type-options"] == "nosniff"
        assert headers["cache-control"] == "no-store"
