"""Paths of metrics over time and side by side, as ``ragmon.web.endpoints`` has all others."""

from ragmon.comparisons import SliceComparison
from ragmon.metric_series import MetricSeries
from ragmon.web.endpoint import Endpoint, Parameter

MOST_POINTS = 2_000

SERIES = Endpoint(
    name="series",
    method="GET",
    path="/v1/series",
    scope="read",
    reads="windows",
    pipelines="own",
    tag="Report",
    summary="One metric over time with its 95 % interval, as points to draw",
    help="Metrics have the names of the report, such as `zero_result`, `hit@3/label` and "
    "`failure_mode/retrieval`; besides these there are `queries` and quantiles of latency such as "
    "`latency_ms@p95/total`, in milliseconds.",
    parameters=(
        Parameter("metric", "Name of the metric."),
        Parameter("pipeline", "Name of the pipeline."),
        Parameter(
            "slice", "A slice as `dimension=value`. Empty: the pipeline as a whole.", str, ""
        ),
        Parameter(
            "from", "Start: Unix seconds, RFC 3339 or how long ago. Empty: a day before `to`."
        ),
        Parameter("to", "End: Unix seconds, RFC 3339 or how long ago. Empty: now."),
        Parameter(
            "step", "Least length of a step, such as `5m`. Empty: some 300 points; 2,000 at most."
        ),
    ),
    answer=MetricSeries,
    problems=(400, 404),
)
COMPARE = Endpoint(
    name="compare",
    method="GET",
    path="/v1/compare",
    scope="read",
    reads="windows",
    pipelines="own",
    tag="Report",
    summary="Two versions or tag values of a pipeline side by side, with tested differences",
    help="Over the hours in which both had queries, or over all of the time when there were none "
    "(`hours`). Differences are the candidate minus the reference; `p_corrected` is corrected for "
    "the number of metrics by Holm's method, and `differs` says whether it is below 5 %.",
    parameters=(
        Parameter("pipeline", "Name of the pipeline."),
        Parameter("dimension", "`version`, or a tag of `slices`.", str, "version"),
        Parameter("reference", "Value that is compared with."),
        Parameter("candidate", "Value that is compared."),
        Parameter(
            "from", "Start: Unix seconds, RFC 3339 or how long ago. Empty: a day before `to`."
        ),
        Parameter("to", "End: Unix seconds, RFC 3339 or how long ago. Empty: now."),
    ),
    answer=SliceComparison,
    problems=(400, 404),
)
