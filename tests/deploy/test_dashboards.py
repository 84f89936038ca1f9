"""Grafana dashboards: as generated, complete, by the rules of grafana/dashboard-linter."""

import json
import re
import subprocess

import pytest
import yaml

from grafana.filling import filled
from grafana.generate import rendered
from tests.support.boards import BOARDS, FOLDER, asked, panels
from tests.support.metrics import samples
from tests.support.paths import ROOT
from tests.support.promql import GROWTH, Read, reads
from tests.support.tools import program

PANELS = [
    pytest.param(panel, id=f"{name}: {panel['title']}")
    for name, board in BOARDS.items()
    for panel in panels(board)
]
EACH = pytest.mark.parametrize("board", BOARDS.values(), ids=list(BOARDS))
BY_PROMETHEUS = {"up", "scrape_duration_seconds", "scrape_samples_scraped"}
OTHER_RANGES = {
    "1d": "the cost of a day is that of a day",
    "$window": "one number over what the reader chose",
}
ABSENT = {
    "ragmon_alert(_state|s_fired_total)": "nothing fires",
    "ragmon_baseline_.+": "no baseline is promoted",
    "ragmon_(kafka|log|shards?|complete_until)_.+": "no topic of Kafka is read",
    "ragmon_judge_(tokens|cost|failures|duration|budget)_.+": "no model judges",
    "ragmon_notifications_total": "nothing is notified",
    "ragmon_probe_.+": "no golden set is probed",
    "ragmon_scheduled_runs_skipped_total": "no run is skipped",
}
"""What the golden day does not show; the end-to-end test sees it."""
UNITS = {"short", "percentunit", "s", "bytes", "reqps", "currencyUSD"}


@pytest.fixture(scope="module")
def page():
    text = (ROOT / "tests/golden/metrics.txt").read_text(encoding="utf-8")
    return list(samples(text))


def test_what_is_committed_is_what_is_generated():
    committed = {path.name: path.read_text(encoding="utf-8") for path in FOLDER.glob("*.json")}
    assert committed == rendered(), "run python -m grafana.generate"
    assert len(committed) == 5


@pytest.mark.parametrize("panel", PANELS)
def test_a_panel_says_what_it_shows_and_in_which_unit(panel):
    assert panel["title"]
    assert panel["description"].endswith(".")
    assert panel["fieldConfig"]["defaults"]["unit"] in UNITS
    assert panel["datasource"]["uid"] == "${datasource}"
    assert panel["targets"]


@pytest.mark.parametrize("panel", PANELS)
def test_every_query_is_of_the_chosen_job(panel):
    for target in panel["targets"]:
        assert target["datasource"]["uid"] == "${datasource}"
        for read in reads(filled(target["expr"], job="$job")):
            assert ("job", "=~", "$job") in read.matchers
            assert {label for label, _, _ in read.matchers} >= {"cluster", "namespace"}


@pytest.mark.parametrize("panel", PANELS)
def test_counters_are_rated_over_the_rate_interval(panel):
    for target in panel["targets"]:
        for read in reads(filled(target["expr"], __rate_interval="7m")):
            grows = re.search("_(total|bucket|sum|count)$", read.metric)
            assert bool(grows) == (read.function in GROWTH)
            if grows and read.range_s != 7 * 60:
                assert any(f"[{other}]" in target["expr"] for other in OTHER_RANGES)


@pytest.mark.parametrize("each", asked(dimension="tenant"), ids=str)
def test_every_query_finds_series(each, page):
    for read in reads(each.expression):
        absent = any(re.fullmatch(pattern, read.metric) for pattern in ABSENT)
        if read.metric not in BY_PROMETHEUS and not absent:
            assert any(found(read, each) for each in page), read


def found(read: Read, sample) -> bool:
    return read.fits(sample.name, {**sample.labels, "job": "ragmon"})


def test_what_the_golden_day_does_not_show_is_really_absent(page):
    used = {read.metric for each in asked() for read in reads(each.expression)}
    here = {each.name for each in page}
    for pattern in ABSENT:
        listed = {metric for metric in used if re.fullmatch(pattern, metric)}
        assert listed, pattern
        assert listed & here == set(), "it landed: take it off the list"


@EACH
def test_identities_are_stable_and_distinct(board):
    assert re.fullmatch("ragmon-[a-z-]+", board["uid"])
    ids = [panel["id"] for panel in panels(board)]
    ids += [row["id"] for row in board["panels"] if row["type"] == "row"]
    assert len(set(ids)) == len(ids)
    titles = [panel["title"] for panel in panels(board)]
    assert len(titles) >= 10
    refs = [[target["refId"] for target in panel["targets"]] for panel in panels(board)]
    assert all(len(set(each)) == len(each) for each in refs)
    assert not board["editable"]


@EACH
def test_no_panel_covers_another(board):
    taken = set()
    for panel in board["panels"]:
        place = panel["gridPos"]
        assert place["x"] + place["w"] <= 24
        cells = {
            (place["x"] + right, place["y"] + down)
            for right in range(place["w"])
            for down in range(place["h"])
        }
        assert not cells & taken, panel["title"]
        taken |= cells


