"""A whole dashboard as one SVG, out of its JSON and what Prometheus answers."""

from collections.abc import Mapping
from typing import Any

from grafana.drawing import charts, values
from grafana.drawing.charts import Drawn, Marks
from grafana.drawing.prometheus import Prometheus, Series
from grafana.drawing.svg import CARD, DIM, EDGE, PAGE, TEXT, Box, cut, element, rectangle, text
from grafana.filling import filled

WIDTH = 1_200
_CELL_X, _CELL_Y, _GAP, _TOP = 50, 30, 6, 48
_FONT = "Inter, Helvetica, Arial, sans-serif"
_CHARTS = {
    "timeseries": charts.timeseries,
    "state-timeline": charts.states,
    "heatmap": charts.heatmap,
}


class Painter:
    """Asks and draws, for one stretch of time."""

    def __init__(self, prometheus: Prometheus, start: float, end: float, step_s: float) -> None:
        self._prometheus = prometheus
        self._start, self._end, self._step_s = start, end, step_s
        self._variables = {"__rate_interval": f"{4 * step_s:.0f}s"}

    def board(self, board: Mapping[str, Any]) -> str:
        """The picture of a dashboard as it is committed."""
        marks = self._marks(board)
        height = _TOP + _CELL_Y * max(
            panel["gridPos"]["y"] + panel["gridPos"]["h"] for panel in board["panels"]
        )
        body = [
            rectangle(Box(0, 0, WIDTH, height + _GAP), PAGE),
            text(12, 30, board["title"], size=18, font_weight="600"),
            *(self._panel(panel, marks) for panel in board["panels"]),
        ]
        return element(
            "svg",
            "".join(body) + "\n",
            xmlns="http://www.w3.org/2000/svg",
            viewBox=f"0 0 {WIDTH} {height + _GAP}",
            font_family=_FONT,
            role="img",
            aria_label=board["title"],
        )

    def _panel(self, panel: Mapping[str, Any], marks: Marks) -> str:
        place = panel["gridPos"]
        box = Box(
            place["x"] * _CELL_X + _GAP / 2,
            _TOP + place["y"] * _CELL_Y + _GAP / 2,
            place["w"] * _CELL_X - _GAP,
            place["h"] * _CELL_Y - _GAP,
        )
        title = filled(panel["title"])
        if panel["type"] == "row":
            heading = f"{'▸' if panel['collapsed'] else '▾'} {title}"
            return "\n" + text(box.x + 6, box.y + 18, heading, size=14, font_weight="600")
        card = rectangle(box, CARD, stroke=EDGE, rx=3)
        name = text(box.x + 10, box.y + 19, cut(title, box.width - 20, 12), size=12, fill=TEXT)
        body = self._content(box.inside(0, 26, 0, 4), panel, marks)
        if not body:
            middle = (box.x + box.width / 2, box.y + box.height / 2 + 6)
            body = text(*middle, "No data", size=13, fill=DIM, text_anchor="middle")
        return f"\n{card}{name}{body}"

    def _content(self, box: Box, panel: Mapping[str, Any], marks: Marks) -> str:
        if panel["type"] == "table":
            answers = {
                target["refId"]: self._prometheus.instant(self._filled(target["expr"]), self._end)
                for target in panel["targets"]
            }
            return values.table(box, panel, answers) if any(answers.values()) else ""
        drawn = [
            Drawn(filled(charts.legend(target["legendFormat"], series)), series)
            for target in panel["targets"]
            for series in self._range(target["expr"])
        ]
        if not drawn:
            return ""
        if panel["type"] == "stat":
            return values.stat(box, panel, drawn[0].series, self._start, self._end)
        return _CHARTS[panel["type"]](box, panel, drawn, marks)

    def _range(self, expression: str) -> list[Series]:
        found = self._prometheus.range(
            self._filled(expression), self._start, self._end, self._step_s
        )
        return [
            Series(each.labels, points)
            for each in found
            if (points := tuple(point for point in each.points if point[1] == point[1]))  # no NaN
        ]

    def _filled(self, expression: str) -> str:
        return filled(expression, **self._variables)

    def _marks(self, board: Mapping[str, Any]) -> Marks:
        """Where each annotation begins."""
        begins = {
            (series.points[0][0], each["iconColor"])
            for each in board["annotations"]["list"]
            for series in self._range(each["expr"])
        }
        return Marks(self._start, self._end, self._step_s, tuple(sorted(begins)))
