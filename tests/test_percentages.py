"""Percentages: one form, whatever prints them."""

import re

import pytest

from ragmon.percentages import percent_range, percent_text, points_text
from tests.support.paths import ROOT


@pytest.mark.parametrize(
    ("share", "decimals", "text"),
    [
        (0.331, 1, "33.1 %"),
        (1 / 3, 1, "33.3 %"),
        (1.0, 1, "100 %"),
        (0.0, 1, "0 %"),
        (1.0, 2, "100 %"),
        (0.0, 2, "0 %"),
        (0.0004, 1, "<0.1 %"),
        (0.9999, 1, ">99.9 %"),
        (0.0006, 1, "0.1 %"),
        (0.00002, 2, "<0.01 %"),
        (0.05, 0, "5 %"),
        (0.12345, 2, "12.35 %"),
    ],
)
def test_a_share_is_a_percentage(share, decimals, text):
    assert percent_text(share, decimals) == text


@pytest.mark.parametrize(
    ("lower", "upper", "estimate", "text"),
    [
        (0.610, 0.702, 0.65, "61.0 – 70.2 %"),
        (0.0, 0.0123, 0.0, "0 – 1.23 %"),
        (0.99871, 0.99999999, 1.0, "99.87 – 100 %"),
        (0.0000001, 0.2, 0.05, "0 – 20.0 %"),
        (0.5, 1.0, None, "50.0 – 100 %"),
    ],
)
def test_an_interval_has_the_decimals_of_its_estimate(lower, upper, estimate, text):
    assert percent_range(lower, upper, estimate) == text


@pytest.mark.parametrize(
    ("change", "text"),
    [
        (-0.034, "-3.4 points"),
        (0.1, "+10.0 points"),
        (0.0, "0 points"),
        (-1e-9, "0 points"),
    ],
)
def test_a_change_is_in_points(change, text):
    assert points_text(change) == text


def test_no_module_formats_percentages_by_itself():
    own = re.compile(r":\.\d%\}")  # 33.1% without a blank
    files = [path for path in (ROOT / "ragmon").rglob("*.py") if own.search(path.read_text())]
    assert files == []
