"""Panels of the classic schema, as Grafana 10 to 13 load them."""

from collections.abc import Mapping, Sequence
from typing import Any, Literal

from msgspec import Struct

Json = dict[str, Any]
Calculation = Literal["lastNotNull", "max", "mean"]

DATASOURCE: Json = {"type": "prometheus", "uid": "${datasource}"}
FULL, HALF, THIRD, SIXTH = 24, 12, 8, 4  # widths; a line of the grid has 24
COMPANIONS = "/ (lower|upper)$/"  # the legends of both ends of an interval
GREY, BLUE = "#8e8e99", "#5794f2"


class Query(Struct, frozen=True):
    """One expression of a panel."""

    expression: str
    legend: str
    instant: bool = False  # the value now, for tables
    buckets: bool = False  # cumulative histogram buckets, for heat maps
    exemplars: bool = False  # also the traces behind it


class Panel(Struct, frozen=True):
    """A panel without a place, which the board gives it."""

    kind: str
    title: str
    description: str
    unit: str  # as Grafana names it: s, percentunit, reqps
    queries: tuple[Query, ...]
    width: int = HALF
    height: int = 8
    options: Mapping[str, Any] = {}
    defaults: Mapping[str, Any] = {}  # of every field
    overrides: tuple[Json, ...] = ()
    transformations: tuple[Json, ...] = ()

    def json(self, number: int, x: int, y: int) -> Json:
        """The panel at a place of the grid."""
        placed: Json = {
            "id": number,
            "type": self.kind,
            "title": self.title,
            "description": self.description,
            "gridPos": {"h": self.height, "w": self.width, "x": x, "y": y},
            "datasource": DATASOURCE,
            "targets": [_target(query, at) for at, query in enumerate(self.queries)],
            "fieldConfig": {
                "defaults": {"unit": self.unit, **self.defaults},
                "overrides": list(self.overrides),
            },
            "options": dict(self.options),
        }
        if self.transformations:
            placed["transformations"] = list(self.transformations)
        return placed


def chart(
    title: str, description: str, unit: str, *queries: Query, width: int = HALF, **defaults: Any
) -> Panel:
    """Lines over time; ``defaults`` are of the fields, such as ``min`` and ``max``."""
    return Panel(
        "timeseries",
        title,
        description,
        unit,
        queries,
        width=width,
        defaults={"custom": {"fillOpacity": 0, "spanNulls": False, "showPoints": "never"}}
        | defaults,
        options={
            "legend": {"displayMode": "list", "placement": "bottom", "calcs": ["lastNotNull"]},
            "tooltip": {"mode": "multi", "sort": "desc"},
        },
        overrides=(
            _beside(COMPANIONS, {"fill": "dash", "dash": [2, 4]}, legend=False),
            _beside("/ ago$/", {"fill": "dash", "dash": [10, 10]}),
            _beside("/ baseline$/", {"fill": "solid"}, BLUE),
        ),
    )


def stack(title: str, description: str, unit: str, *queries: Query, width: int = HALF) -> Panel:
    """Areas over time that add up."""
    custom = {"fillOpacity": 40, "stacking": {"mode": "normal", "group": "A"}, "lineWidth": 1}
    return chart(title, description, unit, *queries, width=width, custom=custom, min=0)


def stat(
    title: str,
    description: str,
    unit: str,
    query: Query,
    *steps: tuple[float, str],
    below: str = "green",
) -> Panel:
    """One number with its recent past; from each step's value on it takes the step's colour.

    Args:
        title: of the panel.
        description: of the panel.
        unit: as Grafana names it.
        query: of the number.
        steps: at least one, the lowest first.
        below: colour below the first; red where more is better.
    """
    return Panel(
        "stat",
        title,
        description,
        unit,
        (query,),
        width=SIXTH,
        height=4,
        defaults={"thresholds": thresholds(*steps, below=below), "color": {"mode": "thresholds"}},
        options={
            "reduceOptions": {"calcs": ["lastNotNull"], "fields": "", "values": False},
            "graphMode": "area",
            "colorMode": "value",
            "textMode": "auto",
        },
    )


