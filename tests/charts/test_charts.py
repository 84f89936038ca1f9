"""Every chart is well-formed, escapes what it is given, and shows gaps, intervals and marks."""

import math
import re
from xml.etree import ElementTree

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ragmon.charts import axes
from ragmon.charts.area import Layer, stacked_area
from ragmon.charts.bars import Bar, bars, histogram
from ragmon.charts.line import Band, Curve, Mark, legend, line_chart, sparkline
from ragmon.charts.style import CHART_STYLE
from ragmon.charts.svg import element, text_of
from ragmon.charts.waterfall import TimedStep, waterfall

NAN = math.nan
X = [0.0, 1.0, 2.0, 3.0, 4.0, 5.0]
X_AXIS, RATIO = axes.fixed(X), axes.ratios([1.0])
HOSTILE = "</svg><script>alert(1)</script>\x00\x1b[31m\u202e\"'&\ud800"


def tree(markup):
    """The elements of a chart and its legend."""
    return ElementTree.fromstring(f"<div>{markup}</div>")


def all_of(markup, name, class_):
    return [e for e in tree(markup).iter(name) if class_ in e.get("class", "").split()]


def line(*curves, **more):
    return line_chart(curves, title="t", x_axis=X_AXIS, y_axis=RATIO, **more)


def test_a_curve_has_a_gap_where_there_were_no_samples():
    curve = Curve("hit rate", X, [0.5, 0.6, NAN, 0.7, 0.8, NAN])
    pieces = all_of(line(curve), "polyline", "curve")
    assert [len(piece.get("points").split()) for piece in pieces] == [2, 2]


def test_a_lonely_value_is_a_dot():
    curve = Curve("hit rate", list(range(40)), [0.5] * 3 + [NAN, 0.9, NAN] + [0.5] * 34)
    markup = line(curve)
    assert len(list(tree(markup).iter("circle"))) == 1
    assert len(all_of(markup, "polyline", "curve")) == 2


def test_an_interval_is_an_area_around_the_curve():
    curve = Curve("hit rate", X, [0.5] * 6, [0.4, 0.4, NAN, 0.4, 0.4, 0.4], [0.6] * 5 + [NAN])
    areas = all_of(line(curve), "polygon", "band")
    assert [len(area.get("points").split()) for area in areas] == [4, 4]
    expected = Band(X, [0.3] * 6, [0.7] * 6)
    assert len(all_of(line(curve, expected=expected), "polygon", "expected")) == 1


def test_what_lies_beyond_an_axis_is_drawn_at_its_end():
    placed = all_of(line(Curve("x", X, [-5.0, 0.5, 9.0, 0.5, 0.5, 0.5])), "polyline", "curve")[0]
    heights = [float(pair.split(",")[1]) for pair in placed.get("points").split()]
    assert min(heights) >= 10.0
    assert max(heights) <= 200.0


def test_curves_differ_by_colour_and_by_dashes():
    markup = line(*(Curve(f"c{at}", X, [at / 10] * 6) for at in range(6)))
    curves = all_of(markup, "polyline", "curve")
    assert len({curve.get("stroke") for curve in curves}) == 6
    assert len({curve.get("stroke-dasharray") for curve in curves}) == 6
    assert re.findall(r"c\d(?=</span>)", markup) == [f"c{at}" for at in range(6)]


def test_one_curve_needs_no_legend():
    assert legend(["a"]) == ""
    assert legend(["a", "b"]).count("<span>") == 2


def test_marks_are_lines_and_stretches_within_the_axis():
    marks = [
        Mark(1.0, "version 2", "version"),
        Mark(2.0, "outage", "incident", until=9.0),
        Mark(-3.0, "began before", "silence", until=0.5),
        Mark(7.0, "later"),
        Mark(-3.0, "earlier"),
    ]
    markup = line(Curve("x", X, [0.5] * 6), marks=marks)
    assert [m.get("class") for m in all_of(markup, "line", "mark")] == [
        "mark version",
        "mark incident",
    ]
    assert [s.get("class") for s in all_of(markup, "rect", "span")] == [
        "span silence",
        "span incident",
    ]
    texts = [text.text for text in all_of(markup, "text", "dim")]
    assert sorted(texts) == ["outage", "version 2"]


def test_texts_of_marks_do_not_lie_on_each_other():
    marks = [Mark(1.0 + at / 100, f"a mark with a long text {at}") for at in range(8)]
    texts = all_of(line(Curve("x", X, [0.5] * 6), marks=marks), "text", "dim")
    assert len(texts) == 3  # the others keep their line and its title
    assert len({text.get("y") for text in texts}) == 3


def test_the_texts_of_incidents_come_before_all_others():
    others = [Mark(1.0 + at / 100, f"version {at} of it") for at in range(8)]
    outages = [Mark(at, "an outage", "incident", until=at + 0.5) for at in (1.9, 2.4)]
    markup = line(Curve("x", X, [0.5] * 6), marks=[*others, *outages])
    texts = [text.text for text in all_of(markup, "text", "dim")]
    assert texts[:2] == ["an outage", "an outage"]
    assert len(texts) > 2


