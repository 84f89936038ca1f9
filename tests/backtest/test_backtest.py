"""The detectors over logs: what is read, what would have fired, what it would have cost."""

import gzip
import json
import random
from datetime import datetime

import numpy as np
import pytest
import zstandard
from msgspec.structs import replace

from ragmon.alerts.timeline import AlertTimeline
from ragmon.backtest import costs, from_store, log_files
from ragmon.backtest.queries import Gatherer
from ragmon.backtest.run import between, episodes, run
from ragmon.cli import main
from ragmon.detectors import AlertKey, StreamKey
from ragmon.detectors.detection import Detection
from ragmon.detectors.rules import DEFAULT_RULES, build
from ragmon.errors import SettingsError
from ragmon.records import Feedback
from tests.scenarios import story
from tests.support.examples import NOON, chunks, pipeline, record
from tests.support.rig import Rig, sent

PIPELINE = pipeline(("tenant",))


def query(at: float = 0.0, **fields) -> bytes:
    return json.dumps({"timestamp": NOON + at, "pipeline": "docs", **fields}).encode()


LINES = [
    query(0, query_id="a", chunks=[], tags={"tenant": "acme"}),
    query(60, query_id="b", latency_ms=900, answer="läuft"),
    query(30, query_id="c", feedback="negative"),
    query(90, query_id="a", latency_ms=1),
    query(20),
    query(20),
]


def read(path, lines, **options):
    path.write_bytes(b"\n".join(lines))
    return log_files.read([path], PIPELINE, now=NOON + 3_600.0, **options)


# ---- reading --------------------------------------------------------------------------------


def test_queries_of_a_file_in_any_order_and_each_once(tmp_path):
    queries = read(tmp_path / "log.jsonl", LINES)
    assert (queries.observations.timestamps - NOON).tolist() == [0, 60, 30, 20, 20]
    assert (queries.duplicates, queries.refused) == (1, 0)
    at = queries.columns.index("zero_result")
    assert queries.observations.values[0, at] == 1.0
    assert np.isnan(queries.observations.values[1, at])
    assert [queries.observations.dims[i] for i in queries.observations.dim_index[:2].tolist()] == [
        ("docs", "", "acme"),
        ("docs", "", ""),
    ]


@pytest.mark.parametrize("pack", [gzip.compress, zstandard.ZstdCompressor().compress])
def test_a_compressed_file_is_the_same(tmp_path, pack):
    plain = read(tmp_path / "plain", LINES)
    packed = read(tmp_path / "packed", [pack(b"\n".join(LINES))])
    assert np.array_equal(packed.observations.values, plain.observations.values, equal_nan=True)


@pytest.mark.parametrize(
    ("bad", "field", "says"),
    [
        pytest.param(b"{oops", "", "JSON", id="no JSON"),
        pytest.param(query(latency_ms="slow"), "latency_ms", "expected", id="a wrong type"),
        pytest.param(b'{"query_id": "x"}', "timestamp", "is missing", id="no timestamp"),
        pytest.param(query(1e6), "timestamp", "in the future", id="from the future"),
        pytest.param(b'{"query_id": "\xff", "timestamp": 1}', "", "UTF-8", id="not UTF-8"),
        pytest.param(query(query_id="a\0b"), "query_id", "NUL", id="a NUL"),
        pytest.param(b"[1]", "", "expected object", id="an array"),
    ],
)
def test_a_bad_line_is_named_and_the_good_ones_go_on(tmp_path, bad, field, says):
    queries = read(tmp_path / "log.jsonl", [*LINES[:2], b"", bad, *LINES[2:]])
    assert len(queries.observations) == 5
    assert queries.refused == 1
    (refusal,) = queries.refusals
    assert (refusal.path, refusal.line) == (str(tmp_path / "log.jsonl"), 4)
    assert refusal.field.startswith(field)
    assert says in refusal.error
    assert refusal.remedy


def test_only_the_first_refusals_are_kept_and_all_are_counted(tmp_path):
    queries = read(tmp_path / "log.jsonl", [b"{"] * 25)
    assert (queries.refused, len(queries.refusals), len(queries.observations)) == (25, 10, 0)


