"""Grafana dashboards: as generated, complete, and every query finds what /metrics shows."""

import importlib.util
import json
import re
from pathlib import Path

import promql_parser
import pytest

from tests.support.metrics import samples

ROOT = Path(__file__).parents[1]
FOLDER = ROOT / "grafana/dashboards"
BOARDS = {path.name: json.loads(path.read_text(encoding="utf-8")) for path in FOLDER.glob("*.json")}
PANELS = [
    pytest.param(panel, id=f"{name}: {panel['title']}")
    for name, board in BOARDS.items()
    for panel in board["panels"]
]
VARIABLES = {"$job": ".+", "$pipeline": ".+", "$window": "1h", "$__rate_interval": "5m"}


def generated() -> dict[str, str]:
    spec = importlib.util.spec_from_file_location("generate", ROOT / "grafana/generate.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module.rendered()


@pytest.fixture(scope="module")
def page():
    text = (ROOT / "tests/golden/metrics.txt").read_text(encoding="utf-8")
    return list(samples(text))


def selectors(expression: str) -> list[tuple[str, list[tuple[str, str, str]]]]:
    """Each metric that an expression reads, with its matchers (label, operator, value)."""
    assert promql_parser.parse(expression)
    found = re.findall(r"(ragmon_\w+)\{([^}]*)\}", expression)
    return [(name, re.findall(r'(\w+)(=~|!~|!=|=)"([^"]*)"', inner)) for name, inner in found]


def fits(labels: dict[str, str], matchers: list[tuple[str, str, str]]) -> bool:
    for label, operator, value in matchers:
        given = labels.get(label, "")
        same = bool(re.fullmatch(value, given)) if "~" in operator else value == given
        if same == operator.startswith("!"):
            return False
    return True


def test_what_is_committed_is_what_is_generated():
    committed = {path.name: path.read_text(encoding="utf-8") for path in FOLDER.glob("*.json")}
    assert committed == generated(), "run python grafana/generate.py"
    assert committed


@pytest.mark.parametrize("panel", PANELS)
def test_a_panel_says_what_it_shows_and_in_which_unit(panel):
    assert panel["title"]
    assert panel["description"].endswith(".")
    assert panel["fieldConfig"]["defaults"]["unit"]
    assert panel["datasource"]["uid"] == "${datasource}"


@pytest.mark.parametrize("panel", PANELS)
def test_every_query_finds_series(panel, page):
    assert panel["targets"]
    for target in panel["targets"]:
        expression = target["expr"]
        for name, value in VARIABLES.items():
            expression = expression.replace(name, value)
        read = selectors(expression)
        assert read
        for metric, matchers in read:
            assert ("job", "=~", ".+") in matchers
            here = [each for each in matchers if each[0] != "job"]  # Prometheus adds the job
            assert any(each.name == metric and fits(each.labels, here) for each in page), metric
            if metric.endswith("_total"):
                assert re.search(rf"(rate|increase)\({metric}", expression)


@pytest.mark.parametrize("board", BOARDS.values(), ids=list(BOARDS))
def test_identities_are_stable_and_distinct(board):
    assert board["uid"].startswith("ragmon-")
    assert len({panel["id"] for panel in board["panels"]}) == len(board["panels"])
    refs = [[target["refId"] for target in panel["targets"]] for panel in board["panels"]]
    assert all(len(set(each)) == len(each) for each in refs)
    first = board["templating"]["list"][0]
    assert (first["name"], first["label"]) == ("datasource", "Data source")
