"""Rests between two renderings of the page for Prometheus."""

import pytest

from ragmon.daemon.monitor import rest_s


@pytest.mark.parametrize(
    ("took_s", "age_s", "rest"),
    [
        pytest.param(0.01, 0.0, 0.05, id="five times as long as it took"),
        pytest.param(0.01, 0.04, 0.01, id="less what has passed"),
        pytest.param(0.01, 9.0, 0.0, id="none once that is over"),
        pytest.param(6.0, 0.0, 2.0, id="on a starved machine well below a scrape's ten seconds"),
    ],
)
def test_a_page_rests_but_no_scrape_waits_long(took_s, age_s, rest):
    assert rest_s(took_s, age_s) == pytest.approx(rest)