@EACH
def test_variables_are_as_the_linter_wants_them(board):
    variables = {each["name"]: each for each in board["templating"]["list"]}
    first = board["templating"]["list"][0]
    assert (first["name"], first["type"], first["label"]) == (
        "datasource",
        "datasource",
        "Data source",
    )
    assert {"job", "pipeline", "window"} <= variables.keys()
    every = {"cluster": ".*", "namespace": ".*", "job": ".+", "instance": ".+", "pipeline": ".+"}
    for name, value in every.items():
        assert variables[name]["multi"]
        assert variables[name]["includeAll"]
        assert variables[name]["allValue"] == value
    asked_for = [each for each in variables.values() if each["type"] == "query"]
    assert len(asked_for) >= 3
    for each in asked_for:
        assert each["refresh"] == 2  # when the time range changes
        assert each["datasource"]["uid"] == "${datasource}"
        inner = re.fullmatch(r"label_values\((.+), \w+\)", each["definition"])
        assert reads(filled(inner[1]))


@EACH
def test_every_variable_used_is_declared(board):
    declared = {each["name"] for each in board["templating"]["list"]}
    used = set(re.findall(r"\$\{?([a-z]\w*)", str(board["panels"]) + str(board["links"])))
    assert used - declared == set()
    assert "job" in used


@EACH
def test_links_lead_to_paths_that_ragmon_serves(board):
    links = set(re.findall(r"\$\{ragmon\}(/[a-z]*)", str(board)))
    assert {"/", "/runbooks"} <= links
    assert links <= {"/", "/runbooks", "/pipelines", "/queries", "/incidents"}


def test_what_broke_leads_to_the_incidents_queries_slices_and_runbooks():
    links = str(BOARDS["what-broke"])
    assert "/incidents?alert=${__data.fields.Alert:percentencode}&pipeline=" in links
    for path in ("/pipelines/$", "/queries?", "/runbooks/$", "&slice=$"):
        assert f"{{ragmon}}{path}" in links or path in links


@pytest.mark.parametrize("panel", [each for each in PANELS if each.values[0]["type"] == "stat"])
def test_every_number_has_colours_that_judge_it(panel):
    steps = panel["fieldConfig"]["defaults"]["thresholds"]["steps"]
    colours = [step["color"] for step in steps]
    assert colours[0] in ("green", "red")
    assert len(set(colours)) >= 2
    values = [step["value"] for step in steps[1:]]
    assert values == sorted(values)


def test_the_difference_from_the_rest_is_right(tmp_path):
    """Version 2 fails 8 of 20 queries, the two others 2 of 80 and 3 of 20 together."""
    [panel] = [
        each for each in panels(BOARDS["what-broke"]) if each["title"] == "Difference from the rest"
    ]
    errors = next(each for each in panel["targets"] if "query_errors" in each["expr"])
    expression = filled(errors["expr"], dimension="version", window="1m")
    series = [("1", 80, 2), ("2", 20, 8), ("3", 20, 3)]
    lines = [
        f'      - {{series: \'ragmon_{name}_total{{job="r", pipeline="a", version="{version}"}}\','
        f" values: '0+{count}x9'}}"
        for version, queries, failed in series
        for name, count in (("queries", queries), ("query_errors", failed))
    ]
    expected = [
        f"{{labels: '{{pipeline=\"a\", value=\"{version}\"}}', value: {round(1000 * value)}}}"
        for version, value in (
            ("1", 2 / 80 - 11 / 40), ("2", 8 / 20 - 5 / 100), ("3", 3 / 20 - 10 / 100)
        )
    ]  # fmt: skip
    case = f"- {{expr: {json.dumps(f'round(1000 * ({expression}))')}, eval_time: 8m, exp_samples:"
    text = "\n".join(
        ["evaluation_interval: 1m", "tests:", "  - interval: 1m", "    input_series:", *lines,
         "    promql_expr_test:", f"      {case} [{', '.join(expected)}]}}"]
    )  # fmt: skip
    path = tmp_path / "test.yaml"
    path.write_text(text, encoding="utf-8")
    ran = subprocess.run(
        [program("promtool"), "test", "rules", path], capture_output=True, text=True, check=False
    )
    assert ran.returncode == 0, ran.stdout + ran.stderr


DEPLOYMENT = """
evaluation_interval: 1m
tests:
  - interval: 1m
    input_series:
      - series: 'ragmon_queries_total{{job="r", pipeline="a", version="1"}}'
        values: '0+6x60 366+1x120'
      - series: 'ragmon_queries_total{{job="r", pipeline="a", version="2"}}'
        values: '_x60 5+5x120'
    promql_expr_test:
{cases}
"""
CASE = """      - {{expr: '{expression}', eval_time: {minute}m, exp_samples: [{samples}]}}"""


def test_a_deployment_is_marked_when_the_version_changes_and_not_before(tmp_path):
    annotations = {each["name"]: each for each in BOARDS["is-it-good"]["annotations"]["list"]}
    expression = f"count by (version) ({filled(annotations['Deployments']['expr'])})"
    new = "{labels: '{version=\"2\"}', value: 1}"
    cases = [(3, ""), (30, ""), (62, new), (64, new), (75, ""), (150, "")]
    listed = "\n".join(
        CASE.format(expression=expression, minute=minute, samples=expected)
        for minute, expected in cases
    )
    path = tmp_path / "test.yaml"
    path.write_text(DEPLOYMENT.format(cases=listed), encoding="utf-8")
    assert len(yaml.safe_load(path.read_text())["tests"][0]["promql_expr_test"]) == len(cases)
    ran = subprocess.run(
        [program("promtool"), "test", "rules", path], capture_output=True, text=True, check=False
    )
    assert ran.returncode == 0, ran.stdout + ran.stderr
