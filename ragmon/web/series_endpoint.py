"""Path of metrics over time, as ``ragmon.web.endpoints`` has those of everything else."""

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
