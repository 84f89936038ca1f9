"""The row about topics of Kafka and the workers that share them."""

from grafana.board import Row
from grafana.metrics import OWN, rate, selector
from grafana.panels import Query, chart


def _sum(metric: str, by: str = "job") -> str:
    return f"sum by ({by}) ({selector(metric, of=OWN)})"


KAFKA = Row(
    "Kafka and workers",
    (
        chart(
            "Lag",
            "Age of the message that was read last, of the partition that is furthest behind.",
            "s",
            Query(f"max by (topic) ({selector('ragmon_kafka_lag_seconds', of=OWN)})", "{{topic}}"),
            min=0,
        ),
        chart(
            "Messages behind",
            "Messages that were written and are not read yet, of all partitions.",
            "short",
            Query(_sum("ragmon_kafka_lag_records", "topic"), "{{topic}}"),
            min=0,
        ),
        chart(
            "Complete until",
            "Time since the moment until which all workers have committed: alerts are that late. "
            "Nothing without workers.",
            "s",
            Query(
                f"time() - max by (job) (ragmon_complete_until_timestamp_seconds{{{OWN}}} > 0)",
                "{{job}}",
            ),
            min=0,
        ),
        chart(
            "Partitions",
            "Partitions that workers have, those that stand still, and those that nobody may read.",
            "short",
            Query(_sum("ragmon_shard_owned"), "{{job}}: owned"),
            Query(_sum("ragmon_shards_stalled"), "{{job}}: stalled"),
            Query(_sum("ragmon_log_stopped_partitions"), "{{job}}: stopped"),
            min=0,
        ),
        chart(
            "Lost",
            "Messages that Kafka deleted before they were read.",
            "reqps",
            Query(rate("ragmon_log_lost_total", "topic", of=OWN), "{{topic}}"),
            min=0,
        ),
        chart(
            "Leader and refused writes",
            "Processes that hold the lease of the evaluator, and writes of processes that were "
            "replaced.",
            "short",
            Query(_sum("ragmon_leader"), "{{job}}: leaders"),
            Query(rate("ragmon_fenced_total", "what", of=OWN), "refused: {{what}}"),
            min=0,
        ),
    ),
)
