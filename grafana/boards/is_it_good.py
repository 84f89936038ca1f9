"""Dashboard *is it good?*: quality now, against its own past, with intervals."""

from grafana.board import Board, Row, of_hit_rate
from grafana.metrics import (
    COUNTED,
    GROUNDING,
    HITS,
    LIKED,
    NOTHING_FOUND,
    OWN,
    SELECTED,
    UNCITED,
    UNFAITHFUL,
    alerts,
    increase,
    rate,
    ratio,
    selector,
    share,
)
from grafana.panels import Panel, Query, chart, column, stat, table

_AT_K = ('k="$k"', 'evidence="$evidence"')
_RATIOS = "error|zero_result|attribution|uncited|grounding|unfaithful|positive_feedback|slow"
_HELD = f'metric=~"{_RATIOS}"'
_BASELINE = f"max by (pipeline, metric) ({selector('ragmon_baseline_ratio', _HELD, of=COUNTED)})"
_PROMOTED = f"max by (pipeline, baseline) (ragmon_baseline_info{{{COUNTED}}})"


def _every(suffix: str = "", offset: str = "") -> Query:
    """One of the values of each ratio, by pipeline and metric."""
    name = f'__name__=~"ragmon_({_RATIOS})_ratio{suffix}"'
    value = f"{{{name}, {SELECTED}}}{offset}"
    named = f'label_replace({value}, "metric", "$1", "__name__", "ragmon_(.+)_ratio.*")'
    return Query(f"max by (pipeline, metric) ({named})", "", instant=True)


_NOW = Row(
    "Now",
    (
        stat(
            "Queries",
            "Queries in the window, over the chosen pipelines.",
            "short",
            Query(increase("ragmon_queries_total", "", over="$window"), "queries"),
            (1, "green"),
            below="red",
        ),
        stat(
            "Found nothing",
            "Share of queries for which retrieval found nothing.",
            "percentunit",
            Query(NOTHING_FOUND.over("$window"), "zero results"),
            (0.05, "orange"),
            (0.2, "red"),
        ),
        stat(
            "Hit rate at $k",
            "Share of queries with a relevant chunk among the first $k, by $evidence.",
            "percentunit",
            Query(HITS.over("$window"), "hit"),
            (0.5, "orange"),
            (0.8, "green"),
            below="red",
        ),
        stat(
            "Grounding",
            "Share of the answers that their chunks support, by the embedded judge.",
            "percentunit",
            Query(GROUNDING.over("$window"), "grounding"),
            (0.5, "orange"),
            (0.8, "green"),
            below="red",
        ),
        stat(
            "Liked",
            "Share of the rated answers that users liked.",
            "percentunit",
            Query(LIKED.over("$window"), "liked"),
            (0.5, "orange"),
            (0.7, "green"),
            below="red",
        ),
        stat(
            "Open alerts",
            "Alerts that fire now.",
            "short",
            Query(alerts(2), "alerts"),
            (1, "red"),
        ),
    ),
)

_TABLE = Row(
    "Every ratio",
    (
        table(
            "Now, and $compare ago",
            "Each ratio with its 95 % interval, beside the promoted baseline and $compare ago.",
            "percentunit",
            {
                "Now": _every(),
                "From": _every("_lower"),
                "To": _every("_upper"),
                "Baseline": Query(_BASELINE, "", instant=True),
                "Before": _every(offset=" offset $compare"),
                "Samples": _every("_samples"),
            },
            {"pipeline": "Pipeline", "metric": "Ratio"},
            overrides=(column("Samples", unit="short", decimals=0),),
            width=18,
            height=9,
        ),
        table(
            "Baselines",
            "Saved baselines to compare traffic with, besides its own past; see ragmon baseline.",
            "short",
            {"Promoted": Query(_PROMOTED, "", instant=True)},
            {"pipeline": "Pipeline", "baseline": "Baseline"},
            width=6,
            height=9,
        ),
    ),
)

_RETRIEVAL = Row(
    "Retrieval",
    (
        ratio(
            "Found nothing",
            "Share of queries for which retrieval found nothing.",
            "ragmon_zero_result_ratio",
            rare=True,
            baseline="zero_result",
        ),
        ratio(
            "Hit rate at $k",
            "Share with a relevant chunk among the first $k, by $evidence.",
            "ragmon_hit_ratio",
            *_AT_K,
        ),
        chart(
            "Reciprocal rank",
            "Mean of 1/rank of the first relevant chunk, by $evidence.",
            "short",
            Query(selector("ragmon_reciprocal_rank", 'evidence="$evidence"'), "{{pipeline}}"),
            min=0,
            max=1,
        ),
        ratio(
            "Attribution",
            "Mean share of the retrieved chunks that the answer cites.",
            "ragmon_attribution_ratio",
            baseline="attribution",
        ),
    ),
)

_ANSWERS = Row(
    "Answers",
    (
        ratio(
            "Grounding",
            "Share of an answer that its chunks support, by the embedded judge.",
            "ragmon_grounding_ratio",
            baseline="grounding",
        ),
        share(
            "Unfaithful answers",
            "Share of the judged answers below judge.unfaithful_below.",
            UNFAITHFUL,
        ),
        share(
            "Answers that cite nothing",
            "Share of the answers that cite none of their retrieved chunks.",
            UNCITED,
        ),
        ratio(
            "Liked",
            "Share of the rated answers that users liked.",
            "ragmon_positive_feedback_ratio",
            baseline="positive_feedback",
        ),
    ),
)

_TRAFFIC = Row(
    "Traffic",
    (
        chart(
            "Queries",
            "Queries counted, per second.",
            "reqps",
            Query(rate("ragmon_queries_total", "pipeline, version"), "{{pipeline}} {{version}}"),
            min=0,
        ),
        ratio(
            "Errors",
            "Share of queries that failed.",
            "ragmon_error_ratio",
            rare=True,
            baseline="error",
        ),
    ),
)


def _probed(title: str, description: str, metric: str, *labels: str, legend: str = "") -> Panel:
    """A figure of the golden probes with its interval."""
    name = f"{{{{probe}}}}{legend}"
    ends = (("", ""), ("_lower", " lower"), ("_upper", " upper"))
    chosen = ", ".join([OWN, *labels])
    queries = [Query(f"{metric}{end}{{{chosen}}}", f"{name}{what}") for end, what in ends]
    return chart(f"{title}, probed", description, "percentunit", *queries, min=0, max=1)


_PROBES = Row(
    "Golden probes",
    (
        _probed(
            "Hit rate at $k",
            "Golden questions with something relevant among the first $k.",
            "ragmon_probe_hit_ratio",
            'k="$k"',
        ),
        _probed(
            "Faithfulness",
            "Share of the answers to golden questions that their chunks support.",
            "ragmon_probe_faithfulness_ratio",
            legend=" {{judge}}",
        ),
        _probed(
            "Unusable",
            "Golden questions without a usable answer.",
            "ragmon_probe_error_ratio",
        ),
        chart(
            "Fall against the reference",
            "Fall in the share of golden cases that pass, by metric; see ragmon gate.",
            "percentunit",
            Query(f"ragmon_probe_fall_ratio{{{OWN}}}", "{{probe}} {{metric}}"),
        ),
    ),
    folded=True,
)

BOARD = Board(
    "is-it-good",
    "is it good?",
    "Quality of retrieval and answers now, by pipeline, with 95 % intervals and its own past.",
    (_NOW, _RETRIEVAL, _ANSWERS, _TABLE, _TRAFFIC, _PROBES),
    of_hit_rate("ragmon_query_hits_total"),
)
