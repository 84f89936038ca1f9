"""A whole dashboard: variables, annotations, links, and the panels put into rows."""

from collections.abc import Iterator

from msgspec import Struct

from grafana.metrics import ACTIVE, COUNTED, OF_JOB, OWN
from grafana.panels import DATASOURCE, FULL, Json, Panel

SCHEMA = 39  # what Grafana 10 writes; later releases migrate it as they load it

_OPEN = f"ragmon_alert_state{{{COUNTED}, {ACTIVE}}} == 2"
_RECENTLY = f"increase(ragmon_queries_total{{{COUNTED}}}[5m])"
_BEFORE = f"increase(ragmon_queries_total{{{COUNTED}}}[1h] offset 5m)"
# A version that is asked now and was not in the hour before, while its pipeline was.
_DEPLOYED = (
    f"(sum by (job, pipeline, version) ({_RECENTLY}) > 0)"
    f" unless (sum by (job, pipeline, version) ({_BEFORE}) > 0)"
    f" and on (job, pipeline) (sum by (job, pipeline) ({_BEFORE}) > 0)"
)


class Row(Struct, frozen=True):
    """Panels under a heading."""

    title: str
    panels: tuple[Panel, ...]
    folded: bool = False  # for optional features: queried only when unfolded


class Board(Struct, frozen=True):
    """One dashboard: its rows of panels and its own variables."""

    name: str  # of the file; with ``ragmon-`` the uid
    title: str
    description: str
    rows: tuple[Row, ...]
    variables: tuple[Json, ...] = ()  # beside those that every board has

    def json(self) -> Json:
        """The dashboard as Grafana loads it."""
        return {
            "uid": f"ragmon-{self.name}",
            "title": f"ragmon: {self.title}",
            "description": self.description,
            "tags": ["ragmon"],
            "schemaVersion": SCHEMA,
            "editable": False,
            "graphTooltip": 1,
            "refresh": "30s",
            "time": {"from": "now-24h", "to": "now"},
            "timezone": "browser",
            "links": [_others(), _status_page(), _runbooks()],
            "templating": {"list": [*_variables(), *self.variables]},
            "annotations": {"list": _annotations()},
            "panels": list(_placed(self.rows)),
        }


def variable(name: str, label: str, query: str, *, all_value: str = "", first: str = "") -> Json:
    """A choice out of the values of a label; with a value for all, several at once.

    Args:
        name: of the variable.
        label: for people.
        query: of the values.
        all_value: expression that fits every value; empty: one value is chosen.
        first: value until Grafana has asked for the others.
    """
    several = bool(all_value)
    chosen = {"text": "All", "value": "$__all"}
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
    } | (
        {"allValue": all_value, "current": chosen}
        if several
        else {"current": {"text": first, "value": first}}
        if first
        else {}
    )


SLICE_WINDOW = variable(
    "slice_window",
    "Window of slices",
    "label_values(ragmon_slice_window_queries, window)",
    first="1h",
)


def of_hit_rate(metric: str) -> tuple[Json, Json]:
    """Choices of the cut-off and the evidence, of those that a metric has."""
    return (
        variable("k", "k", f"label_values({metric}, k)"),
        variable("evidence", "Evidence", f"label_values({metric}, evidence)"),
    )


def _variables() -> list[Json]:
    queries = "label_values(ragmon_window_queries"
    return [
        {
            "name": "datasource",
            "label": "Data source",
            "type": "datasource",
            "query": "prometheus",
        },
        # Labels of Prometheus or Kubernetes, which need not be there: .* fits their absence.
        variable("cluster", "Cluster", "label_values(ragmon_build_info, cluster)", all_value=".*"),
        variable(
            "namespace",
            "Namespace",
            'label_values(ragmon_build_info{cluster=~"$cluster"}, namespace)',
            all_value=".*",
        ),
        variable(
            "job",
            "Job",
            'label_values(ragmon_build_info{cluster=~"$cluster", namespace=~"$namespace"}, job)',
            all_value=".+",
        ),
        variable(
            "instance",
            "Instance",
            # Of the process, and of what replicas of one store report under one name.
            f'label_values({{__name__=~"ragmon_build_info|ragmon_window_queries", {OF_JOB}}},'
            " instance)",
            all_value=".+",
        ),
        variable("pipeline", "Pipeline", f"{queries}{{{OWN}}}, pipeline)", all_value=".+"),
        variable("window", "Window", f"{queries}{{{OWN}}}, window)", first="1h"),
        _choice("compare", "Compare with", ("1d", "1h", "7d", "28d")),
        {
            "name": "ragmon",
            "label": "Address of ragmon",
            "type": "textbox",
            "query": "http://127.0.0.1:8321",
            "current": {"text": "http://127.0.0.1:8321", "value": "http://127.0.0.1:8321"},
        },
    ]


def _choice(name: str, label: str, values: tuple[str, ...]) -> Json:
    options = [
        {"text": f"{value} ago", "value": value, "selected": value == values[0]} for value in values
    ]
    return {
        "name": name,
        "label": label,
        "type": "custom",
        "query": ",".join(f"{value} ago : {value}" for value in values),
        "options": options,
        "current": {"text": f"{values[0]} ago", "value": values[0]},
        "multi": False,
        "includeAll": False,
    }


def _annotations() -> list[Json]:
    return [
        _annotation("Alerts", "red", _OPEN, "{{alert}}", "{{pipeline}} {{severity}}"),
        _annotation("Deployments", "blue", _DEPLOYED, "{{version}}", "{{pipeline}}: new version"),
    ]


def _annotation(name: str, colour: str, expression: str, title: str, text: str) -> Json:
    return {
        "name": name,
        "datasource": DATASOURCE,
        "enable": True,
        "iconColor": colour,
        "expr": expression,
        "titleFormat": title,
        "textFormat": text,
        "step": "60s",
    }


def _others() -> Json:
    return {
        "title": "ragmon",
        "type": "dashboards",
        "tags": ["ragmon"],
        "asDropdown": False,
        "includeVars": True,
        "keepTime": True,
        "targetBlank": False,
    }


def _status_page() -> Json:
    return {
        "title": "Status page",
        "type": "link",
        "icon": "external link",
        "url": "${ragmon}/?window=${window}",
        "targetBlank": True,
    }


def _runbooks() -> Json:
    return {
        "title": "Runbooks",
        "type": "link",
        "icon": "doc",
        "url": "${ragmon}/runbooks",
        "targetBlank": True,
    }


def _placed(rows: tuple[Row, ...]) -> Iterator[Json]:
    """Headings and panels of all rows; the panels of a folded row lie inside its heading."""
    number, y = 1, 0
    for row in rows:
        panels, height = _laid(row.panels, number + 1, y + 1)
        yield {
            "id": number,
            "type": "row",
            "title": row.title,
            "collapsed": row.folded,
            "gridPos": {"h": 1, "w": FULL, "x": 0, "y": y},
            "panels": panels if row.folded else [],
        }
        if not row.folded:
            yield from panels
            y += height
        number, y = number + 1 + len(panels), y + 1


def _laid(panels: tuple[Panel, ...], number: int, top: int) -> tuple[list[Json], int]:
    """Panels from left to right and downwards, and how high they are together."""
    placed: list[Json] = []
    x, y, height = 0, top, 0
    for panel in panels:
        if x + panel.width > FULL:
            x, y, height = 0, y + height, 0
        placed.append(panel.json(number + len(placed), x, y))
        x, height = x + panel.width, max(height, panel.height)
    return placed, y + height - top
