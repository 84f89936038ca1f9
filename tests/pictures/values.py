"""Panels of the values now: single numbers and tables."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from tests.pictures.charts import Legended, Timespan
from tests.pictures.prometheus import Series
from tests.pictures.style import DIM, NAMED, Card, cut
from tests.pictures.units import written

_ROW_PX = 22

Row = dict[str, str | float]


def stat(card: Card, panel: Mapping[str, Any], lines: Sequence[Legended], span: Timespan) -> None:
    """The last value, over its recent past."""
    defaults = panel["fieldConfig"]["defaults"]
    series = lines[0].series
    steps = defaults["thresholds"]["steps"]
    reached = [step["color"] for step in steps if _is_reached(series.last, step["value"])]
    colour = NAMED[reached[-1]]
    moments, values = zip(*series.points, strict=True)
    axes = card.axes(0, card.height * 0.6, 0, 2)
    axes.fill_between(moments, values, min(0.0, *values), color=colour, alpha=0.2, linewidth=0)
    axes.plot(moments, values, color=colour, linewidth=1.0)
    axes.set_xlim(span.start, span.end)
    axes.set_axis_off()
    text = written(series.last, defaults["unit"])
    centre = {"ha": "center", "va": "center"}
    card.write(card.width / 2, card.height / 2, text, size=19, color=colour, **centre)


def table(card: Card, panel: Mapping[str, Any], answers: Mapping[str, Sequence[Series]]) -> None:
    """Rows joined on their labels, as Grafana's ``merge`` and ``organize`` do.

    Args:
        card: of the panel.
        panel: as committed.
        answers: series by the query's refId.
    """
    organize = panel["transformations"][1]["options"]
    names = organize["renameByName"]
    order = sorted(names, key=organize["indexByName"].__getitem__)
    rows = _joined(answers, [name for name in order if not name.startswith("Value")])
    for name in _sorting(panel, names):
        rows.sort(key=lambda row: _rank(row, name), reverse=True)
    room = int((card.height - 64) / _ROW_PX)
    width = (card.width - 24) / len(order)
    lines = [[names[name] for name in order]]
    lines += [
        [_text(row.get(name, ""), panel, names[name]) for name in order] for row in rows[:room]
    ]
    for number, line in enumerate(lines):
        style = {} if number else {"color": DIM}
        for column, text in enumerate(line):
            y = 46 + _ROW_PX * number
            card.write(12 + column * width, y, cut(text, width - 4), **style)
    if len(rows) > room:
        card.write(12, card.height - 6, f"+ {len(rows) - room} rows", color=DIM)


def _joined(answers: Mapping[str, Sequence[Series]], labels: Iterable[str]) -> list[Row]:
    single = len(answers) == 1
    rows: dict[tuple[str, ...], Row] = {}
    for ref, answer in answers.items():
        for series in answer:
            key = tuple(series.labels.get(name, "") for name in labels)
            row = rows.setdefault(key, dict(zip(labels, key, strict=True)))
            row["Value" if single else f"Value #{ref}"] = series.last
    return [rows[key] for key in sorted(rows)]


def _sorting(panel: Mapping[str, Any], names: Mapping[str, str]) -> list[str]:
    columns = [column["displayName"] for column in panel["options"].get("sortBy", ())]
    return [name for name, shown in names.items() if shown in columns]


def _rank(row: Row, name: str) -> float:
    value = row.get(name, float("-inf"))
    return value if isinstance(value, float) else 0.0


def _text(value: str | float, panel: Mapping[str, Any], heading: str) -> str:
    if isinstance(value, str):
        return value
    config = panel["fieldConfig"]
    unit = config["defaults"]["unit"]
    for override in config["overrides"]:
        if override["matcher"]["options"] == heading:
            unit = next((p["value"] for p in override["properties"] if p["id"] == "unit"), unit)
    return f"{value:,.0f}" if unit == "short" else written(value, unit)


def _is_reached(value: float, step: float | None) -> bool:
    return step is None or value >= step
