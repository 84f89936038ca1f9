"""`ragmon dashboards`: the shipped files, without panels that nothing would answer."""

import json
import re

import pytest

from grafana.filling import filled
from ragmon.cli import main
from ragmon.cli.dashboards import sources
from ragmon.cli.flags import overrides
from ragmon.config import load
from ragmon.daemon.build import build_pipeline
from ragmon.daemon.metric_choice import metric_choice, shown_windows
from ragmon.exposition.figures import gauges
from ragmon.exposition.left_out import reads
from tests.end_to_end.test_dashboards import of_rules
from tests.support.boards import FOLDER, asked, panels
from tests.support.promql import Read
from tests.support.promql import reads as parsed


def written(folder, *arguments: str) -> dict[str, dict]:
    assert main(["dashboards", "--to", str(folder), *arguments]) == 0
    return {path.name: json.loads(path.read_text(encoding="utf-8")) for path in folder.iterdir()}


def titled(board: dict, title: str) -> dict:
    [panel] = [panel for panel in panels(board) if panel["title"] == title]
    return panel


def variable(board: dict, name: str) -> dict:
    [found] = [each for each in board["templating"]["list"] if each["name"] == name]
    return found


def test_without_settings_they_are_as_shipped(tmp_path):
    boards = written(tmp_path / "new/folder")
    shipped = {path.name: json.loads(path.read_text(encoding="utf-8")) for path in FOLDER.iterdir()}
    assert boards == shipped
    assert len(boards) == len(sources()) == 5


def test_metrics_are_read_as_the_parser_of_prometheus_does():
    every = [*asked(), *of_rules()]
    assert len(every) > 250
    for each in every:
        expected = {read.metric for read in parsed(each.expression) if "ragmon_" in read.metric}
        assert set(reads(each.expression).names) == expected, each


def test_a_panel_without_metrics_becomes_a_note_in_its_place(tmp_path, capsys):
    boards = written(tmp_path, "--metrics.exclude", "ragmon_reciprocal_rank")
    note = titled(boards["is-it-good.json"], "Reciprocal rank")
    before = titled(json.loads(sources()["is-it-good"]), "Reciprocal rank")
    assert note["type"] == "text"
    assert (note["id"], note["gridPos"]) == (before["id"], before["gridPos"])
    reason = "metrics.exclude leaves out ragmon_reciprocal_rank"
    assert note["options"]["content"].startswith(f"**Not shown:** {reason}.")
    assert f"Reciprocal rank: left out, {reason}\n" in capsys.readouterr().out


def test_without_intervals_the_lines_stay_and_the_panel_says_so(tmp_path):
    boards = written(tmp_path, "--metrics.intervals=none")
    panel = titled(boards["is-it-good.json"], "Errors")
    assert [each["legendFormat"] for each in panel["targets"]] == [
        "{{pipeline}}",
        "{{pipeline}} $compare ago",
        "{{pipeline}} baseline",
    ]
    assert (
        "In part not shown: metrics.intervals leaves out ragmon_error_ratio_lower, "
        in (panel["description"])
    )
    table = titled(boards["is-it-good.json"], "Now, and $compare ago")
    assert [each["refId"] for each in table["targets"]] == ["A", "D", "E", "F"]


def test_a_table_with_one_query_left_keeps_its_heading(tmp_path):
    boards = written(tmp_path, "--metrics.include=ragmon_baseline_*,ragmon_build_info")
    table = titled(boards["is-it-good.json"], "Now, and $compare ago")
    assert [each["refId"] for each in table["targets"]] == ["D"]
    renamed = table["transformations"][1]["options"]["renameByName"]
    assert renamed["Value"] == "Baseline"


