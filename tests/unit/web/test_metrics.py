from prometheus_client.parser import text_string_to_metric_families
from tests.unit.flight.test_operators import reported

from dueline.flight.console import Histogram, Measured, MeasuredTopic
from dueline.web.metrics import metrics_text

NONE = Histogram(bounds=(1.0,), counts=(0, 0), total=0)


def measured(**fields: object) -> Measured:
    plain = Measured(
        cluster="c",
        runway_ms=None,
        ahead_ms=30_000,
        horizons={},
        topics=(),
        places=(),
        is_cut=False,
        disk_used_bytes=0,
        disk_free_bytes=0,
        first_stored_ms=None,
        undecided_count=0,
        lateness_ms=NONE,
        sync_s=NONE,
        group_rows=NONE,
        batch_rows=NONE,
    )
    return plain.changed(**fields)


def values(found: Measured, **fields: object) -> dict[tuple[str, str], float]:
    """By name and the first label that is not the node's."""
    report = reported().changed(**fields)
    families = text_string_to_metric_families(metrics_text(report, found).decode())
    node = {"cluster", "node_type", "node_id"}
    return {
        (each.name, next((v for n, v in each.labels.items() if n not in node), "")): each.value
        for family in families
        for each in family.samples
    }


def test_a_histogram_counts_up_to_its_bounds_in_seconds() -> None:
    late = Histogram(bounds=(1.0, 10.0, 1_000.0), counts=(3, 0, 2, 1), total=9_000)

    found = values(measured(lateness_ms=late))

    name = "dueline_lateness_seconds_bucket"
    assert [found[name, bound] for bound in ("0.001", "0.01", "1.0", "+Inf")] == [3, 3, 5, 6]
    assert found["dueline_lateness_seconds_sum", ""] == 9
    assert found["dueline_lateness_seconds_count", ""] == 6


def test_a_runway_is_no_longer_than_it_should_be() -> None:
    found = {
        runway_ms: values(measured(runway_ms=runway_ms))["dueline_runway_seconds", ""]
        for runway_ms in (None, 90_000, 2_000, -500)
    }

    assert found == {None: 30, 90_000: 30, 2_000: 2, -500: -0.5}


def test_names_of_topics_cannot_break_the_text() -> None:
    name = 'a"b\\c\nd} 1'
    topic = MeasuredTopic(topic=name, pending_count=7, start=0, end=0)

    assert values(measured(topics=(topic,)))["rocketmq_timing_messages", name] == 7


def test_who_was_limited_by_a_quota_is_told_by_kind_and_name() -> None:
    text = metrics_text(
        reported().changed(limited={"user big shop": 3, "address 10.0.0.7": 1}), measured()
    ).decode()

    found = {
        (each.labels["kind"], each.labels["name"]): each.value
        for family in text_string_to_metric_families(text)
        for each in family.samples
        if each.name == "dueline_limited_total"
    }
    assert found == {("user", "big shop"): 3, ("address", "10.0.0.7"): 1}


def test_what_expired_is_counted() -> None:
    assert values(measured(), expired=4)["dueline_expired_total", ""] == 4
