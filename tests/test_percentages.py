"""Percentages: one form, whatever prints them."""

import re

import pytest

from ragmon.percentages import percent_text
from tests.support.paths import ROOT


@pytest.mark.parametrize(
    ("share", "decimals", "text"),
    [
        (0.331, 1, "33.1 %"),
        (1 / 3, 1, "33.3 %"),
        (1.0, 1, "100.0 %"),
        (0.0, 1, "0.0 %"),
        (0.05, 0, "5 %"),
        (0.12345, 2, "12.35 %"),
    ],
)
def test_a_share_is_a_percentage(share, decimals, text):
    assert percent_text(share, decimals) == text


def test_no_module_formats_percentages_by_itself():
    own = re.compile(r":\.\d%\}")  # 33.1% without a blank
    files = [path for path in (ROOT / "ragmon").rglob("*.py") if own.search(path.read_text())]
    assert files == []
