"""`/metrics`: a broker's figures in the form that Prometheus reads.

Names that begin with `rocketmq_` mean what they mean in RocketMQ 5, with its labels; what it has no
name for begins with `dueline_`. Times are seconds in ours and, as there, milliseconds in theirs.

Everything is asked for when it is scraped: this process counts nothing, so several of them, or one
that was started again, say the same. Counters start at zero with the broker.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Final

from prometheus_client import CollectorRegistry, generate_latest
from prometheus_client.core import (
    CounterMetricFamily,
    GaugeMetricFamily,
    HistogramMetricFamily,
    Metric,
)
from prometheus_client.registry import Collector

from dueline.flight.console import Histogram, Measured
from dueline.flight.operators import Reported

__all__ = ["metrics_text"]

_NODE: Final = ("cluster", "node_type", "node_id")


def metrics_text(report: Reported, measured: Measured) -> bytes:
    """All families as text."""
    registry = CollectorRegistry(auto_describe=False)
    registry.register(_Families(report, measured))
    return generate_latest(registry)


class _Families(Collector):
    def __init__(self, report: Reported, measured: Measured) -> None:
        self._report = report
        self._measured = measured
        self._node = (measured.cluster, "broker", report.shard)

    def collect(self) -> Iterator[Metric]:
        yield from self._theirs()
        yield from self._of_topics()
        yield from self._of_groups()
        yield from self._ours()
        yield from self._histograms()

    # RocketMQ's names

    def _theirs(self) -> Iterator[Metric]:
        report = self._report
        normal = report.sent - report.sent_delayed
        yield self._counter(
            "rocketmq_messages_in",
            "Messages that were accepted.",
            [(("normal",), normal), (("delay",), report.sent_delayed)],
            labels=("message_type",),
        )
        yield self._counter(
            "rocketmq_timer_enqueue", "Delayed messages accepted.", report.sent_delayed
        )
        yield self._counter(
            "rocketmq_timer_dequeue", "Delayed messages delivered.", report.delivered
        )
        yield self._gauge(
            "rocketmq_timer_dequeue_lag", "Messages that are overdue.", report.overdue
        )
        oldest = report.oldest_overdue
        late_ms = 0 if oldest is None else max(report.now_ms - oldest.due_ms, 0)
        yield self._gauge(
            "rocketmq_timer_dequeue_latency", "Of the oldest overdue message, in ms.", late_ms
        )
        yield self._gauge(
            "rocketmq_timer_message_snapshot",
            "Messages that fall due within so many seconds.",
            [
                ((str(int(within_ms) // 1_000),), count)
                for within_ms, count in self._measured.horizons.items()
            ],
            labels=("timer_bound_s",),
        )
        yield self._gauge(
            "rocketmq_half_messages",
            "Transactions that nobody has decided.",
            self._measured.undecided_count,
        )
        yield self._gauge(
            "rocketmq_storage_size",
            "Bytes of the logs.",
            report.commit_log_bytes + report.delay_log_bytes,
        )
        if self._measured.first_stored_ms is not None:
            yield self._gauge(
                "rocketmq_storage_message_reserve_time",
                "Age of the oldest message that is kept, in ms.",
                report.now_ms - self._measured.first_stored_ms,
            )

    def _of_topics(self) -> Iterator[Metric]:
        topics = self._measured.topics
        yield self._gauge(
            "rocketmq_timing_messages",
            "Delayed messages that wait, by topic.",
            [((each.topic,), each.pending_count) for each in topics],
            labels=("topic",),
        )
        yield self._counter(
            "dueline_topic_messages",
            "Messages that became visible, ever, by topic.",
            [((each.topic,), each.end) for each in topics],
            labels=("topic",),
        )

    def _of_groups(self) -> Iterator[Metric]:
        places = self._measured.places
        labels = ("topic", "consumer_group")
        for name, text, field in (
            ("rocketmq_consumer_lag_messages", "Visible and not consumed.", "lag"),
            (
                "rocketmq_consumer_lag_latency",
                "For how long the next message has been visible, in ms.",
                "lag_ms",
            ),
            (
                "rocketmq_consumer_inflight_messages",
                "Received and not acknowledged.",
                "in_flight_count",
            ),
            ("rocketmq_consumer_connections", "Clients of the group.", "client_count"),
        ):
            rows = [((each.topic, each.group), getattr(each, field)) for each in places]
            yield self._gauge(name, text, rows, labels=labels)

    # Ours

    def _ours(self) -> Iterator[Metric]:
        report, measured = self._report, self._measured
        for name, text, count in (
            ("dueline_refused", "Messages that were refused.", report.refused),
            ("dueline_cancelled", "Delayed messages cancelled.", report.cancelled),
            ("dueline_rescheduled", "Delayed messages moved.", report.rescheduled),
            ("dueline_expired", "Delayed messages that expired.", report.expired),
            ("dueline_dropped", "Messages dropped by the transform.", report.dropped),
            ("dueline_skipped", "Rows of batches that were done before.", report.skipped),
            ("dueline_pipeline_starts", "Starts of the pipeline.", report.driver.start_count),
        ):
            yield self._counter(name, text, count)
        yield self._counter(
            "dueline_limited",
            "Refusals by a quota: of a user, an address or a topic.",
            [((kind, who), count) for kind, who, count in _limited(report.limited)],
            labels=("kind", "name"),
        )
        for name, text, value in (
            ("dueline_pending_messages", "Delayed messages in the delay log.", report.pending),
            ("dueline_gate_messages", "Carried over and not due yet.", report.at_gate),
            ("dueline_overdue_messages", "Due for a second and not carried over.", report.overdue),
            (
                "dueline_waiting_readers",
                "Consumers that wait for messages.",
                report.waiting_readers,
            ),
            (
                "dueline_clock_ahead_seconds",
                "For so long time stands still.",
                report.clock_ahead_ms / 1_000,
            ),
            (
                "dueline_uptime_seconds",
                "Since the broker's start.",
                (report.now_ms - report.started_ms) / 1_000,
            ),
            ("dueline_commit_log_bytes", "Size of the commit log.", report.commit_log_bytes),
            ("dueline_delay_log_bytes", "Size of the delay log.", report.delay_log_bytes),
            ("dueline_disk_free_bytes", "Free on the store's disk.", measured.disk_free_bytes),
            ("dueline_disk_used_bytes", "Used on the store's disk.", measured.disk_used_bytes),
            (
                "dueline_lateness_max_seconds",
                "The largest lateness since the start.",
                report.lateness.late_ms_max / 1_000,
            ),
            (
                "dueline_runway_seconds",
                "How far ahead of now everything is carried over.",
                _runway_s(measured),
            ),
            (
                "dueline_runway_target_seconds",
                "How far ahead it should be.",
                measured.ahead_ms / 1_000,
            ),
            ("dueline_pipeline_ready", "1 if the pipeline is ready.", int(report.is_delivering)),
        ):
            yield self._gauge(name, text, value)

    def _histograms(self) -> Iterator[Metric]:
        measured = self._measured
        yield self._histogram(
            "dueline_lateness_seconds",
            "How late messages became visible.",
            measured.lateness_ms,
            scale=1_000,
        )
        yield self._histogram("dueline_fsync_seconds", "How long the disk took.", measured.sync_s)
        yield self._histogram(
            "dueline_group_messages", "Messages accepted together.", measured.group_rows
        )
        yield self._histogram(
            "dueline_batch_messages", "Messages carried over together.", measured.batch_rows
        )

    # Families

    def _counter(
        self,
        name: str,
        text: str,
        rows: float | Iterable[tuple[Sequence[str], float]],
        labels: Sequence[str] = (),
    ) -> Metric:
        return self._filled(CounterMetricFamily(name, text, labels=(*_NODE, *labels)), rows)

    def _gauge(
        self,
        name: str,
        text: str,
        rows: float | Iterable[tuple[Sequence[str], float]],
        labels: Sequence[str] = (),
    ) -> Metric:
        return self._filled(GaugeMetricFamily(name, text, labels=(*_NODE, *labels)), rows)

    def _filled(
        self,
        family: CounterMetricFamily | GaugeMetricFamily,
        rows: float | Iterable[tuple[Sequence[str], float]],
    ) -> Metric:
        for values, value in [((), rows)] if isinstance(rows, int | float) else rows:
            family.add_metric((*self._node, *values), value)
        return family

    def _histogram(self, name: str, text: str, found: Histogram, *, scale: float = 1) -> Metric:
        family = HistogramMetricFamily(name, text, labels=_NODE)
        count, buckets = 0, []
        bounds = [*(str(bound / scale) for bound in found.bounds), "+Inf"]
        for bound, part in zip(bounds, found.counts, strict=True):
            count += part
            buckets.append((bound, count))
        family.add_metric(self._node, buckets, found.total / scale)
        return family


def _limited(limited: Mapping[str, int]) -> Iterator[tuple[str, str, int]]:
    """Whom quotas have limited: what it is, its name, and how often."""
    for subject, count in limited.items():
        kind, _, name = subject.partition(" ")
        yield kind, name, count


def _runway_s(measured: Measured) -> float:
    """Nothing that waits is as good as a runway that is full."""
    if measured.runway_ms is None:
        return measured.ahead_ms / 1_000
    return min(measured.runway_ms, measured.ahead_ms) / 1_000
