"""Selectors and expressions that several panels share."""

from collections.abc import Callable

from msgspec import Struct

from grafana.panels import Panel, Query, chart

OF_JOB = 'job=~"$job", cluster=~"$cluster", namespace=~"$namespace"'
OWN = f'{OF_JOB}, instance=~"$instance"'
COUNTED = f'{OWN}, pipeline=~"$pipeline"'
SELECTED = f'{COUNTED}, window="$window"'
OF_SLICES = f'{COUNTED}, window="$slice_window"'


def selector(metric: str, *labels: str, of: str = SELECTED) -> str:
    """A metric of the chosen job, pipelines and window, with more matchers."""
    return f"{metric}{{{', '.join([of, *labels])}}}"


def rate(counter: str, by: str, *labels: str, of: str = COUNTED) -> str:
    """Growth of a counter per second."""
    return f"sum by ({by}) (rate({selector(counter, *labels, of=of)}[$__rate_interval]))"


def increase(
    counter: str, by: str, *labels: str, of: str = COUNTED, over: str = "$__rate_interval"
) -> str:
    """Growth of a counter from point to point, or over a range; of everything where by is empty."""
    grouping = f" by ({by}) " if by else ""
    return f"sum{grouping}(increase({selector(counter, *labels, of=of)}[{over}]))"


def increase_by_slice(counter: str, *labels: str, over: str) -> str:
    """Growth of a counter by pipeline and value of the chosen dimension.

    Tags have counters of slices; a version is a label of the others, which are left out where
    another dimension is chosen.
    """
    by_tag = selector(f"ragmon_slice_{counter}", *labels, 'dimension="$dimension"', of=COUNTED)
    versions = f"increase({selector(f'ragmon_{counter}', *labels, of=COUNTED)}[{over}])"
    named = (
        f'label_replace(label_replace({versions}, "value", "$1", "version", "(.+)"),'
        ' "dimension", "version", "", "")'
    )
    chosen = 'label_replace(vector(1), "dimension", "$dimension", "", "")'
    return (
        f"sum by (pipeline, value) (increase({by_tag}[{over}])"
        f" or {named} and on (dimension) {chosen})"
    )


class Share(Struct, frozen=True):
    """A share as two counters, or the mean of a score."""

    part: str
    rest: str = ""  # with the part it is the whole
    whole: str = ""
    labels: tuple[str, ...] = ()  # matchers of both
    of_part: tuple[str, ...] = ()  # matchers of the part alone
    of_whole: tuple[str, ...] = ()  # and of the whole

    def over(self, range_: str, by: str = "", *labels: str) -> str:
        """Its expression.

        Args:
            range_: such as ``$window``; chart lines take ``$__rate_interval``.
            by: labels to group by; empty for one number.
            labels: more matchers.
        """
        return self._divided(
            lambda name, own: increase(f"ragmon_{name}", by, *labels, *own, over=range_)
        )

    def by_slice(self, range_: str) -> str:
        """Its expression by pipeline and value of the chosen dimension."""
        return self._divided(lambda name, own: increase_by_slice(name, *own, over=range_))

    def against_rest(self, range_: str) -> str:
        """Its expression by slice, less that of all other slices of the pipeline together."""

        def rest(name: str, own: tuple[str, ...]) -> str:
            grown = increase_by_slice(name, *own, over=range_)
            return f"(sum by (pipeline) ({grown}) - on (pipeline) group_right () ({grown}))"

        return f"({self.by_slice(range_)}) - ({self._divided(rest)})"

    def _divided(self, grown: Callable[[str, tuple[str, ...]], str]) -> str:
        part = grown(self.part, (*self.labels, *self.of_part))
        if self.rest:
            return f"{part} / ({part} + {grown(self.rest, self.labels)})"
        return f"{part} / {grown(self.whole, (*self.labels, *self.of_whole))}"


ERRORS = Share("query_errors_total", whole="queries_total")
NOTHING_FOUND = Share("zero_result_queries_total", whole="queries_total")
HITS = Share(
    "query_hits_total", rest="query_misses_total", labels=('k="$k"', 'evidence="$evidence"')
)
CITED = Share("chunks_cited_total", whole="chunks_retrieved_total")
UNCITED = Share("uncited_answers_total", rest="citing_answers_total")
UNFAITHFUL = Share("unfaithful_answers_total", rest="faithful_answers_total")
SLOW = Share(
    "slow_queries_total", whole="query_duration_seconds_count", of_whole=('stage="total"',)
)
READ = Share("judgeable_answers_read_total", whole="judgeable_answers_total")
LIKED = Share("feedback_total", whole="feedback_total", of_part=('rating="positive"',))
FAITHFULNESS = Share("judged_score_total", whole="judged_answers_total")
GROUNDING = Share("judged_score_total", whole="judged_answers_total", labels=('judge="grounding"',))


def share(title: str, description: str, of: Share, *, legend: str = "pipeline") -> Panel:
    """A share at each point of a chart, and what it was; for those that windows need not show.

    Args:
        title: of the panel.
        description: what it is the share of.
        of: its counters.
        legend: labels to group by.
    """
    names = " ".join(f"{{{{{label}}}}}" for label in legend.split(", "))
    value = of.over("$__rate_interval", legend)
    before = value.replace("[$__rate_interval]", "[$__rate_interval] offset $compare")
    custom = {"fillOpacity": 0, "spanNulls": True, "showPoints": "never", "axisSoftMax": 0.1}
    return chart(
        title,
        f"{description} Dashed: the same, $compare ago.",
        "percentunit",
        Query(value, names),
        Query(before, f"{names} $compare ago"),
        min=0,
        custom=custom,
    )


def quantile(q: float, histogram: str, by: str, *labels: str, of: str = COUNTED) -> str:
    """A quantile out of the buckets of a histogram."""
    buckets = rate(f"{histogram}_bucket", ", ".join(filter(None, ["le", by])), *labels, of=of)
    return f"histogram_quantile({q}, {buckets})"


ACTIVE = 'state="active"'  # of alerts: neither silenced nor explained by another one


def alerts(state: int, *labels: str) -> str:
    """Number of active alerts in a state; 0 where ragmon answers and has had no alert yet."""
    total = f"sum({selector('ragmon_alert_state', ACTIVE, *labels, of=COUNTED)} == bool {state})"
    return f"{total} or 0 * sum(ragmon_build_info{{{OWN}}})"


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

    For the headline metrics, whose intervals are on /metrics.

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
