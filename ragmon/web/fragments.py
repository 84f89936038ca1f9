"""What the status page is made of: alerts, pipelines with their tables, queries that failed."""

from collections.abc import Iterator, Sequence
from datetime import UTC, datetime
from html import escape
from typing import Any
from urllib.parse import quote, urlencode

from ragmon.alerts import SEVERITIES
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
"""By metric: what /v1/queries calls the queries behind it."""
_SLICED = ("error", "zero_result", "attribution", "positive_feedback")
_CARDS = 5  # the rest takes a line each: what is below should stay in sight
_LONGEST = 160  # characters of a question


def alert_cards(alerts: Sequence[dict[str, Any]]) -> str:
    """Open alerts, each at ``#alert-<fingerprint>``, where notifications link to."""
    if not alerts:
        return ""
    heard = sorted(filter(is_heard, alerts), key=_gravest_first)
    muted = [each for each in alerts if not is_heard(each)]
    names = {each["fingerprint"]: each["name"] for each in alerts}
    cards = "".join(map(_card, heard[:_CARDS]))
    lines = "".join(_line(each, names) for each in [*heard[_CARDS:], *muted])
    return f"<h2>Alerts</h2>{cards}" + (f'<ul class="dim">{lines}</ul>' if lines else "")


def _gravest_first(alert: dict[str, Any]) -> int:
    return -SEVERITIES.index(alert["severity"])


def is_heard(alert: dict[str, Any]) -> bool:
    """Whether a person is told of it: nothing silences it, and it is nobody's symptom."""
    return not alert["inhibited_by"] and not alert["silenced_by"]


def pipeline_section(series: dict[str, Any], window: str) -> str:
    """One pipeline: latency, metrics with intervals, failure modes and slices."""
    rows = "".join([*_metrics(series, window), *_modes(series, window)])
    slices = "".join(map(_slice, series["slices"]))
    latency = " · ".join(
        f"{escape(stage)} p50 {_ms(each['p50'])}, p95 {_ms(each['p95'])}, p99 {_ms(each['p99'])}"
        for stage, each in series["latency_ms"].items()
    )
    head = (
        '<tr><th>metric<th>estimate<th>95 % interval<th class="wide"><th class="wide">samples</tr>'
    )
    sliced = "<tr><th>slice<th>queries<th>errors<th>zero results<th>attribution<th>liked</tr>"
    return (
        f"<h2>{escape(series['pipeline'])}"
        f' <span class="dim">{counted(series["queries"])}</span></h2>'
        f'<p class="dim">{latency}</p>{_table(head, rows)}'
        + (_table(sliced, slices) if slices else "")
    )


def failing_queries(found: Sequence[dict[str, Any]]) -> str:
    """The newest queries that went wrong, each with a link to all that is known of it."""
    if not found:
        return ""
    head = '<tr><th>asked<th class="wide">pipeline<th>failed in<th class="said">query</tr>'
    rows = "".join(map(_query, found))
    return f"<h2>Newest failing queries</h2>{_table(head, rows)}"


def counted(queries: int) -> str:
    """How many there are."""
    return "1 query" if queries == 1 else f"{queries:,} queries"


def when(moment: float | None) -> str:
    """A time, in UTC."""
    if not moment:
        return "never"
    return datetime.fromtimestamp(moment, UTC).strftime("%Y-%m-%d %H:%M:%S UTC")


def _card(alert: dict[str, Any]) -> str:
    evidence = alert["evidence"] or {}
    tries = "".join(f"<li>{escape(each)}" for each in evidence.get("remedies", ()))
    detail = evidence.get("detail", "")
    return (
        f'<article class="{escape(alert["severity"])}" id="alert-{escape(alert["fingerprint"])}">'
        f'<h3>{escape(alert["name"])} <span class="dim">{_facts(alert)}</span></h3>'
        f"<p>{escape(evidence.get('sentence', ''))}</p>"
        + (f'<p class="dim">{escape(detail)}</p>' if detail else "")
        + (f"<ul>{tries}</ul>" if tries else "")
        + f"<p>{' · '.join(_links(alert, evidence))}</p></article>"
    )


