"""Pictures of dashboards: drawn of every panel, out of what Prometheus answers."""

import math
from xml.etree import ElementTree

import pytest
from matplotlib.text import Text

from grafana.filling import filled
from tests.pictures.charts import with_gaps
from tests.pictures.dashboard import Painter, height
from tests.pictures.day import stamped
from tests.pictures.prometheus import Series
from tests.pictures.style import cut
from tests.pictures.units import ticks, written
from tests.support.boards import BOARDS, FOLDER, shown

START, END, STEP = 1_700_000_000.0, 1_700_086_400.0, 3_600.0
PICTURES = FOLDER.parent / "pictures"
EACH = pytest.mark.parametrize("board", BOARDS.values(), ids=list(BOARDS))


class Answers:
    """Stands in for Prometheus: the same series for every question, or none."""

    def __init__(self, *values: float) -> None:
        self._values = values

    def range(self, query, start, end, step_s):
        times = [start + step_s * at for at in range(len(self._values))]
        return [self._series(tuple(zip(times, self._values, strict=True)))] if times else []

    def instant(self, query, at):
        return [self._series(((at, self._values[-1]),))] if self._values else []

    def _series(self, points):
        labels = {
            "pipeline": "<shop>",
            "job": "<shop>",
            "le": "5",
            "alert": "Slow & sad",
            "mode": "ranking",
        }
        return Series(labels, points)


def drawn(board, *values) -> list[str]:
    """The texts of a picture, the legends' included."""
    figure = Painter(Answers(*values), START, END, STEP).board(board)
    return [text.get_text() for text in figure.findobj(Text)]


@EACH
@pytest.mark.parametrize(
    "values",
    [
        pytest.param((1.0, 2.0, 2.0, 1.0), id="lines"),
        pytest.param((1.0,), id="one point"),
        pytest.param((1.0, math.nan, 1.0), id="a gap"),
        pytest.param((2.0, 2.0), id="level"),
    ],
)
def test_a_picture_has_a_title_for_every_panel(board, values):
    texts = drawn(board, *values)
    assert "No data" not in texts
    for panel in shown(board):
        assert any(filled(panel["title"]).startswith(text.rstrip("…")) for text in texts if text)
    assert any("<shop>" in text for text in texts)


@EACH
def test_a_panel_without_data_says_so(board):
    assert drawn(board).count("No data") == len(shown(board))


@EACH
def test_the_pictures_are_of_the_dashboards_as_they_are(board):
    name = board["uid"].removeprefix("ragmon-")
    text = (PICTURES / f"{name}.svg").read_text(encoding="utf-8")
    assert len(text) < 600_000
    points = f"{0.72 * 1_200:g} {0.72 * height(board):g}"
    assert f'viewBox="0 0 {points}"' in text, "run make pictures"
    texts = {node.text for node in ElementTree.fromstring(text).iter() if "text" in node.tag}
    missing = [p["title"] for p in shown(board) if filled(p["title"]) not in texts]
    assert missing == [], "run make pictures"


@pytest.mark.parametrize(
    ("value", "unit", "expected"),
    [
        (0.1234, "percentunit", "12.3 %"),
        (0.0, "s", "0 s"),
        (0.00042, "s", "420 µs"),
        (0.0123, "s", "12.3 ms"),
        (90.0, "s", "1.5 min"),
        (1536.0, "bytes", "1.5 KiB"),
        (12.0, "bytes", "12 B"),
        (1540.0, "short", "1.54 K"),
        (0.45, "reqps", "0.45 req/s"),
        (1.5, "currencyUSD", "$1.5"),
        (math.nan, "s", "–"),
    ],
)
def test_values_are_written_in_their_unit(value, unit, expected):
    assert written(value, unit) == expected


@pytest.mark.parametrize(
    ("low", "high", "unit", "expected"),
    [
        (0.0, 1.0, "percentunit", [0.0, 0.2, 0.4, 0.6, 0.8, 1.0]),
        (0.0, 310.0, "short", [0.0, 100.0, 200.0, 300.0]),
        (0.0, 240.0, "s", [0.0, 60.0, 120.0, 180.0, 240.0]),
        (0.0, 3 * 2.0**20, "bytes", [0.0, 2.0**20, 2 * 2.0**20, 3 * 2.0**20]),
    ],
)
def test_ticks_are_round_in_their_unit(low, high, unit, expected):
    assert ticks(low, high, unit) == pytest.approx(expected)


@pytest.mark.parametrize(
    ("sample", "expected"),
    [
        ("up 1", 'up{job="ragmon",instance="ragmon:8321"} 1 60\n'),
        ('a{b="c"} 2.5', 'a{b="c",job="ragmon",instance="ragmon:8321"} 2.5 60\n'),
        (
            'a{b="c"} 2 # {trace_id="x"} 1 5.0',
            'a{b="c",job="ragmon",instance="ragmon:8321"} 2 60\n',
        ),
    ],
)
def test_a_sample_gets_what_a_scrape_adds(sample, expected):
    assert stamped(sample, 60.0) == expected


def test_no_line_crosses_a_gap():
    moments, values = with_gaps(Series({}, ((0.0, 1.0), (60.0, 2.0), (300.0, 3.0))), 60.0)
    assert moments == [0.0, 60.0, 120.0, 300.0]
    assert [value for value in values if not math.isnan(value)] == [1.0, 2.0, 3.0]
    assert math.isnan(values[2])


def test_a_long_text_is_cut_to_its_room():
    assert cut("short", 200) == "short"
    assert cut("x" * 100, 110).endswith("…")
    assert len(cut("x" * 100, 110)) < 25
