"""ragmon itself: whether the monitor can be believed."""

from grafana.board import Board, Row
from grafana.kafka_row import KAFKA
from grafana.metrics import OWN, quantile, rate, selector
from grafana.panels import THIRD, Query, chart, column, stack, stat, table

_LIMIT = f'ragmon_limit_bytes{{{OWN}, limit="disk"}}'
_DISK_USED = f"max(ragmon_store_bytes{{{OWN}}} / on (job, instance) {_LIMIT})"

_QUEUE, _DISK = 'limit="queue"', 'limit=~"disk|max_disk"'


def _sum(metric: str, *labels: str, by: str = "job") -> str:
    return f"sum by ({by}) ({selector(metric, *labels, of=OWN)})"


def _age(timestamp: str) -> str:
    return f"time() - max by (job) ({timestamp}{{{OWN}}})"


_NOW = Row(
    "Now",
    (
        stat(
            "Up",
            "Processes of ragmon that Prometheus reached at its last scrape.",
            "short",
            Query(f"sum(up{{{OWN}}})", "up"),
            (1, "green"),
            below="red",
        ),
        stat(
            "Evaluated",
            "Time since the windows were last evaluated.",
            "s",
            Query(f"time() - max(ragmon_evaluation_timestamp_seconds{{{OWN}}})", "age"),
            (120, "red"),
        ),
        stat(
            "Newest query",
            "Time since the newest query was asked.",
            "s",
            Query(f"time() - max(ragmon_watermark_timestamp_seconds{{{OWN}}})", "age"),
            (3600, "orange"),
        ),
        stat(
            "Accepted",
            "Records, feedback and labels made durable, per second.",
            "reqps",
            Query(f"sum(rate(ragmon_ingest_records_total{{{OWN}}}[$__rate_interval]))", "taken"),
            (0.000_001, "green"),
            below="red",
        ),
        stat(
            "Refused",
            "Records refused per second; the reasons are below.",
            "reqps",
            Query(f"sum(rate(ragmon_rejected_total{{{OWN}}}[$__rate_interval]))", "refused"),
            (0.001, "orange"),
        ),
        stat(
            "Disk used",
            "Share that the store has taken of what it may take on its disk, of the fullest.",
            "percentunit",
            Query(_DISK_USED, "used"),
            (0.5, "orange"),
            (0.8, "red"),
        ),
    ),
)

_AT = "cluster, namespace, job, instance"


def _by_instance(metric: str, *labels: str) -> Query:
    return Query(f"sum by ({_AT}) ({selector(metric, *labels, of=OWN)})", "", instant=True)


def _per_second(counter: str) -> Query:
    grown = f"rate({selector(counter, of=OWN)}[$__rate_interval])"
    return Query(f"sum by ({_AT}) ({grown})", "", instant=True)


_FLEET = Row(
    "Every ragmon",
    (
        table(
            "Instances",
            "Each process, wherever Prometheus finds it: choose clusters and namespaces above.",
            "short",
            {
                "Up": _by_instance("up"),
                "Accepted": _per_second("ragmon_ingest_records_total"),
                "Refused": _per_second("ragmon_rejected_total"),
                "Queries": _per_second("ragmon_queries_total"),
                "Newest query": Query(
                    f"time() - max by ({_AT}) (ragmon_watermark_timestamp_seconds{{{OWN}}})",
                    "",
                    instant=True,
                ),
                "Disk used": Query(
                    f"max by ({_AT}) (ragmon_store_bytes{{{OWN}}} / on ({_AT}) {_LIMIT})",
                    "",
                    instant=True,
                ),
            },
            {
                "cluster": "Cluster",
                "namespace": "Namespace",
                "job": "Job",
                "instance": "Instance",
            },
            overrides=(
                column("Accepted", unit="reqps"),
                column("Refused", unit="reqps"),
                column("Queries", unit="reqps"),
                column("Newest query", unit="s"),
                column("Disk used", unit="percentunit"),
            ),
            sorted_by="Accepted",
        ),
    ),
)

_INGEST = Row(
    "Ingest",
    (
        stack(
            "Accepted",
            "Records, feedback and labels made durable, by source.",
            "reqps",
            Query(rate("ragmon_ingest_records_total", "source", of=OWN), "{{source}}"),
        ),
        stack(
            "Refused",
            "Records refused, by reason.",
            "reqps",
            Query(rate("ragmon_rejected_total", "reason", of=OWN), "{{reason}}"),
        ),
        chart(
            "Duplicates",
            "Repeated records, which are not counted again, by source.",
            "reqps",
            Query(rate("ragmon_duplicates_total", "source", of=OWN), "{{source}}"),
            min=0,
        ),
        chart(
            "Queue",
            "Share of limits.queue that waits to be committed; at 100 % ragmon answers 503.",
            "percentunit",
            Query(
                f"{_sum('ragmon_ingest_queue_bytes')} / {_sum('ragmon_limit_bytes', _QUEUE)}",
                "{{job}}",
            ),
            min=0,
            max=1,
        ),
        chart(
            "Commit",
            "Time from receiving a group of batches until it is on disk and counted.",
            "s",
            *(
                Query(quantile(q, "ragmon_commit_duration_seconds", "", of=OWN), f"p{100 * q:g}")
                for q in (0.5, 0.95, 0.99)
            ),
            min=0,
        ),
        chart(
            "Failed commits",
            "Groups of batches that could not be written, per second.",
            "reqps",
            Query(rate("ragmon_commit_failures_total", "job", of=OWN), "{{job}}"),
            min=0,
        ),
        chart(
            "Traces waiting",
            "OpenTelemetry traces that are waiting for more spans.",
            "short",
            Query(_sum("ragmon_otlp_pending_traces"), "{{job}}"),
            min=0,
        ),
        chart(
            "Late spans and evicted traces",
            "Spans for which a trace was mapped again, and traces evicted for lack of room.",
            "reqps",
            Query(rate("ragmon_otlp_late_spans_total", "job", of=OWN), "late spans"),
            Query(rate("ragmon_otlp_evicted_traces_total", "job", of=OWN), "evicted traces"),
            min=0,
        ),
    ),
)

