"""Rights of a token: names of pipelines, and rates."""

import pytest

from ragmon.access import Pipelines, TokenBucket, matches, whole_seconds
from ragmon.clock import ManualClock


@pytest.mark.parametrize(
    ("glob", "name", "fits"),
    [
        pytest.param("docs", "docs", True, id="a name is itself"),
        pytest.param("docs", "docs2", False, id="and nothing longer"),
        pytest.param("docs", "Docs", False, id="capitals count"),
        pytest.param("docs-*", "docs-de", True, id="an ending"),
        pytest.param("docs-*", "docs-", True, id="which may be empty"),
        pytest.param("docs-*", "docs", False, id="but not the dash"),
        pytest.param("*-de", "docs-de", True, id="a beginning"),
        pytest.param("*", "anything", True, id="a star alone"),
        pytest.param("a*b*c", "a-b-b-c", True, id="several stars"),
        pytest.param("a*b*c", "acb", False, id="in their order"),
        pytest.param("ab*ba", "aba", False, id="ends do not overlap"),
        pytest.param("a.c", "abc", False, id="a dot is a dot"),
        pytest.param("[a]", "a", False, id="brackets are brackets"),
    ],
)
def test_a_star_stands_for_any_text(glob, name, fits):
    assert matches(glob, name) is fits
    assert Pipelines(["nothing", glob])(name) is fits


def test_many_stars_meet_a_long_name_in_linear_time():
    name = "a" * 1_000_000
    assert not matches("*a" * 1_000 + "*b", name)


def test_what_is_remembered_of_names_is_bounded():
    pipelines = Pipelines(["docs-*"])
    assert all(pipelines(f"docs-{number}") for number in range(25_000))
    assert len(pipelines._remembered) <= 10_000


def test_a_bucket_lets_bursts_pass_and_then_the_rate():
    clock = ManualClock()
    bucket = TokenBucket(5.0, clock.monotonic)
    for _ in range(50):
        assert bucket.wait_s() == 0.0
        bucket.charge(1.0)
    assert bucket.wait_s() > 0.0
    clock.sleep(1.0)
    passed = 0
    while bucket.wait_s() == 0.0:
        bucket.charge(1.0)
        passed += 1
    assert passed == 5


def test_a_batch_beyond_the_burst_passes_and_is_paid_for():
    clock = ManualClock()
    bucket = TokenBucket(10.0, clock.monotonic)
    bucket.charge(1_100)
    assert whole_seconds(bucket.wait_s()) == 100
    clock.sleep(99.0)
    assert bucket.wait_s() > 0.0
    clock.sleep(1.1)
    assert bucket.wait_s() == 0.0


def test_a_stepping_wall_clock_changes_no_rate():
    clock = ManualClock()
    bucket = TokenBucket(1.0, clock.monotonic)
    bucket.charge(20)
    clock.step(1e6)
    assert whole_seconds(bucket.wait_s()) == 10
