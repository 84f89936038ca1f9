"""Fragments of the status page: alerts, pipelines with their tables, failing queries."""

from collections.abc import Iterator, Sequence
from datetime import UTC, datetime
from html import escape
from urllib.parse import quote, urlencode

from ragmon.alerts import SEVERITIES
from ragmon.alerts.as_json import AlertView, LinkedEvidence
from ragmon.alerts.timeline import HISTORY
from ragmon.api_schema import QueryDetail
from ragmon.report import MeanEstimate, PipelineReport, SliceReport
from ragmon.signals.failure_mode import FAILED

_FAILING = {
    "zero_result": "zero_result",
    "error": "error",
    "slow": "slow",
    "uncited": "uncited",
    "cited_unretrieved": "cited_unretrieved",
    "low_score": "low_score",
    "unfaithful": "unfaithful",
    "negative_feedback": "disliked",
}
"""By metric: the name that /v1/queries has for the queries behind it."""
BACKFILLED = "backfilled, no notification sent"
"""For an alert found while the past was read in, which no receiver is notified of."""
_SLICED = ("error", "zero_result", "attribution", "positive_feedback")
_CARDS = 5  # the rest takes a line each: what is below should stay in sight
_LONGEST = 160  # characters of a question


def alert_cards(alerts: Sequence[AlertView]) -> str:
    """Open alerts, each at ``#alert-<fingerprint>``, where notifications link to."""
    if not alerts:
        return ""
    notifying = sorted(filter(is_notifying, alerts), key=_gravest_first)
    muted = [alert for alert in alerts if not is_notifying(alert)]
    names = {alert.fingerprint: alert.name for alert in alerts}
    cards = "".join(map(_card, notifying[:_CARDS]))
    lines = "".join(_line(alert, names) for alert in [*notifying[_CARDS:], *muted])
    return f"<h2>Alerts</h2>{cards}" + (f'<ul class="dim">{lines}</ul>' if lines else "")


def _gravest_first(alert: AlertView) -> int:
    return -SEVERITIES.index(alert.severity)


def is_notifying(alert: AlertView) -> bool:
    """True when notifications of it are sent: neither silenced nor the symptom of another."""
    return not alert.inhibited_by and not alert.silenced_by


def pipeline_section(pipeline: PipelineReport, window: str) -> str:
    """One pipeline: latency, metrics with intervals, failure modes and slices."""
    rows = "".join([*_metrics(pipeline, window), *_modes(pipeline, window)])
    slices = "".join(map(_slice, pipeline.slices))
    latency = " · ".join(
        f"{escape(stage)} p50 {_ms(figures.p50)}, p95 {_ms(figures.p95)}, p99 {_ms(figures.p99)}"
        for stage, figures in pipeline.latency_ms.items()
    )
    head = (
        '<tr><th>metric<th>estimate<th>95 % interval<th class="wide"><th class="wide">samples</tr>'
    )
    sliced = "<tr><th>slice<th>queries<th>errors<th>zero results<th>attribution<th>liked</tr>"
    return (
        f"<h2>{escape(pipeline.pipeline)}"
        f' <span class="dim">{query_count(pipeline.queries)}</span></h2>'
        f'<p class="dim">{latency}</p>{_table(head, rows)}'
        + (_table(sliced, slices) if slices else "")
    )


def failing_queries(queries: Sequence[QueryDetail] | None) -> str:
    """The newest queries that went wrong, each with a link to all that is known of it."""
    if queries is None:
        return '<p class="dim">Too many reads are in progress to list the failing queries.</p>'
    if not queries:
        return ""
    head = '<tr><th>asked<th class="wide">pipeline<th>failed in<th class="said">query</tr>'
    rows = "".join(map(_query, queries))
    return f"<h2>Newest failing queries</h2>{_table(head, rows)}"


def query_count(queries: int) -> str:
    """A number of queries, in words."""
    return "1 query" if queries == 1 else f"{queries:,} queries"


def when(moment: float | None) -> str:
    """Unix seconds as a time in UTC."""
    if not moment:
        return "never"
    return datetime.fromtimestamp(moment, UTC).strftime("%Y-%m-%d %H:%M:%S UTC")


def _card(alert: AlertView) -> str:
    evidence = alert.evidence
    sentence = detail = steps = ""
    if evidence is not None:
        sentence, detail = escape(evidence.sentence), escape(evidence.detail)
        steps = "".join(f"<li>{escape(step)}" for step in evidence.remedies)
    return (
        f'<article class="{escape(alert.severity)}" id="alert-{escape(alert.fingerprint)}">'
        f'<h3>{escape(alert.name)} <span class="dim">{_facts(alert)}</span></h3>'
        f"<p>{sentence}</p>"
        + (f'<p class="dim">{detail}</p>' if detail else "")
        + (f"<ul>{steps}</ul>" if steps else "")
        + f"<p>{' · '.join(_links(alert, evidence))}</p></article>"
    )


