"""Prometheus text by hand: escapes, numbers, histograms, exemplars."""

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from ragmon.exposition import page
from ragmon.exposition.negotiation import OPENMETRICS, TEXT
from ragmon.exposition.text import (
    Exemplar,
    Family,
    HistogramSample,
    number,
    render,
    series,
)
from tests.support.metrics import openmetrics, plain, samples


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        (0.0, "0"),
        (3.0, "3"),
        (-2.0, "-2"),
        (0.5, "0.5"),
        (1e-9, "1e-09"),
        (2.0**53 - 1, "9007199254740991"),
        (1e300, "1e+300"),
        (math.inf, "+Inf"),
        (-math.inf, "-Inf"),
        (0.1 + 0.2, "0.30000000000000004"),
    ],
)
def test_numbers_are_exact_and_short(value, expected):
    assert number(value) == expected
    assert float(expected) == value


def test_numbers_of_other_types_are_numbers():
    assert [number(value) for value in (np.float64(0.5), np.float64(3.0), np.int64(4), 7)] == [
        "0.5", "3", "4", "7",
    ]  # fmt: skip


@given(st.floats(allow_nan=False, allow_infinity=False))
def test_every_number_is_read_back(value):
    assert float(number(value)) == value


LABEL_VALUES = st.text(st.characters(exclude_categories=["Cs"]), min_size=1, max_size=40)


@given(st.lists(LABEL_VALUES, min_size=1, max_size=5, unique=True))
def test_any_label_value_survives_both_formats(values):
    given = [(series("ragmon_x", (("pipeline", value),)), 1.0) for value in values]
    families = [Family("ragmon_x", "gauge", "Help.", given)]
    text = render(families, TEXT).decode()
    assert [s.labels["pipeline"] for f in plain(text) for s in f.samples] == values
    text = page(families, OPENMETRICS).decode()
    assert [s.labels["pipeline"] for f in openmetrics(text) for s in f.samples] == values


def test_empty_labels_are_left_out():
    assert series("a", (("b", ""), ("c", "d"))) == ("a", (("c", "d"),), 'a{c="d"}')
    assert series("a", (("b", ""),)).text == "a"
    assert series("a", ()).text == "a"


def test_help_is_escaped():
    family = Family("ragmon_x", "gauge", 'One\\two\n"three".', [(series("ragmon_x", ()), 1.0)])
    assert b'# HELP ragmon_x One\\\\two\\n"three".\n' in render([family], TEXT)
    assert b'One\\\\two\\n\\"three\\".\n' in render([family], OPENMETRICS)


def test_a_family_without_samples_is_absent():
    assert render([Family("ragmon_x", "gauge", "Help.", [])], TEXT) == b""
    assert page([], OPENMETRICS) == b"# EOF\n"


def histogram(*given) -> Family:
    return Family("h", "histogram", "Help.", (), [HistogramSample(*given)])


def lines(family: Family) -> list[str]:
    return render([family], TEXT).decode().splitlines()[2:]


def test_histograms_are_cumulative():
    assert lines(histogram((("a", "b"),), [0.5, 1.0], [1, 2, 3], 9.5)) == [
        'h_bucket{a="b",le="0.5"} 1',
        'h_bucket{a="b",le="1.0"} 3',
        'h_bucket{a="b",le="+Inf"} 6',
        'h_sum{a="b"} 9.5',
        'h_count{a="b"} 6',
    ]


def test_a_sum_of_zero_is_a_sum():
    assert "h_sum 0" in lines(histogram((), [0.0], [3, 0], 0.0))


def test_a_negative_sum_is_left_out_of_a_histogram():
    # A sum that can fall is no counter: OpenMetrics forbids it, and rate() would be wrong.
    family = histogram((), [0.0, 1.0], [3, 1, 0], -7.5)
    assert [line for line in lines(family) if "_bucket" not in line] == []
    text = page([family], OPENMETRICS).decode()
    assert {sample.name for sample in samples(text)} == {"h_bucket"}


TRACED = Family(
    "ragmon_h_seconds",
    "histogram",
    "Help.",
    (),
    [
        HistogramSample(
            (), [1.0, 2.0], [1, 1, 0], 2.0, {1: Exemplar("4bf92f", 1.5, 1_750_000_000.123)}
        )
    ],
)


def test_exemplars_stand_in_openmetrics_only():
    assert b"trace_id" not in render([TRACED], TEXT)
    text = page([TRACED], OPENMETRICS).decode()
    [traced] = [sample for sample in samples(text) if sample.exemplar]
    assert traced.labels == {"le": "2.0"}
    assert traced.exemplar.labels == {"trace_id": "4bf92f"}
    assert traced.exemplar.value == 1.5
    assert math.isclose(traced.exemplar.timestamp, 1_750_000_000.123)


def test_exemplars_are_escaped():
    traced = TRACED.histograms[0]._replace(exemplars={0: Exemplar('a"b\\', 0.5, 1.0)})
    family = TRACED._replace(histograms=[traced])
    assert b' # {trace_id="a\\"b\\\\"} 0.5 1.000\n' in render([family], OPENMETRICS)


def test_openmetrics_names_counters_without_their_suffix():
    family = Family("ragmon_x_total", "counter", "Help.", [(series("ragmon_x_total", ()), 1.0)])
    assert b"# TYPE ragmon_x counter\nragmon_x_total 1\n" in render([family], OPENMETRICS)
    assert b"# TYPE ragmon_x_total counter\n" in render([family], TEXT)
