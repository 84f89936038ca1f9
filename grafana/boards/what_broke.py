"""Dashboard *what broke?*: alerts, failure modes, and the slices and queries behind them."""

from grafana.board import Board, Row, variable
from grafana.metrics import (
    ACTIVE,
    CITED,
    COUNTED,
    ERRORS,
    GROUNDING,
    LIKED,
    NOTHING_FOUND,
    UNFAITHFUL,
    alerts,
    increase,
    increase_by_slice,
    rate,
)
from grafana.panels import (
    HALF,
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
            Query(ERRORS.over("$window"), "errors"),
            (0.01, "orange"),
            (0.05, "red"),
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
            "Unfaithful answers",
            "Share of the judged answers below judge.unfaithful_below.",
            "percentunit",
            Query(UNFAITHFUL.over("$window"), "unfaithful"),
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


def _mode_share(range_: str) -> str:
    """Share of each failure mode in the queries of its pipeline."""
    modes = increase("ragmon_failure_mode_total", "pipeline, mode", _FAILED, over=range_)
    queries = increase("ragmon_failure_mode_total", "pipeline", over=range_)
    return f"{modes} / on (pipeline) group_left () {queries}"


_MODES = Row(
    "Failure modes",
    (
        stack(
            "What goes wrong",
            "Share of queries by failure mode; the remaining queries are good or not diagnosed.",
            "percentunit",
            Query(_mode_share("$__rate_interval"), "{{pipeline}} {{mode}}"),
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
            "Failure modes over the window; the link lists the newest queries.",
            "percentunit",
            {
                "Share": Query(_mode_share("$window"), "", instant=True),
                "Queries": Query(
                    increase(
                        "ragmon_failure_mode_total", "pipeline, mode", _FAILED, over="$window"
                    ),
                    "",
                    instant=True,
                ),
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


_SHARES = {
    "Errors": ERRORS,
    "Found nothing": NOTHING_FOUND,
    "Attribution": CITED,
    "Grounding": GROUNDING,
    "Liked": LIKED,
}
_CHARTS = {
    "Found nothing": "Share of queries for which retrieval found nothing.",
    "Errors": "Share of queries that failed.",
    "Attribution": "Share of the retrieved chunks that answers cite.",
    "Grounding": "How much of an answer its chunks hold, by the embedded judge.",
}


_QUERIES_BY_SLICE = increase_by_slice("queries_total", over="$window")

_SLICES = Row(
    "Where: by $dimension",
    (
        table(
            "Slices",
            "Each value of $dimension over the window. Slices that metrics.max_series withholds are"
            " in ragmon report.",
            "percentunit",
            {
                "Queries": Query(_QUERIES_BY_SLICE, "", instant=True),
                **{
                    heading: Query(of.by_slice("$window"), "", instant=True)
                    for heading, of in _SHARES.items()
                },
            },
            {"pipeline": "Pipeline", "value": "Slice"},
            overrides=(column("Queries", unit="short", decimals=0),),
            sorted_by="Queries",
            height=7,
        ),
        *(
            chart(
                f"{heading}, by $dimension",
                text,
                "percentunit",
                Query(_SHARES[heading].by_slice("$__rate_interval"), "{{pipeline}} {{value}}"),
                min=0,
                max=1,
            )
            for heading, text in _CHARTS.items()
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
