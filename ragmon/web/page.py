"""Status page: alerts, metrics and failing queries of one window, as HTML without scripts."""

from collections.abc import Sequence
from html import escape

from ragmon.alerts.as_json import AlertView
from ragmon.api_schema import QueryDetail, Report
from ragmon.web.fragments import (
    alert_cards,
    failing_queries,
    is_notifying,
    pipeline_section,
    query_count,
    when,
)

HEADERS = {
    "content-security-policy": "default-src 'none'; style-src 'unsafe-inline'; base-uri 'none';"
    " form-action 'none'; frame-ancestors 'self'",
    "cache-control": "no-store",
    "referrer-policy": "no-referrer",
    "x-content-type-options": "nosniff",
}
"""No script runs on the page, whatever a log line holds, and no copy of it is kept."""

_WINDOWS = ("5m", "1h", "24h", "7d")
_STYLE = """
:root{color-scheme:light dark;--line:#8883;--dim:#777;--bar:#3b82f6;--bad:#dc2626;--warn:#d97706;
--ok:#16a34a}
body{font:15px/1.45 system-ui,sans-serif;margin:0 auto;max-width:72rem;padding:1rem}
h1{font-size:1.3rem;margin:.2rem 0}h2{font-size:1.1rem;margin:2rem 0 .3rem}
h3{font-size:1rem;margin:0}a{color:var(--bar)}nav a,nav b{margin-right:.8rem;line-height:2}
.ok{color:var(--ok)}.bad{color:var(--bad)}.dim{color:var(--dim);font-weight:normal}
article{border:1px solid var(--line);border-left:4px solid var(--dim);border-radius:4px;
padding:.6rem .9rem;margin:.6rem 0;overflow-wrap:anywhere}
article.warning{border-left-color:var(--warn)}article.critical{border-left-color:var(--bad)}
article:target{outline:2px solid var(--bar)}article p,article ul{margin:.3rem 0}
h3 .dim,h1 .dim{font-size:.85em}ul.dim{padding-left:1.2rem}
div.table{overflow-x:auto;margin-bottom:1.5rem}table{border-collapse:collapse;width:100%}
td,th{padding:.25rem .6rem;border-bottom:1px solid var(--line);text-align:right;white-space:nowrap}
td:first-child,th:first-child,.said{text-align:left}
td.said{white-space:normal;overflow-wrap:anywhere;min-width:14rem}
.range{display:inline-block;position:relative;width:10rem;height:.7rem;background:var(--line)}
.range i{position:absolute;top:0;bottom:0;min-width:2px;background:var(--bar)}
@media(max-width:40rem){body{padding:.6rem;font-size:14px}.wide{display:none}
td,th{padding:.25rem .35rem}td:first-child{white-space:normal}td.said{min-width:8rem}}
"""


def status_page(
    report: Report,
    problems: Sequence[str],
    failing: Sequence[QueryDetail] | None,
    quarantined: int = 0,
) -> str:
    """The page as HTML.

    Args:
        report: of one window.
        problems: reasons why ragmon is not ready.
        failing: newest queries that went wrong; None: they could not be read now.
        quarantined: entries in quarantine.
    """
    window, alerts = escape(report.window), report.alerts
    sections = [pipeline_section(each, report.window) for each in report.pipelines]
    empty = '<p class="dim">No queries in this window. Send some to POST /v1/queries.</p>'
    return f"""<!doctype html><html lang="en"><head><meta charset="utf-8">
<meta name="viewport" content="width=device-width,initial-scale=1">
<meta http-equiv="refresh" content="15"><title>{_title(alerts)}</title>
<style>{_STYLE}</style></head><body>
<h1>ragmon {_state(problems)}, {_alarm(alerts)}</h1>
<p>{query_count(report.queries)} in the last {window}, newest {when(report.watermark)}.
{_aside(quarantined)}</p>
{_navigation(window)}
{alert_cards(alerts)}{"".join(sections) or empty}{failing_queries(failing)}
</body></html>"""


def _aside(quarantined: int) -> str:
    if not quarantined:
        return ""
    number = "1 entry is" if quarantined == 1 else f"{quarantined:,} entries are"
    return (
        f'<b class="bad">{number} in <a href="/v1/quarantine">quarantine</a></b>:'
        " missing from all metrics."
    )


def _title(alerts: Sequence[AlertView]) -> str:
    firing = len(_firing(alerts))
    return f"({firing}) ragmon" if firing else "ragmon"


def _state(problems: Sequence[str]) -> str:
    if problems:
        return f'<b class="bad">not ready</b>: {escape("; ".join(problems))}'
    return '<b class="ok">ready</b>'


def _alarm(alerts: Sequence[AlertView]) -> str:
    firing = len(_firing(alerts))
    muted = sum(not is_notifying(alert) for alert in alerts)
    aside = f' <span class="dim">({muted} inhibited or silenced)</span>' if muted else ""
    if not firing:
        return f'<b class="ok">no alert is firing</b>{aside}'
    text = "1 alert is firing" if firing == 1 else f"{firing} alerts are firing"
    return f'<b class="bad">{text}</b>{aside}'


def _firing(alerts: Sequence[AlertView]) -> list[AlertView]:
    return [alert for alert in alerts if alert.state != "pending" and is_notifying(alert)]


def _navigation(window: str) -> str:
    windows = " ".join(
        f"<b>{name}</b>" if name == window else f'<a href="/?window={name}">{name}</a>'
        for name in _WINDOWS
    )
    return (
        f'<nav>{windows} <a href="/v1/report?window={window}">report</a>'
        ' <a href="/v1/alerts">alerts</a> <a href="/v1/queries?limit=50">queries</a>'
        ' <a href="/metrics">metrics</a></nav>'
    )