def test_a_damaged_file_is_named(tmp_path):
    damaged = gzip.compress(b"\n".join(LINES * 50))[:-40]
    with pytest.raises(SettingsError, match=r"damaged\.gz"):
        read(tmp_path / "damaged.gz", [damaged])


def test_progress_ends_at_the_size_of_all_files(tmp_path):
    reached = []
    paths = [tmp_path / "a", tmp_path / "b"]
    for path in paths:
        path.write_bytes(b"\n".join(LINES))
    log_files.read(paths, PIPELINE, now=NOON + 3_600.0, progress=reached.append)
    assert reached[-1] == sum(path.stat().st_size for path in paths)


def test_batches_of_other_slices_are_told_apart_by_those_in_force():
    other = pipeline(("tenant", "region"))
    gatherer = Gatherer(PIPELINE.columns, ("region",))
    gatherer.add(other.observe([record(tags={"tenant": "acme", "region": "eu"})]))
    gatherer.add(PIPELINE.observe([record(tags={"tenant": "acme"})]))
    observations = gatherer.build().observations
    assert observations.dims == [("default", "", "eu"), ("default", "", "")]


def test_a_store_says_what_was_learned_later(tmp_path):
    rig = Rig(tmp_path, PIPELINE)
    late = Feedback(query_id="a", rating=-1.0, timestamp=NOON + 600.0)
    rig.commit(sent(record("a", chunks=chunks("d1")), record("b", NOON + 60.0, chunks=[])))
    rig.commit(sent(changes=[late]))
    with rig.store.reader() as reader:
        queries = from_store.read(reader, PIPELINE, 0.0, NOON + 1e6)
    at = queries.columns.index("positive_feedback")
    assert queries.observations.values[:, at].tolist() == pytest.approx([0.0, np.nan], nan_ok=True)
    assert queries.observations.values[:, queries.columns.index("zero_result")].tolist() == [
        0.0,
        1.0,
    ]


# ---- living through -------------------------------------------------------------------------


STEP = story.load(story.STORIES / "zero_results.yaml")


def finished(rules, **options):
    """A timeline for a log over the columns of a story."""
    return AlertTimeline(
        lambda: Detection(story.COLUMNS, build(rules)), finished_log=True, **options
    )


@pytest.fixture(scope="module")
def step_history():
    return run(finished(STEP.rules), story.whole(STEP))


def test_a_finished_log_in_any_order_agrees_with_live(step_history):
    log = story.whole(STEP)
    order = np.random.default_rng(5).permutation(len(log))
    shuffled = log.select(order)
    again = run(finished(STEP.rules), shuffled)
    assert len(step_history.events) >= 2
    assert list(again.events) == list(step_history.events) == story.live(STEP)


def test_a_silence_longer_than_the_minutes_that_are_kept_agrees_with_live():
    scenario = story.load(story.STORIES / "outage.yaml")
    silent = replace(scenario.incidents[0], lasts=200)
    scenario = replace(scenario, incidents=(silent,), lasts=300, history=1_600, rate=0.3)
    lived = run(finished(scenario.rules), story.whole(scenario))
    assert [each.name for each in episodes(lived.events) if each.notified] == ["RagmonNoTraffic"]
    assert list(lived.events) == story.live(scenario)


def test_episodes_have_a_beginning_an_end_and_a_reason(step_history):
    heard = [each for each in episodes(step_history.events) if each.notified]
    assert [each.name for each in heard] == ["RagmonZeroResults"]
    start = (story.START + STEP.history + 60) * 60.0
    assert 60.0 <= heard[0].opened - start <= 360.0
    assert heard[0].ended is not None
    assert heard[0].sentence.startswith("zero-result rate of docs rose to ")
    unheard = [each for each in episodes(step_history.events) if not each.notified]
    assert {each.key.stream.metric for each in unheard} >= {"hit"}


