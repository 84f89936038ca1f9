"""The simulator of causes in small: one incident each, and the right slice is named."""

import importlib
import sys

import pytest

from tests.support.paths import BENCHMARKS


@pytest.fixture(scope="module")
def causes():
    sys.path.append(str(BENCHMARKS))
    yield importlib.import_module("causes")
    sys.path.remove(str(BENCHMARKS))


@pytest.mark.parametrize(
    ("name", "size", "grave"),
    [
        pytest.param("index down", 0.8, True, id="an outage"),
        pytest.param("bad release to 25 %", 0.5, True, id="a release"),
        pytest.param("new language", 0.9, False, id="a slice that is new"),
    ],
)
def test_one_cause_is_one_incident(causes, name, size, grave):
    seen = causes.heard({name: size}, causes.RATES[0], 1)
    assert len({notice.incident_id for notice in seen.opened}) == 1
    assert seen.places[0] == causes.BY_NAME[name].place
    assert (seen.critical_s() <= 3_600.0) == grave


def test_two_causes_at_once_are_two_incidents(causes):
    faults = {"one tenant's broken filter": 0.95, "prompt without citations": 0.9}
    seen = causes.heard(faults, causes.RATES[0], 1)
    assert len({notice.incident_id for notice in seen.opened}) == 2
    assert ("tenant", "initech") in seen.places


def test_more_traffic_is_no_news(causes):
    assert not causes.heard({"traffic doubled": 2.0}, causes.RATES[0], 1).opened
