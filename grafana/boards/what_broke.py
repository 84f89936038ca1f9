"""Dashboard *what broke?*: alerts, failure modes, and the slices and queries behind them."""

from grafana.board import Board, Row, variable
from grafana.metrics import ACTIVE, COUNTED, alerts, increase, overall, rate, selector
from grafana.panels import (
    HALF,
    Panel,
    Query,
    chart,
    column,
    link,
    stack,
    stat,
    states,
    table,
)

_FAILED = 'mode!~"none|unknown"'
_STATE = f"ragmon_alert_state{{{COUNTED}}}"
_ACTIVE_STATE = f"ragmon_alert_state{{{COUNTED}, {ACTIVE}}}"
_PIPELINE = "${__data.fields.Pipeline:percentencode}"
_ALERTS = link("Evidence", "${ragmon}/v1/alerts?state=open&pipeline=" + _PIPELINE)
_QUERIES = "${ragmon}/v1/queries?since=${window}&pipeline=" + _PIPELINE

_OPEN = Row(
    "Alerts",
    (
        stat(
            "Critical",
            "Critical alerts that fire now.",
            "short",
            Query(alerts(2, 'severity="critical"'), "critical"),
            (1, "red"),
        ),
        stat(
            "Firing",
            "Alerts that fire now, of every severity, neither silenced nor explained.",
            "short",
            Query(alerts(2), "firing"),
            (1, "orange"),
        ),
        stat(
            "Pending",
            "Alerts whose condition holds, but not yet for long enough.",
            "short",
            Query(alerts(1), "pending"),
            (1, "yellow"),
        ),
        stat(
            "Failed queries",
            "Share of queries that failed, over the chosen pipelines.",
            "percentunit",
            Query(overall("ragmon_error_ratio"), "errors"),
            (0.01, "orange"),
            (0.05, "red"),
        ),
        stat(
            "Found nothing",
            "Share of queries for which retrieval found nothing.",
            "percentunit",
            Query(overall("ragmon_zero_result_ratio"), "zero results"),
            (0.05, "orange"),
            (0.2, "red"),
        ),
        stat(
            "Unfaithful answers",
            "Share of the judged answers below judge.unfaithful_below.",
            "percentunit",
            Query(overall("ragmon_unfaithful_ratio"), "unfaithful"),
        ),
        states(
            "Alerts over time",
            "Every alert that was pending or firing and neither silenced nor explained by another.",
            Query(f"max by (alert, pipeline) ({_ACTIVE_STATE}) > 0", "{{alert}} {{pipeline}}"),
            {1: ("pending", "yellow"), 2: ("firing", "red")},
        ),
        table(
            "Open alerts",
            "Alerts pending (1) or firing (2) now, active or suppressed (silenced, or explained by "
            "another); the link shows their evidence.",
            "short",
            {
                "State": Query(
                    f"max by (alert, pipeline, severity, state) ({_STATE}) > 0", "", instant=True
                )
            },
            {
                "alert": "Alert",
                "pipeline": "Pipeline",
                "severity": "Severity",
                "state": "Notified",
            },
            overrides=(column("Alert", links=[_ALERTS]),),
            sorted_by="State",
            width=HALF,
        ),
        chart(
            "Alerts fired",
            "Alerts that began to fire within each step of the chart.",
            "short",
            Query(increase("ragmon_alerts_fired_total", "alert"), "{{alert}}"),
            min=0,
        ),
    ),
)

_MODES = Row(
    "Failure modes",
    (
        stack(
            "What goes wrong",
            "Share of queries by failure mode; the remaining queries are good or not diagnosed.",
            "percentunit",
            Query(selector("ragmon_failure_mode_ratio", _FAILED), "{{pipeline}} {{mode}}"),
        ),
        stack(
            "Queries that went wrong",
            "Queries by failure mode, per second; one whose diagnosis changed counts in each.",
            "reqps",
            Query(
                rate("ragmon_failure_mode_total", "pipeline, mode", _FAILED),
                "{{pipeline}} {{mode}}",
            ),
        ),
        table(
            "The queries behind it",
            "Failure modes now, with their 95 % interval; the link lists the newest queries.",
            "percentunit",
            {
                name: Query(
                    f"max by (pipeline, mode) "
                    f"({selector(f'ragmon_failure_mode_ratio{suffix}', _FAILED)})",
                    "",
                    instant=True,
                )
                for name, suffix in (
                    ("Share", ""),
                    ("From", "_lower"),
                    ("To", "_upper"),
                    ("Queries", "_samples"),
                )
            },
            {"pipeline": "Pipeline", "mode": "Mode"},
            overrides=(
                column(
                    "Mode",
                    links=[
                        link("Queries", _QUERIES + "&failing=${__data.fields.Mode:percentencode}")
                    ],
                ),
                column("Queries", unit="short", decimals=0),
            ),
            sorted_by="Share",
            height=5,
        ),
    ),
)


def _by_slice(metric: str) -> Query:
    chosen = selector(f"ragmon_slice_{metric}", 'dimension="$dimension"')
    return Query(f"max by (pipeline, value) ({chosen})", "", instant=True)


def _over_slices(title: str, description: str, metric: str) -> Panel:
    chosen = selector(f"ragmon_slice_{metric}", 'dimension="$dimension"')
    return chart(
        title, description, "percentunit", Query(chosen, "{{pipeline}} {{value}}"), min=0, max=1
    )


_SLICES = Row(
    "Where: by $dimension",
    (
        table(
            "Slices",
            "Each value of $dimension now.",
            "percentunit",
            {
                "Queries": _by_slice("window_queries"),
                "Errors": _by_slice("error_ratio"),
                "Found nothing": _by_slice("zero_result_ratio"),
                "Attribution": _by_slice("attribution_ratio"),
                "Grounding": _by_slice("grounding_ratio"),
                "Liked": _by_slice("positive_feedback_ratio"),
            },
            {"pipeline": "Pipeline", "value": "Slice"},
            overrides=(column("Queries", unit="short", decimals=0),),
            sorted_by="Queries",
            height=7,
        ),
        _over_slices(
            "Found nothing, by $dimension",
            "Share of queries for which retrieval found nothing.",
            "zero_result_ratio",
        ),
        _over_slices("Errors, by $dimension", "Share of queries that failed.", "error_ratio"),
        _over_slices(
            "Attribution, by $dimension",
            "Mean share of the retrieved chunks that the answer cites.",
            "attribution_ratio",
        ),
        _over_slices(
            "Grounding, by $dimension",
            "How much of an answer its chunks hold, by the embedded judge.",
            "grounding_ratio",
        ),
    ),
)

BOARD = Board(
    "what-broke",
    "what broke?",
    "Open alerts, failure modes, and the slices and queries behind them.",
    (_OPEN, _MODES, _SLICES),
    (variable("dimension", "Slice by", "label_values(ragmon_slice_window_queries, dimension)"),),
)