def test_only_the_time_that_was_asked_for():
    log = story.whole(STEP)
    first = float(log.timestamps.min())
    inside = between(log, first + 600.0, first + 1_200.0)
    assert 0 < len(inside) < len(log)
    assert inside.timestamps.min() >= first + 600.0
    assert inside.timestamps.max() <= first + 1_200.0
    assert between(log, 0.0, float("inf")) is log


# ---- costs ----------------------------------------------------------------------------------

HIT = StreamKey("docs", "hit")
ANOMALY = {"kind": "anomaly"}
SLO = {"kind": "slo", "metric": "hit", "objective": 0.9}
DROP = {"kind": "threshold", "metric": "hit", "drop": 0.05}


def test_rules_that_people_start_with_are_left_out_where_they_are_in_force():
    assert [costs.named(rule) for rule in costs.simpler(build(DEFAULT_RULES))] == [
        "threshold hit drop=0.05,sure=0/3600s"
    ]
    assert [costs.named(rule) for rule in costs.simpler(build([{"kind": "anomaly"}]))] == [
        "threshold slow limit=0.2/900s",
        "threshold zero_result limit=0.3/900s",
        "threshold low_score limit=0.5/900s",
        "threshold hit drop=0.05/3600s",
        "threshold hit drop=0.05,sure=0/3600s",
    ]


@pytest.mark.parametrize(
    ("rule", "alert", "expected"),
    [
        (ANOMALY, AlertKey("anomaly", HIT), True),
        (ANOMALY, AlertKey("regression", HIT), False),
        (SLO, AlertKey("slo", HIT, "0.9/warning"), True),
        (SLO, AlertKey("slo", HIT, "0.99/warning"), False),
        (DROP, AlertKey("threshold", HIT, "drop=0.05/3600s"), True),
        (DROP, AlertKey("threshold", HIT, "drop=0.05,sure=0/3600s"), False),
        (DROP, AlertKey("threshold", StreamKey("docs", "slow"), "drop=0.05/3600s"), False),
    ],
)
def test_alerts_belong_to_the_rule_that_raised_them(rule, alert, expected):
    assert costs.raised_by(build([rule])[0], alert) is expected


def test_each_rule_is_listed_with_what_it_would_have_cost(step_history):
    listed = costs.by_rule(build(STEP.rules), step_history, total=1.0)
    assert [each.rule for each in listed] == [costs.named(rule) for rule in build(STEP.rules)]
    by_name = {each.rule: each for each in listed}
    assert by_name["canary"].notified == 0
    anomaly = by_name["anomaly"]
    assert anomaly.notified == 1
    assert anomaly.per_month == pytest.approx(30.0 / step_history.days)
    assert 3_000.0 <= anomaly.firing_s <= 4_200.0
    assert anomaly.promise == "at most 1 in all"
    assert by_name["threshold zero_result limit=0.3/900s"].promise == "none: a fixed limit"


def test_rules_on_trial_neither_explain_nor_are_explained():
    extra = {"kind": "threshold", "metric": "zero_result", "limit": 0.1, "window": 300.0}
    (rule,) = build([extra])
    rules = ({"kind": "anomaly"}, extra)
    history = run(
        finished(rules, on_trial=lambda key: costs.raised_by(rule, key)), story.whole(STEP)
    )
    assert {event.alert.key.kind for event in history.events} == {"anomaly"}
    assert {event.alert.key.kind for event in history.trial_events} == {"threshold"}
    (cost,) = costs.by_rule([rule], history, on_trial=True, total=1.0)
    assert cost.notified == 1


def test_a_page_for_each_query_is_counted(step_history):
    pages = costs.per_query(story.whole(STEP), story.COLUMNS, step_history)
    (zero,) = [each for each in pages if "without documents" in each[0]]
    empty = story.whole(STEP).values[:, story.COLUMNS.index("zero_result")]
    assert zero[1] == empty.sum() > 1_000
    assert zero[2] == pytest.approx(zero[1] * 30.0 / step_history.days)
    assert not any("low best score" in each[0] for each in pages)  # nobody knows a limit


# ---- the command ----------------------------------------------------------------------------