def test_a_chart_says_its_title_to_screen_readers():
    chart = tree(line(Curve("x", X, [0.5] * 6))).find("svg")
    assert (chart.get("role"), chart.get("aria-label")) == ("img", "t")


def test_layers_stand_on_each_other_and_share_their_gaps():
    layers = [Layer("a", [0.1, 0.2, 0.3, NAN, 0.1, 0.1]), Layer("b", [0.5] * 6)]
    markup = stacked_area(layers, X, title="t", x_axis=X_AXIS, y_axis=RATIO)
    areas = all_of(markup, "polygon", "layer")
    assert [len(area.get("points").split()) for area in areas] == [6, 4, 6, 4]
    top_of_a = areas[0].get("points").split()[:3]
    bottom_of_b = areas[2].get("points").split()[3:]
    assert top_of_a == bottom_of_b[::-1]


def test_a_moment_between_gaps_is_an_area():
    layers = [Layer("a", [NAN, 0.2, NAN, NAN, 0.1, 0.1])]
    markup = stacked_area(layers, X, title="t", x_axis=X_AXIS, y_axis=RATIO)
    assert len(all_of(markup, "polygon", "layer")) == 2


def test_a_histogram_compares_shares_with_those_before():
    markup = histogram([1, 3, 0], title="t", ends=("0", "1"), before=[30, 10, 0])
    rects = all_of(markup, "rect", "bar")
    heights = [float(rect.get("height")) for rect in rects]
    assert heights == pytest.approx([18.0, 54.0, 0.0])
    assert len(all_of(markup, "polyline", "before")) == 1
    assert [rect.find("title").text for rect in rects] == ["1", "3", "0"]
    assert all_of(histogram([0, 0], title="t", ends=("0", "1")), "rect", "bar")


def test_bars_have_their_interval():
    rows = [Bar("acme", 0.5, 0.4, 0.6), Bar("beta", 0.2)]
    markup = bars(rows, title="t", unit="ratio")
    assert [float(bar.get("width")) for bar in all_of(markup, "rect", "bar")] == [170.0, 68.0]
    assert len(all_of(markup, "line", "whisker")) == 3
    assert [text.text for text in tree(markup).iter("text")] == ["acme", "50 %", "beta", "20 %"]


@given(st.lists(st.floats(-1e12, 1e12) | st.just(NAN), max_size=50))
def test_a_sparkline_fits_its_space(values):
    markup = sparkline(values, title="t")
    assert "nan" not in markup
    for dot in tree(markup).iter("circle"):
        assert 0 <= float(dot.get("cx")) <= 120
        assert 0 <= float(dot.get("cy")) <= 28


def test_steps_lie_where_they_ran():
    steps = [
        TimedStep("request", 0.0, 2.0),
        TimedStep("search " * 20, 0.5, 0.5, depth=1, kind=1),
        TimedStep("generate", 1.0, 1.0, depth=1, kind=2, is_failed=True),
    ]
    markup = waterfall(steps, title="t")
    request, search, generate = all_of(markup, "rect", "layer")
    assert float(search.get("width")) == pytest.approx(float(request.get("width")) / 4, abs=0.2)
    assert float(generate.get("x")) > float(search.get("x"))
    assert "1 s, failed" in markup
    assert ">search search search search …<" in markup
    assert waterfall([], title="t")


@given(st.floats(allow_nan=False, allow_infinity=False), st.text(max_size=30))
def test_any_text_is_a_text(number, text):
    node = ElementTree.fromstring(element("text", text_of(text), x=number, class_=text))
    assert node.tag == "text"
    assert not list(node)


@pytest.mark.parametrize(
    "markup",
    [
        line(Curve(HOSTILE, X, [0.5] * 6), Curve("b", X, [0.4] * 6), marks=[Mark(1.0, HOSTILE)]),
        stacked_area([Layer(HOSTILE, X)], X, title=HOSTILE, x_axis=X_AXIS, y_axis=RATIO),
        bars([Bar(HOSTILE, 0.5, note=HOSTILE)], title=HOSTILE, unit="ratio"),
        histogram([1], title=HOSTILE, ends=(HOSTILE, "1")),
        sparkline([1.0], title=HOSTILE),
        waterfall([TimedStep(HOSTILE, 0.0, 1.0)], title=HOSTILE),
    ],
    ids=["line", "area", "bars", "histogram", "sparkline", "waterfall"],
)
def test_hostile_texts_stay_texts(markup):
    names = {node.tag for node in tree(markup).iter()}
    assert "script" not in names
    assert "\x00" not in markup
    markup.encode()


def test_every_colour_and_class_is_styled():
    assert {f"--c{at}:" for at in range(1, 7)} <= set(re.findall(r"--c\d:", CHART_STYLE))
    for name in ("curve", "band", "expected", "mark", "span", "layer", "bar", "whisker", "grid"):
        assert f".chart .{name}" in CHART_STYLE
    assert "prefers-color-scheme:dark" in CHART_STYLE
    assert "@media print" in CHART_STYLE
