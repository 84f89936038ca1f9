"""Writes the dashboards: ``python grafana/generate.py``. Classic JSON, as Grafana 10 loads it."""

import json
from pathlib import Path
from typing import Any

DASHBOARDS = Path(__file__).parent / "dashboards"
DATASOURCE = {"type": "prometheus", "uid": "${datasource}"}
SELECTED = 'job=~"$job", pipeline=~"$pipeline", window="$window"'
COUNTED = 'job=~"$job", pipeline=~"$pipeline"'
Panel = dict[str, Any]


def target(expression: str, legend: str, number: int = 0) -> dict[str, Any]:
    """One query of a panel."""
    return {
        "datasource": DATASOURCE,
        "expr": expression,
        "legendFormat": legend,
        "refId": chr(ord("A") + number),
    }


def panel(title: str, description: str, unit: str, targets: list[dict[str, Any]]) -> Panel:
    """A chart over time; place and number come with the dashboard."""
    return {
        "type": "timeseries",
        "title": title,
        "description": description,
        "datasource": DATASOURCE,
        "targets": targets,
        "fieldConfig": {
            "defaults": {"unit": unit, "custom": {"fillOpacity": 0, "spanNulls": False}},
            "overrides": [],
        },
        "options": {
            "legend": {"displayMode": "table", "placement": "bottom", "calcs": ["lastNotNull"]},
            "tooltip": {"mode": "multi", "sort": "desc"},
        },
    }


def ratio(title: str, description: str, metric: str, labels: str = "") -> Panel:
    """A rolling ratio with both ends of its 95 % interval, the band drawn between them."""
    selector = ", ".join(filter(None, [SELECTED, labels]))
    ends = [
        target(f"{metric}{suffix}{{{selector}}}", f"{{{{pipeline}}}}{name}", at)
        for at, (suffix, name) in enumerate([("", ""), ("_lower", " lower"), ("_upper", " upper")])
    ]
    drawn = panel(title, description + " Thin lines: 95 % interval.", "percentunit", ends)
    drawn["fieldConfig"]["defaults"] |= {"min": 0, "max": 1}
    drawn["fieldConfig"]["overrides"] = [
        {
            "matcher": {"id": "byRegexp", "options": "/ (lower|upper)$/"},
            "properties": [
                {"id": "custom.lineStyle", "value": {"fill": "dash", "dash": [2, 4]}},
                {
                    "id": "custom.hideFrom",
                    "value": {"legend": True, "tooltip": False, "viz": False},
                },
            ],
        }
    ]
    return drawn


def variable(name: str, label: str, query: str, *, several: bool) -> dict[str, Any]:
    """A choice out of the values of a label."""
    return {
        "name": name,
        "label": label,
        "type": "query",
        "datasource": DATASOURCE,
        "query": {"query": query, "refId": name},
        "definition": query,
        "refresh": 2,
        "sort": 1,
        "multi": several,
        "includeAll": several,
    } | ({"allValue": ".+"} if several else {})


def dashboard(uid: str, title: str, description: str, panels: list[Panel]) -> dict[str, Any]:
    """Two panels a row."""
    placed = [
        {"id": at + 1, "gridPos": {"h": 8, "w": 12, "x": 12 * (at % 2), "y": 8 * (at // 2)}} | each
        for at, each in enumerate(panels)
    ]
    queries = "label_values(ragmon_window_queries"
    return {
        "uid": uid,
        "title": title,
        "description": description,
        "tags": ["ragmon"],
        "schemaVersion": 39,
        "editable": False,
        "graphTooltip": 1,
        "refresh": "30s",
        "time": {"from": "now-24h", "to": "now"},
        "timezone": "browser",
        "templating": {
            "list": [
                {
                    "name": "datasource",
                    "label": "Data source",
                    "type": "datasource",
                    "query": "prometheus",
                },
                variable("job", "Job", f"{queries}, job)", several=True),
                variable(
                    "pipeline", "Pipeline", f'{queries}{{job=~"$job"}}, pipeline)', several=True
                ),
                variable("window", "Window", f'{queries}{{job=~"$job"}}, window)', several=False),
            ]
        },
        "annotations": {
            "list": [
                {
                    "name": "Alerts",
                    "datasource": DATASOURCE,
                    "enable": True,
                    "iconColor": "red",
                    "expr": 'ALERTS{alertname=~"Ragmon.+", alertstate="firing"}',
                    "titleFormat": "{{alertname}} {{pipeline}}",
                    "step": "60s",
                }
            ]
        },
        "panels": placed,
    }


def is_it_good() -> dict[str, Any]:
    """Quality now."""
    rate = f"sum by (pipeline) (rate(ragmon_queries_total{{{COUNTED}}}[$__rate_interval]))"
    panels = [
        panel("Queries", "Queries counted, per second.", "reqps", [target(rate, "{{pipeline}}")]),
        ratio("Zero results", "Share that retrieved nothing.", "ragmon_zero_result_ratio"),
        ratio(
            "Hit rate at 3",
            "Share with a relevant chunk among the first 3, as what the answer cites tells.",
            "ragmon_hit_ratio",
            'k="3", evidence="citation"',
        ),
        ratio(
            "Attribution",
            "Mean share of the retrieved chunks that the answer cites.",
            "ragmon_attribution_ratio",
        ),
        ratio(
            "Grounding",
            "Mean grounding of the answers in their chunks, by the embedded judge.",
            "ragmon_grounding_ratio",
        ),
        ratio(
            "Unfaithful answers",
            "Share of the judged answers below judge.unfaithful_below.",
            "ragmon_unfaithful_ratio",
        ),
        ratio(
            "Liked",
            "Share of the rated answers that users liked.",
            "ragmon_positive_feedback_ratio",
        ),
        ratio("Errors", "Share of queries that failed.", "ragmon_error_ratio"),
        panel(
            "Failure modes",
            "Share of queries by what went wrong; the rest is well or unknown.",
            "percentunit",
            [
                target(
                    f'ragmon_failure_mode_ratio{{{SELECTED}, mode!~"none|unknown"}}',
                    "{{pipeline}} {{mode}}",
                )
            ],
        ),
        panel(
            "Latency, 95 %",
            "Quantile of the total latency over the window, within 1 %.",
            "s",
            [
                target(
                    f'ragmon_latency_seconds{{{SELECTED}, stage="total", quantile="0.95"}}',
                    "{{pipeline}}",
                )
            ],
        ),
    ]
    text = "Quality of answers and retrieval now, by pipeline, with 95 % intervals."
    return dashboard("ragmon-is-it-good", "ragmon: is it good?", text, panels)


def rendered() -> dict[str, str]:
    """File names and contents."""
    boards = {"is-it-good.json": is_it_good()}
    return {name: json.dumps(board, indent=2) + "\n" for name, board in boards.items()}


if __name__ == "__main__":
    for file, text in rendered().items():
        (DASHBOARDS / file).write_text(text, encoding="utf-8")
