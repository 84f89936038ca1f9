"""Slices that may hold the cause: named where the rest stayed as it was, and only there."""

import pytest

from ragmon.alerts.suspects import Cell, overlaps, probabilities


@pytest.mark.parametrize(
    ("whole", "parts", "least", "most"),
    [
        pytest.param(Cell(400, 80, 0.1), [Cell(100, 50, 0.1)], 0.95, 1.0, id="a quarter fails"),
        pytest.param(Cell(400, 200, 0.1), [Cell(100, 50, 0.1)], 0.0, 0.05, id="everything fails"),
        pytest.param(Cell(400, 55, 0.1), [Cell(100, 25, 0.1)], 0.5, 1.0, id="a small rise of one"),
        pytest.param(Cell(400, 95, 0.1), [Cell(100, 55, 0.1)], 0.9, 1.0,
                     id="of few others, within the slack"),
        pytest.param(Cell(400, 200, 0.1), [Cell(400, 200, 0.1)], 0.0, 0.01, id="it is the whole"),
        pytest.param(Cell(400, 399, 0.0), [Cell(200, 200, 0.0)], 0.0, 0.05, id="extreme rates"),
        pytest.param(Cell(12, 3, 0.1), [Cell(3, 1, 0.1)], 0.0, 0.7, id="too few to know"),
    ],
)  # fmt: skip
def test_one_slice_or_everything(whole, parts, least, most):
    (probability,) = probabilities(whole, parts)
    assert least <= probability <= most


def test_slices_that_are_the_same_queries_share_the_probability():
    bad = Cell(100, 60, 0.1)
    first, second, innocent = probabilities(Cell(400, 90, 0.1), [bad, bad, Cell(150, 30, 0.1)])
    assert first == second == pytest.approx(0.5, abs=0.01)
    assert innocent < 0.01


def test_of_two_slices_beyond_doubt_the_more_likely_one_is_named():
    """All strays are one version's; of all rates that low any slice might be to blame."""
    rare, version = Cell(1_006, 45, 0.003), Cell(2_233, 214, 0.0)
    first, second = probabilities(Cell(8_306, 214, 1.3e-5), [rare, version])
    assert first < 0.01 < 0.99 < second


def test_nothing_to_suspect():
    assert probabilities(Cell(10, 1, 0.1), []) == []


BAD_QUARTER = (Cell(4_000, 800, 0.1), Cell(1_000, 500, 0.1))


@pytest.mark.parametrize(
    ("whole", "culprit", "part", "explained"),
    [
        pytest.param(*BAD_QUARTER, Cell(800, 160, 0.1), True, id="its fair part"),
        pytest.param(*BAD_QUARTER, Cell(800, 400, 0.1), True, id="hit harder, by nothing else"),
        pytest.param(*BAD_QUARTER, Cell(40, 36, 0.1), False, id="few that lost by themselves"),
        pytest.param(Cell(4_000, 1_100, 0.1), Cell(1_000, 500, 0.1), Cell(800, 500, 0.1), False,
                     id="the others lost more as well"),
    ],
)  # fmt: skip
def test_what_a_slice_lost_is_explained_by_another_one(whole, culprit, part, explained):
    assert overlaps(whole, culprit, part) == explained
