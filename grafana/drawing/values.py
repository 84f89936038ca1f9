"""Panels of the values now: single numbers and tables."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from grafana.drawing.prometheus import Series
from grafana.drawing.scale import Axes, written
from grafana.drawing.svg import DIM, EDGE, NAMED, TEXT, Box, area, cut, line, text

_ROW_PX = 24


def stat(box: Box, panel: Mapping[str, Any], series: Series, start: float, end: float) -> str:
    """The last value, over its recent past."""
    defaults = panel["fieldConfig"]["defaults"]
    steps = defaults["thresholds"]["steps"]
    reached = [step["color"] for step in steps if _reached(series.last, step["value"])]
    colour = NAMED[reached[-1]]
    values = [value for _, value in series.points]
    low, high = min(values), max(values)
    if low == high:  # a level line, in the middle unless it is 0
        low, high = min(0.0, 2 * low), max(0.0, 2 * high) or 1.0
    axes = Axes(box.inside(0, box.height * 0.6, 0, 0), start, end, low, high)
    upper = [axes.point(*point) for point in series.points]
    floor = [(x, box.bottom) for x, _ in upper]
    said = written(series.last, defaults["unit"])
    return "".join(
        [
            area(upper, floor, colour, fill_opacity="0.15"),
            line(upper, colour, stroke_width=1.2, stroke_opacity="0.8"),
            text(
                box.x + box.width / 2,
                box.y + box.height / 2 + 6,
                said,
                size=26,
                fill=colour,
                text_anchor="middle",
                font_weight="500",
            ),
        ]
    )


def table(box: Box, panel: Mapping[str, Any], answers: Mapping[str, Sequence[Series]]) -> str:
    """Rows joined on their labels, as Grafana's ``merge`` and ``organize`` do.

    Args:
        box: where.
        panel: as committed.
        answers: series by the query's refId.
    """
    organize = panel["transformations"][1]["options"]
    names = organize["renameByName"]
    order = sorted(names, key=organize["indexByName"].__getitem__)
    rows = _joined(answers, [name for name in order if not name.startswith("Value")])
    for name in _sorting(panel, names):
        rows.sort(key=lambda row: _rank(row, name), reverse=True)
    width = (box.width - 24) / len(order)
    most = int((box.height - 36) / _ROW_PX)
    body = [_cells(box, width, 18, [names[name] for name in order], DIM)]
    for at, row in enumerate(rows[:most]):
        y = 18.0 + _ROW_PX * (at + 1)
        ends = [(box.x + 12, box.y + y - 16), (box.right - 12, box.y + y - 16)]
        said = [_said(row.get(name, ""), panel, names[name]) for name in order]
        body += [line(ends, EDGE), _cells(box, width, y, said, TEXT)]
    if len(rows) > most:
        body.append(text(box.x + 12, box.bottom - 4, f"+ {len(rows) - most} rows", fill=DIM))
    return "".join(body)


Row = dict[str, str | float]


def _joined(answers: Mapping[str, Sequence[Series]], labels: Iterable[str]) -> list[Row]:
    single = len(answers) == 1
    rows: dict[tuple[str, ...], Row] = {}
    for ref, found in answers.items():
        for series in found:
            key = tuple(series.labels.get(name, "") for name in labels)
            row = rows.setdefault(key, dict(zip(labels, key, strict=True)))
            row["Value" if single else f"Value #{ref}"] = series.last
    return [rows[key] for key in sorted(rows)]


def _sorting(panel: Mapping[str, Any], names: Mapping[str, str]) -> list[str]:
    asked = [each["displayName"] for each in panel["options"].get("sortBy", ())]
    return [name for name, shown in names.items() if shown in asked]


def _rank(row: Row, name: str) -> float:
    value = row.get(name, float("-inf"))
    return value if isinstance(value, float) else 0.0


def _said(value: str | float, panel: Mapping[str, Any], heading: str) -> str:
    if isinstance(value, str):
        return value
    config = panel["fieldConfig"]
    unit = config["defaults"]["unit"]
    for each in config["overrides"]:
        if each["matcher"]["options"] == heading:
            unit = next((p["value"] for p in each["properties"] if p["id"] == "unit"), unit)
    return f"{value:,.0f}" if unit == "short" else written(value, unit)


def _cells(box: Box, width: float, y: float, said: Sequence[str], fill: str) -> str:
    return "".join(
        text(box.x + 12 + at * width, box.y + y, cut(each, width - 8), fill=fill)
        for at, each in enumerate(said)
    )


def _reached(value: float, step: float | None) -> bool:
    return step is None or value >= step
