"""A table of samples: what is kept from one page to the next, and what its lines say."""

import math

import numpy as np

from ragmon.exposition.negotiation import OPENMETRICS, TEXT
from ragmon.exposition.sample_table import SampleTable
from ragmon.exposition.text import Family, render, series
from ragmon.windows.series import SeriesKey

A, B, C = (SeriesKey(name) for name in ('a"\n', "b", "c"))
NAMES = ("x", "y", "z")


class Named:
    """Names of the series of a key, and how often they were asked for."""

    def __init__(self):
        self.asked = []

    def __call__(self, key):
        self.asked.append(key)
        return [series(name, (("pipeline", key.pipeline),)) for name in NAMES]


def table(named=None):
    return SampleTable(named or Named(), len(NAMES))


def values(*rows):
    return np.array(rows, dtype=float)


def shown(of_table):
    return [
        (each.name, each.labels[0][1], value)
        for each, value in of_table.samples(0, len(NAMES)).samples
    ]


def test_what_is_unknown_is_not_shown():
    samples = table()
    samples.update([A, B], values((1, math.nan, 3), (math.nan, 5, math.inf)))
    assert shown(samples) == [
        ("x", A.pipeline, 1),
        ("z", A.pipeline, 3),
        ("y", "b", 5),
        ("z", "b", math.inf),
    ]
    assert [each.name for each, _ in samples.samples(1, 2).samples] == ["y"]


def test_values_that_are_as_before_keep_their_samples_and_lines():
    named = Named()
    samples = table(named)
    samples.update([A, B], values((1, 2, 3), (4, 5, 6)))
    before = samples.samples(0, 3)
    samples.update([A, B], values((1, 2, 30), (4, 5, 6)))
    after = samples.samples(0, 3)
    same = [one is other for one, other in zip(before.samples, after.samples, strict=True)]
    assert same == [True, True, False, True, True, True]
    assert after.samples[2][1] == 30
    assert named.asked == [A, B]


def test_rows_come_go_and_change_places():
    named = Named()
    samples = table(named)
    samples.update([A, B], values((1, 2, 3), (4, 5, 6)))
    samples.update([C, B], values((7, 8, 9), (4, math.nan, 60)))
    assert shown(samples) == [
        ("x", "c", 7),
        ("y", "c", 8),
        ("z", "c", 9),
        ("x", "b", 4),
        ("z", "b", 60),
    ]
    samples.update([], np.empty((0, 3)))
    assert shown(samples) == []
    samples.update([B], values((4, 5, 6)))
    assert len(shown(samples)) == 3
    assert named.asked == [A, B, C, B]  # of what is not shown nothing is kept


def test_a_value_that_was_unknown_for_a_while_is_shown_again():
    samples = table()
    for x in (1, math.nan, 1):
        samples.update([A], values((x, 2, 3)))
    assert shown(samples)[0] == ("x", A.pipeline, 1)


def test_lines_say_what_the_samples_say():
    samples = table()
    samples.update([A, B], values((1, -2.5, 1e300), (0.1, math.inf, 3)))
    of_all = samples.samples(0, 3)
    family = Family("x", "gauge", "Help.", of_all.samples)
    assert len(of_all.lines) == 6
    for form in (TEXT, OPENMETRICS):
        assert render([family._replace(lines=of_all.lines)], form) == render([family], form)