def states(
    title: str, description: str, query: Query, names: Mapping[int, tuple[str, str]]
) -> Panel:
    """A bar a series, coloured by state; ``names`` gives each value its word and colour."""
    words = {
        str(value): {"text": text, "color": colour, "index": at}
        for at, (value, (text, colour)) in enumerate(names.items())
    }
    return Panel(
        "state-timeline",
        title,
        description,
        "short",
        (query,),
        width=FULL,
        defaults={"mappings": [{"type": "value", "options": words}]},
        options={"mergeValues": True, "showValue": "never", "rowHeight": 0.8},
    )


def heatmap(title: str, description: str, unit: str, query: Query) -> Panel:
    """Buckets of a histogram over time."""
    return Panel(
        "heatmap",
        title,
        description,
        unit,
        (query,),
        options={
            "calculate": False,
            "cellGap": 1,
            "color": {"mode": "scheme", "scheme": "Oranges", "steps": 64},
            "exemplars": {"color": "rgba(255,0,255,0.7)"},
            "yAxis": {"unit": unit},
        },
    )


def table(
    title: str,
    description: str,
    unit: str,
    columns: Mapping[str, Query],
    labels: Mapping[str, str],
    *,
    overrides: tuple[Json, ...] = (),
    sorted_by: str = "",
    width: int = FULL,
    height: int = 8,
) -> Panel:
    """The values now, a row for each set of labels.

    Args:
        title: of the panel.
        description: of the panel.
        unit: of every column that no override gives another.
        columns: heading and query of each.
        labels: label and heading of the columns before them.
        overrides: of single columns.
        sorted_by: heading of the column whose largest values come first.
        width: in columns of the grid.
        height: in its lines; a row takes 0.8 of one.
    """
    return Panel(
        "table",
        title,
        description,
        unit,
        tuple(columns.values()),
        width=width,
        height=height,
        overrides=overrides,
        options={"sortBy": [{"displayName": sorted_by, "desc": True}] if sorted_by else []},
        transformations=({"id": "merge", "options": {}}, _arranged(list(columns), labels)),
    )


def _arranged(columns: Sequence[str], labels: Mapping[str, str]) -> Json:
    """The labels of a table, then its columns, each under its heading."""
    values = {f"Value #{_letter(at)}": name for at, name in enumerate(columns)}
    if len(columns) == 1:
        values = {"Value": columns[0]}
    options = {
        "excludeByName": {"Time": True},
        "indexByName": {name: at for at, name in enumerate([*labels, *values])},
        "renameByName": {**labels, **values},
    }
    return {"id": "organize", "options": options}


def column(heading: str, **properties: Any) -> Json:
    """Properties of a table's column, such as ``unit``, ``decimals`` and ``links``."""
    listed = [{"id": name, "value": value} for name, value in properties.items()]
    return {"matcher": {"id": "byName", "options": heading}, "properties": listed}


def link(title: str, url: str) -> Json:
    """A link that opens beside the dashboard."""
    return {"title": title, "url": url, "targetBlank": True}


def thresholds(*steps: tuple[float, str], below: str) -> Json:
    """Colours from a value upwards, and the one below the first."""
    return {
        "mode": "absolute",
        "steps": [
            {"color": below, "value": None},
            *({"color": colour, "value": value} for value, colour in steps),
        ],
    }


def _target(query: Query, number: int) -> Json:
    target: Json = {
        "datasource": DATASOURCE,
        "expr": query.expression,
        "legendFormat": query.legend,
        "refId": _letter(number),
    }
    if query.instant:
        target |= {"instant": True, "range": False, "format": "table"}
    if query.buckets:
        target |= {"format": "heatmap"}
    if query.exemplars:
        target |= {"exemplar": True}
    return target


def _letter(number: int) -> str:
    return chr(ord("A") + number)


def _beside(names: str, style: Json, colour: str = GREY, *, legend: bool = True) -> Json:
    """Thin lines beside those that matter."""
    properties: list[Json] = [
        {"id": "custom.lineStyle", "value": style},
        {"id": "custom.lineWidth", "value": 1},
        {"id": "color", "value": {"mode": "fixed", "fixedColor": colour}},
    ]
    if not legend:
        hidden = {"legend": True, "tooltip": False, "viz": False}
        properties.append({"id": "custom.hideFrom", "value": hidden})
    return {"matcher": {"id": "byRegexp", "options": names}, "properties": properties}