@pytest.mark.parametrize(
    ("name", "arguments", "expected"),
    [
        ("window", ["--metrics.exclude=ragmon_window_queries"], "5m,1h,24h,7d"),
        (
            "window",
            ["--metrics.exclude=ragmon_window_queries", "--metrics.windows=1h,24h"],
            "1h,24h",
        ),
        ("slice_window", ["--metrics.slice_windows=[]"], "5m,1h,24h,7d"),
        ("dimension", ["--metrics.exclude=ragmon_slice_*", "--slices=tenant"], "version,tenant"),
        (
            "k",
            [
                "--metrics.exclude=ragmon_query_hits_total,ragmon_slice_hit_ratio",
                "--retrieval.ks=[2,8]",
            ],
            "2,8",
        ),
    ],
)
def test_a_variable_without_its_metric_takes_its_values_from_the_settings(
    tmp_path, name, arguments, expected
):
    boards = written(tmp_path, *arguments)
    [found] = [
        variable(board, name)
        for file, board in boards.items()
        if file in ("how-fast.json", "is-it-good.json", "what-broke.json")
        and any(each["name"] == name for each in board["templating"]["list"])
    ][:1]
    assert (found["type"], found["query"]) == ("custom", expected)
    assert [each["value"] for each in found["options"] if each["selected"]] == [
        expected.split(",")[0]
    ]


def test_pipelines_and_jobs_are_found_by_another_metric(tmp_path):
    boards = written(tmp_path, "--metrics.exclude=ragmon_build_info,ragmon_window_*")
    for board in boards.values():
        assert variable(board, "job")["definition"] == "label_values(up, job)"
        assert variable(board, "pipeline")["definition"].startswith(
            "label_values(ragmon_queries_total"
        )


def test_marks_without_metrics_are_left_out(tmp_path):
    boards = written(tmp_path, "--metrics.exclude=ragmon_alert_state")
    marks = [each["name"] for each in boards["is-it-good.json"]["annotations"]["list"]]
    assert marks == ["Deployments"]


CHOICES = {
    "no slice gauges": ["--metrics.slice_windows=[]"],
    "counters only": ["--metrics.include=ragmon_*_total,ragmon_query_duration_seconds"],
    "few": ["--metrics.include=ragmon_queries_total"],
    "nothing of ragmon": ["--metrics.exclude=ragmon_*"],
    "no intervals": ["--metrics.intervals=none"],
    "few gauges of slices": ["--metrics.slice_metrics=[window_queries, error_ratio]"],
}


def shown(*arguments: str) -> set[str]:
    """Names of all families that a daemon with these settings can show."""
    settings = load(None, overrides(arguments), {}).settings
    choice, columns = metric_choice(settings), build_pipeline(settings).catalogue.columns
    has_slices = bool(shown_windows(settings).of_slices)
    kinds = {"ragmon_": False, "ragmon_slice_": True if has_slices else None}  # whether of slices
    all_gauges = [(start, each) for each in gauges(columns) for start in kinds]
    of_windows = {
        f"{start}{each.name}"
        for start, each in all_gauges
        if kinds[start] is not None
        and choice.shows_gauge(each.metric, each.suffix, of_slice=bool(kinds[start]))
    }
    gone = {f"{start}{each.name}" for start, each in all_gauges} - of_windows
    read = {stem(read.metric) for each in asked() for read in parsed(each.expression)}
    return of_windows | {name for name in read - gone if choice.shows(name)}


@pytest.mark.parametrize("arguments", CHOICES.values(), ids=CHOICES)
def test_what_is_asked_for_is_shown_and_nothing_else_is_left_out(tmp_path, arguments):
    names = shown(*arguments)
    before = {each.expression for each in asked()}
    after = set()
    for board in written(tmp_path, *arguments).values():
        for panel in panels(board):
            assert panel.get("targets") or panel["options"]["content"]
            after |= {filled(target["expr"]) for target in panel.get("targets", ())}
    assert after <= before
    for expression in before:
        is_answered = all(answered(read, names) for read in parsed(expression))
        assert (expression in after) == is_answered, expression


def answered(read: Read, names: set[str]) -> bool:
    if not read.metric:
        (pattern,) = (value for label, _, value in read.matchers if label == "__name__")
        return any(re.fullmatch(pattern, name) for name in names)
    return "ragmon_" not in read.metric or bool({read.metric, stem(read.metric)} & names)


def stem(metric: str) -> str:
    return re.sub("_(bucket|sum|count)$", "", metric)