def _line(alert: AlertView, names: dict[str, str]) -> str:
    """For a symptom, whose cause has a card, and for those beyond the first few."""
    because, cause = "", alert.inhibited_by
    if cause:
        name = escape(names.get(cause, cause))
        because = f' · inhibited by <a href="#alert-{escape(cause)}">{name}</a>'
    elif alert.silenced_by:
        because = f" · {escape(_silenced(alert.silenced_by))}"
    link = f'<a href="/v1/alerts/{quote(alert.id)}">{escape(alert.name)}</a>'
    anchor = escape(alert.fingerprint)
    return f'<li id="alert-{anchor}">{link} {_facts(alert)}{because}</li>'


def _silenced(by: str) -> str:
    """Reason why no notification was sent.

    Args:
        by: id of a silence, or name of a maintenance window.
    """
    return BACKFILLED if by == HISTORY.name else f"silenced by {by}"


def _facts(alert: AlertView) -> str:
    facts = [alert.severity, alert.state, alert.pipeline]
    if alert.value:
        facts.append(f"{alert.dimension}={alert.value}")
    facts.append(f"since {when(alert.fired_at or alert.began_at)}")
    return escape(" · ".join(facts))


def _links(alert: AlertView, evidence: LinkedEvidence | None) -> Iterator[str]:
    yield f'<a href="/v1/alerts/{quote(alert.id)}">evidence</a>'
    if evidence is None:
        return
    if evidence.runbook.startswith(("https://", "http://")):
        yield f'<a href="{escape(evidence.runbook)}">runbook</a>'
    for query in evidence.worst:
        yield _query_link(query.query_id, query.query or query.query_id)


def _metrics(pipeline: PipelineReport, window: str) -> Iterator[str]:
    for name, mean in pipeline.metrics.items():
        failing = _FAILING.get(name, "") if mean.estimate else ""
        yield _row(name, mean, _behind(pipeline.pipeline, failing, window))


def _modes(pipeline: PipelineReport, window: str) -> Iterator[str]:
    for mode, mean in pipeline.failure_modes.items():
        failing = mode if mode in FAILED and mean.estimate else ""
        yield _row(f"failure mode: {mode}", mean, _behind(pipeline.pipeline, failing, window))


def _behind(pipeline: str, failing: str, window: str) -> str:
    """A link to the queries behind a number."""
    if not failing:
        return ""
    asked = urlencode({"pipeline": pipeline, "failing": failing, "since": window})
    return f' <a href="{escape(f"/v1/queries?{asked}")}">queries</a>'


def _row(name: str, mean: MeanEstimate, link: str) -> str:
    low, high = mean.lower, mean.upper
    bar = interval = ""
    if low is not None and high is not None:
        interval = f"{_number(low)} – {_number(high)}"
        if 0 <= low <= high <= 1:
            bar = (
                f'<span class="range"><i style="left:{100 * low:.1f}%;'
                f'width:{100 * (high - low):.1f}%"></i></span>'
            )
    return (
        f"<tr><td>{escape(name)}{link}<td>{_number(mean.estimate)}<td>{interval}"
        f'<td class="wide">{bar}<td class="wide">{mean.samples:,}</tr>'
    )


def _slice(part: SliceReport) -> str:
    means = (part.metrics.get(name) for name in _SLICED)
    cells = "".join(f"<td>{_number(None if mean is None else mean.estimate)}" for mean in means)
    name = escape(f"{part.dimension}={part.value}")
    return f"<tr><td>{name}<td>{part.queries:,}{cells}</tr>"


def _query(detail: QueryDetail) -> str:
    record = detail.record
    link = _query_link(record.query_id, record.query or record.query_id)
    return (
        f'<tr><td>{when(record.timestamp)[5:19]}<td class="wide">{escape(record.pipeline)}'
        f'<td>{escape(detail.failure_mode)}<td class="said">{link}</tr>'
    )


def _query_link(query_id: str, text: str) -> str:
    shown = text if len(text) <= _LONGEST else f"{text[:_LONGEST]}…"
    return f'<a href="/v1/queries/{escape(quote(query_id, safe=":"))}">{escape(shown)}</a>'


def _table(head: str, rows: str) -> str:
    return f'<div class="table"><table>{head}{rows}</table></div>'


def _number(value: float | None) -> str:
    if value is None:
        return "–"
    return f"{value:.4f}" if abs(value) < 10 else f"{value:,.1f}"


def _ms(value: float | None) -> str:
    return "–" if value is None else f"{value:,.3g} ms"
