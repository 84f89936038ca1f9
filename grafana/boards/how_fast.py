"""Dashboard *how fast?*: latency of the application by stage, and of ragmon's own answers."""

from grafana.board import SLICE_WINDOW, Board, Row
from grafana.metrics import COUNTED, OF_SLICES, OWN, SLOW, increase, quantile, rate, selector, share
from grafana.panels import Panel, Query, chart, heatmap, stat

_DURATION = "ragmon_query_duration_seconds"
_TOTAL = 'stage="total"'
_AT = 'quantile="%s"'


def _quantile(title: str, q: str) -> Panel:
    return stat(
        title,
        f"Quantile {q} of the total latency over the window, of the slowest chosen pipeline.",
        "s",
        Query(f"max({selector('ragmon_latency_seconds', _TOTAL, _AT % q)})", title),
        (2, "orange"),
        (5, "red"),
    )


_NOW = Row(
    "Now",
    (
        _quantile("Median", "0.5"),
        _quantile("95 %", "0.95"),
        _quantile("99 %", "0.99"),
        stat(
            "Slow",
            "Share of queries slower than latency.slow_ms.",
            "percentunit",
            Query(SLOW.over("$window"), "slow"),
            (0.01, "orange"),
            (0.05, "red"),
        ),
        stat(
            "Queries",
            "Queries counted, per second.",
            "reqps",
            Query(f"sum(rate(ragmon_queries_total{{{COUNTED}}}[$__rate_interval]))", "queries"),
            (0.000_001, "green"),
            below="red",
        ),
        stat(
            "Acknowledged",
            "99 % of the batches that ragmon took were on disk within this time.",
            "s",
            Query(quantile(0.99, "ragmon_commit_duration_seconds", "", of=OWN), "p99"),
            (0.25, "orange"),
            (1, "red"),
        ),
    ),
)

_LATENCY = Row(
    "Latency",
    (
        chart(
            "Quantiles in the window",
            "Total latency over the window, within 1 %.",
            "s",
            Query(
                selector("ragmon_latency_seconds", _TOTAL, 'quantile=~"0.5|0.95|0.99"'),
                "{{pipeline}} {{quantile}}",
            ),
            min=0,
        ),
        chart(
            "95 % by stage",
            "Where the time goes: retrieval and generation beside the total.",
            "s",
            Query(
                selector("ragmon_latency_seconds", _AT % "0.95"),
                "{{pipeline}} {{stage}}",
            ),
            min=0,
        ),
        heatmap(
            "Latencies",
            "Number of queries by latency; dots are exemplars, which link to the query.",
            "s",
            Query(
                increase(f"{_DURATION}_bucket", "le", _TOTAL),
                "{{le}}",
                buckets=True,
                exemplars=True,
            ),
        ),
        chart(
            "95 % right now",
            "Quantile by stage from the histograms of all replicas; as exact as their buckets.",
            "s",
            Query(quantile(0.95, _DURATION, "stage"), "{{stage}}", exemplars=True),
            min=0,
        ),
        chart(
            "Mean by stage",
            "Mean latency within each step of the chart.",
            "s",
            Query(
                f"{rate(f'{_DURATION}_sum', 'pipeline, stage')}"
                f" / {rate(f'{_DURATION}_count', 'pipeline, stage')}",
                "{{pipeline}} {{stage}}",
            ),
            min=0,
        ),
        share("Slow", "Share of queries slower than latency.slow_ms.", SLOW),
        chart(
            "95 % by version",
            "Total latency over a window of slices, release by release.",
            "s",
            Query(
                selector(
                    "ragmon_slice_latency_seconds",
                    'dimension="version"',
                    _TOTAL,
                    _AT % "0.95",
                    of=OF_SLICES,
                ),
                "{{pipeline}} {{value}}",
            ),
            min=0,
        ),
        chart(
            "Acknowledgement",
            "Time from receiving a group of batches until it is on disk and counted.",
            "s",
            *(
                Query(quantile(q, "ragmon_commit_duration_seconds", "", of=OWN), f"p{100 * q:g}")
                for q in (0.5, 0.95, 0.99)
            ),
            min=0,
        ),
    ),
)

BOARD = Board(
    "how-fast",
    "how fast?",
    "Latency by stage with exemplars, and how fast ragmon itself acknowledges.",
    (_NOW, _LATENCY),
    (SLICE_WINDOW,),
)
