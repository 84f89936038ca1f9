"""Selectors and expressions that several panels share."""

from grafana.panels import Panel, Query, chart

COUNTED = 'job=~"$job", pipeline=~"$pipeline"'
SELECTED = f'{COUNTED}, window="$window"'
OWN = 'job=~"$job"'


def selector(metric: str, *labels: str, of: str = SELECTED) -> str:
    """A metric of the chosen job, pipelines and window, with more matchers."""
    return f"{metric}{{{', '.join([of, *labels])}}}"


def rate(counter: str, by: str, *labels: str, of: str = COUNTED) -> str:
    """Growth of a counter per second."""
    return f"sum by ({by}) (rate({selector(counter, *labels, of=of)}[$__rate_interval]))"


def increase(counter: str, by: str, *labels: str, of: str = COUNTED) -> str:
    """Growth of a counter from point to point."""
    return f"sum by ({by}) (increase({selector(counter, *labels, of=of)}[$__rate_interval]))"


def quantile(q: float, histogram: str, by: str, *labels: str, of: str = COUNTED) -> str:
    """A quantile out of the buckets of a histogram."""
    buckets = rate(f"{histogram}_bucket", ", ".join(filter(None, ["le", by])), *labels, of=of)
    return f"histogram_quantile({q}, {buckets})"


ACTIVE = 'state="active"'  # of alerts: neither silenced nor explained by another one


def alerts(state: int, *labels: str) -> str:
    """Number of active alerts in a state; 0 where ragmon answers and has had no alert yet."""
    total = f"sum({selector('ragmon_alert_state', ACTIVE, *labels, of=COUNTED)} == bool {state})"
    return f"{total} or 0 * sum(ragmon_build_info{{{OWN}}})"


def overall(metric: str, *labels: str) -> str:
    """A ratio over the chosen pipelines, each with the weight of its samples."""
    ratio, samples = selector(metric, *labels), selector(f"{metric}_samples", *labels)
    return f"sum({ratio} * {samples}) / sum({samples})"


def ratio(
    title: str,
    description: str,
    metric: str,
    *labels: str,
    legend: str = "{{pipeline}}",
    rare: bool = False,
    baseline: str = "",
) -> Panel:
    """A rolling ratio with both ends of its 95 % interval, what it was, and what it should be.

    Args:
        title: of the panel.
        description: what it is the share of.
        metric: without ``_lower`` and ``_upper``.
        labels: matchers beside job, pipeline and window.
        legend: of the line.
        rare: whether it is near 0 when all is well: the axis then ends where the values do.
        baseline: what baselines call the metric; empty where they do not hold it.
    """
    value = selector(metric, *labels)
    queries = [
        Query(value, legend),
        Query(selector(f"{metric}_lower", *labels), f"{legend} lower"),
        Query(selector(f"{metric}_upper", *labels), f"{legend} upper"),
        Query(f"{value} offset $compare", f"{legend} $compare ago"),
    ]
    what = f"{description} Dotted: 95 % interval. Dashed: the same, $compare ago"
    if baseline:
        level = selector("ragmon_baseline_ratio", f'metric="{baseline}"', of=COUNTED)
        queries.append(Query(level, "{{pipeline}} baseline"))
        what += ", and the promoted baseline"
    what += "."
    if rare:
        custom = {"fillOpacity": 0, "spanNulls": False, "showPoints": "never", "axisSoftMax": 0.1}
        return chart(title, what, "percentunit", *queries, min=0, custom=custom)
    return chart(title, what, "percentunit", *queries, min=0, max=1)
