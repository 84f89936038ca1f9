"""The status page: one look tells whether retrieval and answers are well."""

from collections.abc import Iterable
from datetime import UTC, datetime
from html import escape
from typing import Any
from urllib.parse import urlencode

_WINDOWS = ("5m", "1h", "24h", "7d")
_STYLE = """
:root{color-scheme:light dark;--line:#8884;--dim:#888;--bar:#3b82f6}
body{font:15px/1.45 system-ui,sans-serif;margin:0 auto;max-width:72rem;padding:1rem}
h1{font-size:1.3rem}h2{font-size:1.1rem;margin:2rem 0 .3rem}nav a,nav b{margin-right:.8rem}
.ok{color:#16a34a}.bad{color:#dc2626}.dim{color:var(--dim)}
div.table{overflow-x:auto;margin-bottom:1.5rem}table{border-collapse:collapse;width:100%}
td,th{padding:.25rem .6rem;border-bottom:1px solid var(--line);text-align:right;white-space:nowrap}
td:first-child,th:first-child{text-align:left}
.range{display:inline-block;position:relative;width:10rem;height:.7rem;background:var(--line)}
.range i{position:absolute;top:0;bottom:0;min-width:2px;background:var(--bar)}
"""


def status_page(report: dict[str, Any], problems: list[str]) -> str:
    """HTML for a report (see ``ragmon.report``) and what keeps ragmon from being ready."""
    state = '<b class="ok">ready</b>'
    if problems:
        state = f'<b class="bad">not ready</b>: {escape("; ".join(problems))}'
    window = str(report["window"])
    links = " ".join(
        f"<b>{name}</b>" if name == window else f'<a href="/?window={name}">{name}</a>'
        for name in _WINDOWS
    )
    sections = [_pipeline(each, window) for each in report["pipelines"]]
    empty = '<p class="dim">No query yet in this window: POST one to /v1/queries.</p>'
    return f"""<!doctype html><html lang="en"><head><meta charset="utf-8">
<meta name="viewport" content="width=device-width,initial-scale=1">
<meta http-equiv="refresh" content="15"><title>ragmon</title><style>{_STYLE}</style></head><body>
<h1>ragmon {state}</h1>
<p>{report["queries"]:,} queries in the last {escape(window)}, newest {_when(report["watermark"])}.
<nav>{links} <a href="/v1/report?window={escape(window)}">report</a>
<a href="/metrics">metrics</a> <a href="/v1/queries?limit=50">queries</a></nav>
{"".join(sections) or empty}
</body></html>"""


def _pipeline(series: dict[str, Any], window: str) -> str:
    rows = [*_metrics(series), *_modes(series, window)]
    slices = "".join(_slice(each) for each in series["slices"])
    name = escape(series["pipeline"])
    latency = " · ".join(
        f"{escape(stage)} p50 {_ms(each['p50'])}, p95 {_ms(each['p95'])}, p99 {_ms(each['p99'])}"
        for stage, each in series["latency_ms"].items()
    )
    head = "<tr><th>metric<th>estimate<th>95 % interval<th><th>samples</tr>"
    sliced = "<tr><th>slice<th>queries<th>errors<th>zero results<th>attribution<th>liked</tr>"
    return (
        f'<h2>{name} <span class="dim">{series["queries"]:,} queries</span></h2>'
        f'<p class="dim">{latency}</p><div class="table"><table>{head}{"".join(rows)}</table></div>'
        + (f'<div class="table"><table>{sliced}{slices}</table></div>' if slices else "")
    )


def _metrics(series: dict[str, Any]) -> Iterable[str]:
    for name, each in series["metrics"].items():
        yield _row(name, each)


def _modes(series: dict[str, Any], window: str) -> Iterable[str]:
    for mode, each in series["failure_modes"].items():
        row = _row(f"failure mode: {mode}", each)
        if mode in ("retrieval", "ranking", "generation") and each["estimate"]:
            asked = {"pipeline": series["pipeline"], "failing": mode, "since": window}
            link = escape(f"/v1/queries?{urlencode(asked)}")
            row = row.replace("</td>", f' <a href="{link}">queries</a></td>', 1)
        yield row


def _row(name: str, each: dict[str, Any]) -> str:
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
        f"<tr><td>{escape(name)}</td><td>{_number(each['estimate'])}<td>{interval}<td>{bar}"
        f"<td>{each['samples']:,}</tr>"
    )


def _slice(each: dict[str, Any]) -> str:
    wanted = ("error", "zero_result", "attribution", "positive_feedback")
    cells = "".join(f"<td>{_ratio(each['metrics'].get(name))}" for name in wanted)
    name = escape(f"{each['dimension']}={each['value']}")
    return f"<tr><td>{name}<td>{each['queries']:,}{cells}</tr>"


def _ratio(each: dict[str, Any] | None) -> str:
    return "–" if each is None else _number(each["estimate"])


def _number(value: float) -> str:
    return f"{value:.4f}" if abs(value) < 10 else f"{value:,.1f}"


def _ms(value: float | None) -> str:
    return "–" if value is None else f"{value:,.3g} ms"


def _when(watermark: float | None) -> str:
    if not watermark:
        return "never"
    return datetime.fromtimestamp(watermark, UTC).strftime("%Y-%m-%d %H:%M:%S UTC")
