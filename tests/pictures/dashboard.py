"""A whole dashboard as one figure, out of its JSON and what Prometheus answers."""

import math
from collections.abc import Mapping
from typing import Any, Protocol

from matplotlib import rc_context
from matplotlib.figure import Figure

from grafana.filling import filled
from tests.pictures import charts, values
from tests.pictures.charts import Legended, Timespan
from tests.pictures.prometheus import Series
from tests.pictures.style import DIM, SETTINGS, Card, page

WIDTH = 1_200
_CELL_X, _CELL_Y, _GAP, _TOP = 50, 30, 6, 48
_DRAW = {
    "timeseries": charts.timeseries,
    "state-timeline": charts.states,
    "heatmap": charts.heatmap,
    "stat": values.stat,
}


class Source(Protocol):
    """Prometheus, or a stand-in for it."""

    def range(self, query: str, start: float, end: float, step_s: float) -> list[Series]:
        """Values over time."""
        ...

    def instant(self, query: str, at: float) -> list[Series]:
        """Values at one time."""
        ...


class Painter:
    """Queries and draws, for one stretch of time."""

    def __init__(self, source: Source, start: float, end: float, step_s: float) -> None:
        self._source = source
        self._start, self._end, self._step_s = start, end, step_s
        self._variables = {"__rate_interval": f"{4 * step_s:.0f}s"}

    def board(self, board: Mapping[str, Any]) -> Figure:
        """The figure of a dashboard as it is committed."""
        with rc_context(SETTINGS):
            figure = page(WIDTH, height(board))
            title = Card(figure, 0, 0, WIDTH, _TOP)
            title.write(12, 32, board["title"], size=13, weight="bold")
            span = self._span(board)
            for panel in board["panels"]:
                self._panel(figure, panel, span)
            return figure

    def _panel(self, figure: Figure, panel: Mapping[str, Any], span: Timespan) -> None:
        place = panel["gridPos"]
        card = Card(
            figure,
            place["x"] * _CELL_X + _GAP / 2,
            _TOP + place["y"] * _CELL_Y + _GAP / 2,
            place["w"] * _CELL_X - _GAP,
            place["h"] * _CELL_Y - _GAP,
        )
        title = filled(panel["title"])
        if panel["type"] == "row":
            fold = "▸" if panel["collapsed"] else "▾"
            card.write(6, 18, f"{fold} {title}", size=10, weight="bold")
            return
        card.draw(title)
        if not self._content(card, panel, span):
            centre = {"ha": "center", "va": "center", "color": DIM}
            card.write(card.width / 2, card.height / 2 + 6, "No data", size=9, **centre)

    def _content(self, card: Card, panel: Mapping[str, Any], span: Timespan) -> bool:
        """Fill a panel; False without data."""
        if panel["type"] == "table":
            answers = {
                target["refId"]: self._source.instant(self._filled(target["expr"]), self._end)
                for target in panel["targets"]
            }
            if any(answers.values()):
                values.table(card, panel, answers)
            return any(answers.values())
        lines = [
            Legended(filled(charts.legend(target["legendFormat"], series)), series)
            for target in panel["targets"]
            for series in self._range(target["expr"])
        ]
        if lines:
            _DRAW[panel["type"]](card, panel, lines, span)
        return bool(lines)

    def _range(self, expression: str) -> list[Series]:
        """Series without their NaN, those with no other value aside."""
        answer = self._source.range(self._filled(expression), self._start, self._end, self._step_s)
        return [
            Series(series.labels, points)
            for series in answer
            if (points := tuple(point for point in series.points if not math.isnan(point[1])))
        ]

    def _filled(self, expression: str) -> str:
        return filled(expression, **self._variables)

    def _span(self, board: Mapping[str, Any]) -> Timespan:
        """The time shown, marked at the beginning of each annotation."""
        beginnings = {
            (series.points[0][0], annotation["iconColor"])
            for annotation in board["annotations"]["list"]
            for series in self._range(annotation["expr"])
        }
        return Timespan(self._start, self._end, self._step_s, tuple(sorted(beginnings)))


def height(board: Mapping[str, Any]) -> int:
    """Pixels of a picture."""
    places = [panel["gridPos"] for panel in board["panels"]]
    lines: int = max(place["y"] + place["h"] for place in places)
    return _TOP + _CELL_Y * lines + _GAP
