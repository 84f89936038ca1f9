"""Dashboard *what broke?*: alerts, failure modes, and the slices and queries behind them."""

from grafana.board import Board, Row, of_hit_rate, variable
from grafana.metrics import (
    ACTIVE,
    CITED,
    COUNTED,
    ERRORS,
    FAITHFULNESS,
    GROUNDING,
    HITS,
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
    Json,
    Query,
    chart,
    column,
    link,
    stack,
    stat,
    states,
    table,
    thresholds,
)

_FAILED = 'mode!~"none|unknown"'
_STATE = f"ragmon_alert_state{{{COUNTED}}}"
_ACTIVE_STATE = f"ragmon_alert_state{{{COUNTED}, {ACTIVE}}}"
_PIPELINE = "${__data.fields.Pipeline:percentencode}"
_PIPELINE_PAGE = "${ragmon}/pipelines/" + _PIPELINE + "?window=${window}"
_QUERIES = "${ragmon}/queries?since=${window}&pipeline=" + _PIPELINE
_OF_ALERT = (
    link(
        "The incident in ragmon",
        "${ragmon}/incidents?alert=${__data.fields.Alert:percentencode}&pipeline=" + _PIPELINE,
    ),
    link("Incidents of the pipeline", _PIPELINE_PAGE),
    link("Runbook", "${ragmon}/runbooks/${__data.fields.Alert:percentencode}"),
)
_OF_SLICE = (
    link(
        "The slice in ragmon",
        _PIPELINE_PAGE + "&slice=${dimension}%3D${__data.fields.Slice:percentencode}",
    ),
)

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
            (0.05, "orange"),
            (0.2, "red"),
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
            "another); links lead to the incident and the runbook.",
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
            overrides=(column("Alert", links=list(_OF_ALERT)),),
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
    "Hit rate": HITS,
    "Found nothing": NOTHING_FOUND,
    "Errors": ERRORS,
    "Attribution": CITED,
    "Grounding": GROUNDING,
    "Faithfulness": FAITHFULNESS,
    "Liked": LIKED,
}
_WORSE_HIGH = ("Found nothing", "Errors")
_CHARTS = {
    "Hit rate": "Share with a relevant chunk among the first $k, by $evidence.",
    "Found nothing": "Share of queries for which retrieval found nothing.",
    "Errors": "Share of queries that failed.",
    "Attribution": "Share of the retrieved chunks that answers cite.",
    "Grounding": "How much of an answer its chunks hold, by the embedded judge.",
}


def _difference(heading: str) -> Json:
    """A column whose background says how much worse than the rest the slice is."""
    steps = [(0.02, "orange"), (0.1, "red")]
    colours = thresholds(*steps, below="transparent")
    if heading not in _WORSE_HIGH:
        steps = [(-0.1, "orange"), (-0.02, "transparent")]
        colours = thresholds(*steps, below="red")
    cells = {"type": "color-background", "mode": "basic"}
    return column(heading, decimals=1, thresholds=colours, **{"custom.cellOptions": cells})


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
            overrides=(
                column("Slice", links=list(_OF_SLICE)),
                column("Queries", unit="short", decimals=0),
            ),
            sorted_by="Queries",
            height=7,
        ),
        table(
            "Difference from the rest",
            "Each value of $dimension less all others of its pipeline together, over the window: "
            "0.1 is ten percentage points. Orange: worse by 2 points, red: by 10.",
            "percentunit",
            {
                "Queries": Query(_QUERIES_BY_SLICE, "", instant=True),
                **{
                    heading: Query(of.against_rest("$window"), "", instant=True)
                    for heading, of in _SHARES.items()
                },
            },
            {"pipeline": "Pipeline", "value": "Slice"},
            overrides=(
                column("Slice", links=list(_OF_SLICE)),
                column("Queries", unit="short", decimals=0),
                *(_difference(heading) for heading in _SHARES),
            ),
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
    (
        variable("dimension", "Slice by", "label_values(ragmon_slice_window_queries, dimension)"),
        *of_hit_rate("ragmon_slice_hit_ratio"),  # slices have the headline k alone
    ),
)