_WINDOWS = Row(
    "Windows",
    (
        chart(
            "Evaluation",
            "Duration of the last evaluation of all windows.",
            "s",
            Query(_sum("ragmon_evaluation_duration_seconds"), "{{job}}"),
            min=0,
        ),
        chart(
            "Age",
            "Time since the windows were last evaluated, and since the newest query was asked.",
            "s",
            Query(_age("ragmon_evaluation_timestamp_seconds"), "{{job}}: evaluation"),
            Query(_age("ragmon_watermark_timestamp_seconds"), "{{job}}: newest query"),
            min=0,
        ),
        chart(
            "Restated",
            "Queries corrected after they were counted: by feedback, labels or verdicts.",
            "reqps",
            Query(rate("ragmon_window_restatements_total", "job", of=OWN), "{{job}}"),
            min=0,
        ),
        chart(
            "Waiting feedback and labels",
            "Waiting for a query that has not arrived yet, up to limits.waiting.",
            "short",
            Query(_sum("ragmon_waiting_changes"), "{{job}}"),
            min=0,
        ),
        chart(
            "Series over the limit",
            "Series beyond max_series, which are counted under other.",
            "reqps",
            Query(rate("ragmon_series_dropped_total", "job", of=OWN), "{{job}}"),
            min=0,
        ),
        chart(
            "Skipped runs",
            "Scheduled runs that were skipped because the last one was still running.",
            "reqps",
            Query(rate("ragmon_scheduled_runs_skipped_total", "task", of=OWN), "{{task}}"),
            min=0,
        ),
    ),
)

_DETECTION = Row(
    "Detection",
    (
        chart(
            "Streams",
            "Metrics of pipelines and slices that detectors watch, and those still learning.",
            "short",
            Query(_sum("ragmon_detection_streams"), "{{job}}: watched"),
            Query(_sum("ragmon_detection_learning"), "{{job}}: learning"),
            min=0,
        ),
        chart(
            "Detection lag",
            "Time since the last minute that was judged; detectors.lag is normal.",
            "s",
            Query(_age("ragmon_detection_timestamp_seconds"), "{{job}}"),
            min=0,
        ),
        chart(
            "Streams over the limit",
            "Streams not watched because detectors.max_streams is reached.",
            "reqps",
            Query(rate("ragmon_detection_streams_dropped_total", "job", of=OWN), "{{job}}"),
            min=0,
        ),
        chart(
            "Writer time spent on detection",
            "Share of the writer's time that detection takes.",
            "percentunit",
            Query(rate("ragmon_detection_seconds_total", "job", of=OWN), "{{job}}"),
            min=0,
        ),
    ),
)

_OUT = Row(
    "Notifications and scrapes",
    (
        stack(
            "Notifications",
            "Notifications by sink and outcome, per second.",
            "reqps",
            Query(
                rate("ragmon_notifications_total", "sink, outcome", of=OWN), "{{sink}} {{outcome}}"
            ),
        ),
        chart(
            "Waiting notifications",
            "Notifications not yet delivered, and given up.",
            "short",
            Query(_sum("ragmon_notification_queue_length"), "{{job}}: wait"),
            Query(_sum("ragmon_notification_dead_letters"), "{{job}}: given up"),
            min=0,
        ),
        chart(
            "Scrape",
            "Time that Prometheus took to read /metrics.",
            "s",
            Query(f"max by (job) (scrape_duration_seconds{{{OWN}}})", "{{job}}"),
            width=THIRD,
            min=0,
        ),
        chart(
            "Samples",
            "Samples on /metrics; slices and windows multiply them.",
            "short",
            Query(f"sum by (job) (scrape_samples_scraped{{{OWN}}})", "{{job}}"),
            width=THIRD,
            min=0,
        ),
        chart(
            "Series withheld",
            "Series left out of /metrics because metrics.max_series is reached, by kind; reports "
            "have them. `ragmon check-config` says which metrics take the room.",
            "short",
            Query(_sum("ragmon_series_withheld", by="job, kind"), "{{job}} {{kind}}"),
            width=THIRD,
            min=0,
        ),
    ),
)

_PLACE = Row(
    "Disk and version",
    (
        chart(
            "Store",
            "Bytes of the store on disk; retention.max_disk limits them.",
            "bytes",
            Query(_sum("ragmon_store_bytes"), "{{job}}"),
            width=THIRD,
            min=0,
        ),
        chart(
            "Store, share of its limit",
            "Share of the room on its disk, and of retention.max_disk where it is set.",
            "percentunit",
            Query(
                f"{_sum('ragmon_store_bytes')} / on (job) group_right ()"
                f" {_sum('ragmon_limit_bytes', _DISK, by='job, limit')}",
                "{{job}} {{limit}}",
            ),
            width=THIRD,
            min=0,
            max=1,
        ),
        table(
            "Version",
            "The release of ragmon that runs.",
            "short",
            {
                "Processes": Query(
                    f"count by (job, version) (ragmon_build_info{{{OWN}}})", "", instant=True
                )
            },
            {"job": "Job", "version": "Version"},
            width=THIRD,
        ),
    ),
)

BOARD = Board(
    "ragmon-itself",
    "ragmon itself",
    "Health of the monitor itself: ingest, freshness, detection and notifications.",
    (_NOW, _FLEET, _INGEST, KAFKA, _WINDOWS, _DETECTION, _OUT, _PLACE),
)
