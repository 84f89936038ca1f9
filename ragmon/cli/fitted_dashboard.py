"""A dashboard without what the settings leave out of ``/metrics``; notes replace its panels."""

from collections.abc import Sequence
from typing import Any

from ragmon.config import Settings
from ragmon.daemon.metric_choice import shown_windows
from ragmon.durations import duration_text
from ragmon.exposition.left_out import LeftOut, LeftOutMetric
from ragmon.signals import EVIDENCE

Json = dict[str, Any]

_VALUES = "label_values("
_SOURCES = {"job": "up", "pipeline": "ragmon_queries_total"}
"""Metrics that tell the values of a variable as well as the usual one."""


class FittedDashboard:
    """One dashboard by the settings, and what was changed in it."""

    def __init__(self, board: Json, off: LeftOut, settings: Settings) -> None:
        """Fit it.

        Args:
            board: as shipped.
            off: metrics that are left out.
            settings: for the values of variables.
        """
        self._off = off
        self._values = _values(settings)
        self.changes: list[str] = []
        templating, annotations = board["templating"]["list"], board["annotations"]["list"]
        self.json = board | {
            "panels": [self._panel(panel) for panel in board["panels"]],
            "templating": {"list": [self._variable(variable) for variable in templating]},
            "annotations": {
                "list": [mark for mark in annotations if self._is_answered(mark)],
            },
        }

    def _panel(self, panel: Json) -> Json:
        """The panel, its answered part, or a note."""
        if panel["type"] == "row":
            return panel | {"panels": [self._panel(inner) for inner in panel["panels"]]}
        targets = panel["targets"]
        missing = [self._off.of(target["expr"]) for target in targets]
        if not any(missing):
            return panel
        kept = [target for target, metrics in zip(targets, missing, strict=True) if not metrics]
        reason = _reason([metric for metrics in missing for metric in metrics])
        part = "in part " if kept else ""
        self.changes.append(f"{panel['title']}: {part}left out, {reason}")
        return _reduced(panel, kept, reason) if kept else _note(panel, reason)

    def _variable(self, variable: Json) -> Json:
        """The variable; where its metric is left out, by another one or by the settings."""
        definition = variable.get("definition", "")
        if not definition.startswith(_VALUES):
            return variable
        selector, _, label = definition.removeprefix(_VALUES).removesuffix(")").rpartition(",")
        missing = self._off.of(selector)
        if not missing:
            return variable
        name = variable["name"]
        self.changes.append(f"Variable {variable['label']}: from elsewhere, {_reason(missing)}")
        source = _SOURCES.get(name, "")
        if source and not self._off.setting(source):
            query = f"{_VALUES}{source}, {label.strip()})"
            return variable | {"definition": query, "query": {"query": query, "refId": name}}
        return _custom(variable, self._values.get(name, [".+"]))

    def _is_answered(self, annotation: Json) -> bool:
        missing = self._off.of(annotation["expr"])
        if missing:
            self.changes.append(f"Marks {annotation['name']}: left out, {_reason(missing)}")
        return not missing


def _values(settings: Settings) -> dict[str, list[str]]:
    """Values of variables that the settings tell."""
    windows = shown_windows(settings)
    of_slices = windows.of_slices or windows.of_pipelines
    return {
        "window": [duration_text(length) for length in windows.of_pipelines],
        "slice_window": [duration_text(length) for length in of_slices],
        "dimension": ["version", *settings.slices],
        "k": [str(k) for k in sorted(set(settings.retrieval.ks))],
        "evidence": [*EVIDENCE, "judge"],
    }


def _reason(metrics: Sequence[LeftOutMetric]) -> str:
    """The metrics by the setting that leaves them out."""
    by_setting: dict[str, dict[str, None]] = {}
    for metric in metrics:
        by_setting.setdefault(metric.setting, {})[metric.name] = None
    return "; ".join(
        f"{setting} leaves out {', '.join(names)}" for setting, names in by_setting.items()
    )


def _note(panel: Json, reason: str) -> Json:
    """A panel of text in the place of one without queries."""
    text = f"**Not shown:** {reason}.\n\n{panel['description']}"
    kept = {name: panel[name] for name in ("id", "title", "description", "gridPos")}
    return kept | {"type": "text", "options": {"mode": "markdown", "content": text}}


def _reduced(panel: Json, targets: list[Json], reason: str) -> Json:
    """The panel with a part of its queries."""
    reduced = panel | {
        "targets": targets,
        "description": f"{panel['description']} In part not shown: {reason}.",
    }
    if panel["type"] == "table" and len(targets) == 1:
        reduced["transformations"] = _of_one(panel["transformations"], targets[0]["refId"])
    return reduced


def _of_one(transformations: list[Json], reference: str) -> list[Json]:
    """Transformations of a table with one query, whose values have no letter in Grafana."""
    before, after = f"Value #{reference}", "Value"
    return [
        step | {"options": _renamed(step["options"], before, after)} for step in transformations
    ]


def _renamed(options: Json, before: str, after: str) -> Json:
    return {
        name: {after if key == before else key: value for key, value in by_name.items()}
        for name, by_name in options.items()
    }


def _custom(variable: Json, values: Sequence[str]) -> Json:
    """A choice of these values."""
    first = {"text": values[0], "value": values[0]}
    chosen = variable["current"] if variable["includeAll"] else first
    kept = {name: variable[name] for name in ("name", "label", "multi", "includeAll")}
    options = [
        {"text": value, "value": value, "selected": value == chosen["value"]} for value in values
    ]
    custom = {"type": "custom", "query": ",".join(values), "options": options, "current": chosen}
    return kept | custom | ({"allValue": variable["allValue"]} if variable["includeAll"] else {})