def _line(alert: dict[str, Any], names: dict[str, str]) -> str:
    """For a symptom, whose cause has a card, and for those beyond the first few."""
    because, cause = "", alert["inhibited_by"]
    if cause:
        name = escape(names.get(cause, cause))
        because = f' · inhibited by <a href="#alert-{escape(cause)}">{name}</a>'
    elif alert["silenced_by"]:
        because = f" · silenced by {escape(alert['silenced_by'])}"
    link = f'<a href="/v1/alerts/{quote(alert["id"])}">{escape(alert["name"])}</a>'
    anchor = escape(alert["fingerprint"])
    return f'<li id="alert-{anchor}">{link} {_facts(alert)}{because}</li>'


def _facts(alert: dict[str, Any]) -> str:
    facts = [alert["severity"], alert["state"], alert["pipeline"]]
    if alert["value"]:
        facts.append(f"{alert['dimension']}={alert['value']}")
    facts.append(f"since {when(alert['fired_at'] or alert['began_at'])}")
    return escape(" · ".join(facts))


def _links(alert: dict[str, Any], evidence: dict[str, Any]) -> Iterator[str]:
    yield f'<a href="/v1/alerts/{quote(alert["id"])}">evidence</a>'
    runbook = str(evidence.get("runbook") or "")
    if runbook.startswith(("https://", "http://")):
        yield f'<a href="{escape(runbook)}">runbook</a>'
    for each in evidence.get("worst", ()):
        text = each["query"] or each["query_id"]
        yield _query_link(each["query_id"], text)


def _metrics(series: dict[str, Any], window: str) -> Iterator[str]:
    for name, each in series["metrics"].items():
        failing = _FAILING.get(name, "") if each["estimate"] else ""
        yield _row(name, each, _behind(series["pipeline"], failing, window))


def _modes(series: dict[str, Any], window: str) -> Iterator[str]:
    for mode, each in series["failure_modes"].items():
        failing = mode if mode in FAILED and each["estimate"] else ""
        yield _row(f"failure mode: {mode}", each, _behind(series["pipeline"], failing, window))


def _behind(pipeline: str, failing: str, window: str) -> str:
    """A link to the queries behind a number."""
    if not failing:
        return ""
    asked = urlencode({"pipeline": pipeline, "failing": failing, "since": window})
    return f' <a href="{escape(f"/v1/queries?{asked}")}">queries</a>'


def _row(name: str, each: dict[str, Any], link: str) -> str:
    low, high = each["lower"], each["upper"]
    bar = interval = ""
    if low is not None and high is not None:
        interval = f"{_number(low)} – {_number(high)}"
        if 0 <= low <= high <= 1:
            bar = (
                f'<span class="range"><i style="left:{100 * low:.1f}%;'
                f'width:{100 * (high - low):.1f}%"></i></span>'
            )
    return (
        f"<tr><td>{escape(name)}{link}<td>{_number(each['estimate'])}<td>{interval}"
        f'<td class="wide">{bar}<td class="wide">{each["samples"]:,}</tr>'
    )


def _slice(each: dict[str, Any]) -> str:
    cells = "".join(f"<td>{_ratio(each['metrics'].get(name))}" for name in _SLICED)
    name = escape(f"{each['dimension']}={each['value']}")
    return f"<tr><td>{name}<td>{each['queries']:,}{cells}</tr>"


def _query(found: dict[str, Any]) -> str:
    record = found["record"]
    said = record.get("query") or record["query_id"]
    return (
        f'<tr><td>{when(record["timestamp"])[5:19]}<td class="wide">{escape(record["pipeline"])}'
        f'<td>{escape(found["failure_mode"])}<td class="said">'
        f"{_query_link(record['query_id'], said)}</tr>"
    )


def _query_link(query_id: str, said: str) -> str:
    text = said if len(said) <= _LONGEST else f"{said[:_LONGEST]}…"
    return f'<a href="/v1/queries/{escape(quote(query_id, safe=":"))}">{escape(text)}</a>'


def _table(head: str, rows: str) -> str:
    return f'<div class="table"><table>{head}{rows}</table></div>'


def _ratio(each: dict[str, Any] | None) -> str:
    return "–" if each is None else _number(each["estimate"])


def _number(value: float) -> str:
    return f"{value:.4f}" if abs(value) < 10 else f"{value:,.1f}"


def _ms(value: float | None) -> str:
    return "–" if value is None else f"{value:,.3g} ms"
