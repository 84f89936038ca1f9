"""Conditions of silences cost little, whatever they say and however many there are."""

import pytest

from ragmon.alerts import silences
from ragmon.alerts.silences import MOST_EXPRESSIONS, MOST_VALUE, Matcher
from tests.support.daemons import running

PATH = "/v1/silences"


def asked(*values: str, regex: bool = True) -> dict:
    matchers = [{"name": "pipeline", "value": value, "regex": regex} for value in values]
    return {"matchers": matchers, "duration": "1h"}


@pytest.mark.parametrize(
    ("value", "problem"),
    [
        pytest.param("(a|b|c|d)?" * 200, "longer than 1000 characters", id="long"),
        pytest.param(r"\pL?" * 200, "pattern too large", id="short, and large once compiled"),
        pytest.param("(((a{100}){100}){100}){9}", "repetition size", id="nested repeats"),
    ],
)
def test_an_expression_that_is_costly_to_compile_is_refused(value, problem):
    matcher = Matcher("pipeline", value, regex=True)
    assert problem in matcher.problem()
    assert not matcher.matches({"pipeline": "a"})  # nor where an older release kept it


def test_what_people_write_is_taken():
    assert Matcher("pipeline", "|".join(f"team-{at}" for at in range(100)), regex=True).matches(
        {"pipeline": "team-77"}
    )
    assert Matcher("pipeline", r"(?i)[\pL\pN]+-.*", regex=True).matches({"pipeline": "Köln-1"})


def test_every_expression_that_is_kept_stays_compiled():
    assert silences._compiled.cache_parameters()["maxsize"] >= MOST_EXPRESSIONS


@pytest.mark.parametrize("regex", [True, False])
def test_a_long_value_is_refused_and_counted(daemon, regex):
    counted = daemon.total("ragmon_rejected_total", source="api", reason="bad_parameter")
    assert daemon.post(PATH, asked("a" * MOST_VALUE, regex=regex)).status == 201
    refused = daemon.post(PATH, asked("a" * (MOST_VALUE + 1), regex=regex))
    assert refused.status == 400
    assert "has 1001 characters, the most is 1000" in refused.json["detail"]
    total = daemon.total("ragmon_rejected_total", source="api", reason="bad_parameter")
    assert total == counted + 1


def test_there_are_only_so_many_expressions(tmp_path):
    with running(tmp_path / "data") as site:
        for start in range(0, MOST_EXPRESSIONS, 50):
            values = [f"(a+)+{at}$" for at in range(start, start + 50)]
            assert site.post(PATH, asked(*values)).status == 201
        refused = site.post(PATH, asked("one more"))
        assert refused.status == 400
        assert "1001 regular expressions, the most is 1000" in refused.json["detail"]
        assert site.post(PATH, asked("by name", regex=False)).status == 201