def written(folder, name):
    """A story as a log, its lines in disorder and one of them broken."""
    lines = [*story.log(story.load(story.STORIES / f"{name}.yaml")), b"{oops"]
    random.Random(3).shuffle(lines)
    path = folder / f"{name}.jsonl.gz"
    path.write_bytes(gzip.compress(b"\n".join(lines), 1))
    return path


@pytest.mark.parametrize(
    "name",
    ["step", "latency_step", "low_traffic", "outage", "feedback_collapse", "traffic_doubling"],
)
def test_a_story_as_lines(name, tmp_path, capsys, monkeypatch):
    monkeypatch.chdir(tmp_path)
    config = tmp_path / "settings.yaml"
    config.write_text("data_dir: nowhere\n", encoding="utf-8")
    path = written(tmp_path, name)
    assert main(["backtest", "--config", str(config), "--format", "jsonl", str(path)]) == 0
    out, err = capsys.readouterr()
    scenario = story.load(story.STORIES / f"{name}.yaml")
    heard = [json.loads(each) for each in out.splitlines()]
    opened = [each for each in heard if each["event"] == "open"]
    assert [each["alert"] for each in opened] == [expected.alert for expected in scenario.expect]
    for expected in scenario.expect:
        assert expected.opens[0] <= minute(opened[0], scenario) <= expected.opens[1]
        over = [minute(each, scenario) for each in heard if each["event"] == "resolve"]
        if expected.resolves:
            assert expected.resolves[0] <= over[0] <= expected.resolves[1]
    assert f"{path}:" in err
    assert "1 line refused" in err


def minute(line, scenario):
    """Minutes after the history."""
    at = datetime.fromisoformat(line["ts"]).timestamp()
    assert (line["pipeline"], line["version"]) == ("docs", "")
    return at / 60.0 - story.START - scenario.history


def test_tables_for_a_person(tmp_path, capsys, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", "160")
    assert (
        main(
            [
                "backtest",
                str(written(tmp_path, "zero_results")),
                "--detectors.false_alarms_per_month=2",
            ]
        )
        == 0
    )
    out = capsys.readouterr().out
    assert "1 line refused" in out
    assert "What would have fired" in out
    assert "zero-result rate" in out
    assert "at most 2 in all" in out
    assert "threshold hit drop=0.05,sure=0/3600s" in out
    assert "a page for each query without documents" in out


@pytest.mark.parametrize(
    ("args", "says"),
    [
        (["--port", "1"], "--port needs a value. Write --port=VALUE"),
        (["--detectors.rules=x"], "detectors.rules"),
        (["nowhere.jsonl"], "there is no file nowhere.jsonl"),
        ([], "no queries to read: ragmon-data/ragmon.sqlite does not exist"),
        (["empty.jsonl"], "no queries to read"),
        (["--last", "soon", "one.jsonl"], "--last"),
    ],
)
def test_what_cannot_be_done_is_said(args, says, tmp_path, capsys, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "empty.jsonl").touch()
    (tmp_path / "one.jsonl").write_bytes(LINES[0])
    assert main(["backtest", *args]) == 2
    assert says in capsys.readouterr().err


def test_files_may_follow_flags(tmp_path, capsys):
    paths = [tmp_path / name for name in ("one", "two")]
    for at, path in enumerate(paths):
        path.write_bytes(query(60.0 * at, query_id=f"q{at}"))
    words = [str(paths[0]), "--port=1", "--format", "table", str(paths[1])]
    assert main(["backtest", *words]) == 0
    assert capsys.readouterr().out.startswith("2 queries")


def test_the_store_when_no_file_is_given(tmp_path, capsys, monkeypatch):
    monkeypatch.chdir(tmp_path)
    rig = Rig(tmp_path, pipeline())
    rig.commit(sent(record("a"), record("b", NOON + 60.0)))
    assert main(["backtest", f"--data_dir={tmp_path}"]) == 0
    out = capsys.readouterr().out
    assert "2 queries" in out
    assert "Nothing would have fired." in out
