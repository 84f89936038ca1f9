"""Saved baselines: versions, promotion, what they are made of, and the commands."""

import json

import numpy as np
import pytest

from ragmon.cli import main
from ragmon.cli.baseline_access import StoreBaselines
from ragmon.clock import ManualClock
from ragmon.daemon.baselines import BaselineService, Minutes, decode, describe
from ragmon.detectors import StreamKey
from ragmon.detectors.baselines import Baseline
from ragmon.detectors.detection import Detection, DetectionOptions
from ragmon.errors import SettingsError
from ragmon.exposition.baselines import BaselineMetrics
from ragmon.stores.protocols import BaselineRow
from ragmon.stores.sqlite.lease import DirectoryLease
from tests.support.examples import NOON, chunks, pipeline, record
from tests.support.rig import Rig, sent
from tests.support.stores import KINDS, opened

RUN = {
    "schema": "ragmon/evaluation/1",
    "name": "nightly",
    "created_at": NOON,
    "metrics": [{"name": "hit@5", "mean": 0.8, "samples": 2}],
    "cases": [{"case_id": "a"}, {"case_id": "b"}],
}
HOUR = int(NOON // 60)


def row(name="main", kind="traffic", at=NOON) -> BaselineRow:
    return BaselineRow(
        name=name, kind=kind, created_at=at, created_by="me", provenance="there", samples=5.0
    )


def watched(hours: int = 3) -> Detection:
    """An hour of traffic each hour: 60 queries a minute, one in ten a miss."""
    detection = Detection([], [], DetectionOptions(first_days=0, lag_s=0.0))
    rows = np.array(
        [detection.streams.row(StreamKey("docs", metric)) for metric in ("traffic", "hit")]
    )
    detection.begin(NOON)
    cells = np.array([[60.0, 0.0, 0.0], [60.0, 6.0, 6.0]])
    for minute in range(HOUR, HOUR + hours * 60):
        detection.add_cells(np.full(2, minute), rows, cells)
        list(detection.advance(minute + 1))
    return detection


def service(store, detection=None, use=lambda _: None) -> BaselineService:
    detection = detection or watched()
    return BaselineService(
        store.state.baselines(), lambda: Minutes(detection.log, detection.streams), use
    )


@pytest.fixture(params=KINDS)
def store(request, tmp_path):
    held = opened(request.param, tmp_path)
    yield held
    held.close()


# ---- the store ------------------------------------------------------------------------------


def test_each_time_another_version(store):
    held = store.state.baselines()
    assert [held.add(row(), b"one").version, held.add(row(at=NOON + 1), b"two").version] == [1, 2]
    assert held.add(row("other"), b"three").version == 1
    assert held.find("main") == (held.rows()[0], b"two")
    assert held.find("main", 1)[1] == b"one"
    assert held.find("main", 3) is None
    assert held.find("nobody") is None
    assert [(each.name, each.version) for each in held.rows()] == [
        ("main", 2), ("main", 1), ("other", 1),
    ]  # fmt: skip


def test_of_traffic_one_is_promoted_and_of_golden_runs_one_a_name(store):
    held = store.state.baselines()
    one, two, other = (held.add(row(name), b"") for name in ("main", "main", "other"))
    golden = [held.add(row(name, "golden"), b"") for name in ("g", "g", "h")]
    assert held.promoted("traffic") is None
    for each in (two, one, *golden[1:]):
        held.promote(each)
    promoted = {(each.name, each.version) for each in held.rows() if each.promoted}
    assert promoted == {("main", 1), ("g", 2), ("h", 1)}
    assert held.find("main")[0].version == 1
    held.promote(other)
    promoted = {(each.name, each.version) for each in held.rows() if each.promoted}
    assert promoted == {("other", 1), ("g", 2), ("h", 1)}
    assert held.promoted("traffic")[0].name == "other"


def test_deleted_versions_are_gone(store):
    held = store.state.baselines()
    for name in ("main", "main", "other"):
        held.add(row(name), b"")
    assert held.delete("main", 1) == 1
    assert held.delete("main", 1) == 0
    assert [(each.name, each.version) for each in held.rows()] == [("main", 2), ("other", 1)]
    assert held.delete("main") == 1
    assert held.find("main") is None


def test_they_survive_a_restart(tmp_path):
    first = opened("sqlite", tmp_path)
    saved = first.state.baselines().add(row(), b"body")
    first.state.baselines().promote(saved)
    first.close()
    again = opened("sqlite", tmp_path)
    found, body = again.state.baselines().promoted("traffic")
    assert (found.version, found.created_by, found.promoted, body) == (1, "me", True, b"body")
    again.close()


# ---- making them ----------------------------------------------------------------------------


def test_a_window_of_traffic(store):
    found = service(store).keep_window("main", 2 * 3_600.0, NOON + 3 * 3_600.0, "me")
    assert (found.kind, found.samples, found.created_by) == ("traffic", 7_200.0, "me")
    assert found.provenance == "traffic, 0.1 days"
    baseline = decode(*store.state.baselines().find("main"))
    assert baseline.source == "traffic"
    (hit,) = describe(*store.state.baselines().find("main")).levels
    assert (hit.what, hit.level, hit.n) == ("hit rate", pytest.approx(0.9), 7_200.0)


def test_a_golden_run(store):
    found = service(store).keep_run("golden", json.dumps(RUN).encode(), NOON, "me")
    assert (found.kind, found.samples) == ("golden", 2.0)
    assert found.provenance == "run nightly, 1 metrics"
    assert json.loads(store.state.baselines().find("golden")[1]) == RUN


@pytest.mark.parametrize(
    ("action", "says"),
    [
        (lambda held: held.keep_window("main", 60.0, NOON, ""), "at least 1h of traffic"),
        (lambda held: held.keep_window("a/b", 7_200.0, NOON, ""), "name: 'a/b'"),
        (lambda held: held.keep_window("", 7_200.0, NOON, ""), "name: ''"),
        (lambda held: held.keep_run("main", b"{", NOON, ""), "run: is no evaluation"),
        (lambda held: held.keep_run("main", b'{"a": "\xff"}', NOON, ""), "run: is no evaluation"),
        (
            lambda held: held.keep_run(
                "main", json.dumps(RUN | {"schema": "other"}).encode(), NOON, ""
            ),
            "must be what",
        ),
        (
            lambda held: held.keep_run("main", json.dumps(RUN | {"cases": []}).encode(), NOON, ""),
            "with cases",
        ),
    ],
)
def test_what_cannot_be_saved_is_said(store, action, says):
    with pytest.raises(ValueError, match=says):
        action(service(store))
    assert store.state.baselines().rows() == []


def test_no_traffic_makes_no_baseline(store):
    with pytest.raises(ValueError, match="no traffic"):
        service(store, Detection([], [])).keep_window("main", 7_200.0, NOON, "")


def test_detectors_are_told_what_to_compare_with(store):
    told = []
    held = service(store, use=told.append)
    for at in (0.0, 1.0):
        held.keep_window("main", 7_200.0, NOON + at, "me")
    held.keep_run("golden", json.dumps(RUN).encode(), NOON, "me")
    assert told == []
    assert held.promote("main").version == 2
    assert told[-1].name == "main v2"
    assert held.promote("main", 1).promoted
    assert told[-1].title == "baseline main"
    held.promote("golden")
    assert len(told) == 2  # a golden run is never compared with traffic
    held.delete("golden")
    assert told[-1].name == "main"
    held.delete("main", 1)
    assert told[-1] is None
    told.clear()
    held.delete("main", 2)
    assert told == []  # nothing was promoted any more: the first days stay
    with pytest.raises(KeyError):
        held.promote("main", 7)
    with pytest.raises(KeyError):
        held.delete("nobody")


def test_after_a_restart_the_promoted_one_counts_and_the_first_days_stay(store):
    told = []
    held = service(store, use=told.append)
    first_days, saved = (Baseline(name=name, source="traffic", created_at=NOON, provenance="",
                                  streams=()) for name in ("the first 3 days", "gone"))  # fmt: skip
    held.resume(None)
    held.resume(first_days)
    assert told == []
    held.resume(saved)
    assert told == [None]
    held.keep_window("main", 7_200.0, NOON, "me")
    held.promote("main")
    held.resume(first_days)
    assert [each and each.name for each in told] == [None, "main", "main"]


def test_metrics_name_it_and_its_levels(store):
    service(store).keep_window("main", 7_200.0, NOON, "me")
    baseline = decode(*store.state.baselines().find("main"))
    families = {each.name: each.samples for each in BaselineMetrics(lambda: baseline).collect()}
    (info,) = families["ragmon_baseline_info"]
    assert (info.labels, info.value) == ({"pipeline": "docs", "baseline": "main"}, 1.0)
    (ratio,) = families["ragmon_baseline_ratio"]
    assert ratio.labels == {"pipeline": "docs", "metric": "hit"}
    assert ratio.value == pytest.approx(0.9)
    assert [each.samples for each in BaselineMetrics(lambda: None).collect()] == [[], []]


def test_a_store_without_a_daemon_makes_them_of_its_queries(tmp_path):
    rig = Rig(tmp_path, pipeline())
    rig.commit(
        sent(
            *(
                record(f"q{at}", NOON + 30.0 * at, chunks=chunks("a") if at % 4 else [])
                for at in range(600)
            )
        )
    )
    held = StoreBaselines(rig.store, rig.pipeline, ManualClock(NOON + 18_000.0))
    kept = held.keep("main", window="3h")
    assert kept.samples == pytest.approx(360, abs=20)
    shown = {level.metric: level.level for level in held.shown("main", None).levels}
    assert shown["zero_result"] == pytest.approx(0.25, abs=0.02)
    assert not any(metric.startswith("latency") for metric in shown)
    with pytest.raises(SettingsError, match="is not a duration"):
        held.keep("main", window="soon")


# ---- the commands ---------------------------------------------------------------------------


@pytest.fixture
def here(tmp_path, monkeypatch):
    """A folder with a golden run, and no daemon."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "run.json").write_text(json.dumps(RUN), encoding="utf-8")
    return tmp_path


def asked(capsys, *args) -> str:
    status = main(["baseline", *args])
    out, err = capsys.readouterr()
    assert status == 0, err
    return out


def test_from_a_run_to_a_promoted_baseline(here, capsys):
    assert "No baselines are saved" in asked(capsys, "list")
    said = " ".join(asked(capsys, "set", "golden", "--run", "run.json").split())
    assert said.startswith("Saved golden version 1: run nightly, 1 metrics, 2 cases.")
    said = " ".join(asked(capsys, "set", "--run", "run.json", "--promote", "golden").split())
    assert "`gate --baseline golden` is compared with golden version 2 from now on." in said
    found = json.loads(asked(capsys, "list", "--json"))["baselines"]
    assert [(each["version"], each["promoted"]) for each in found] == [(2, True), (1, False)]
    assert "hit@5" in asked(capsys, "show", "golden", "--version", "1")
    assert "Deleted 2 versions." in asked(capsys, "delete", "golden")
    assert json.loads(asked(capsys, "list", "--json"))["baselines"] == []


@pytest.mark.parametrize(
    ("args", "says"),
    [
        (["set"], "baseline set needs a NAME"),
        (["list", "main"], "baseline list takes no NAME"),
        (["show", "main", "other"], "unexpected argument 'other'"),
        (["show", "main"], "there is no baseline 'main'"),
        (["promote", "main"], "there is no baseline 'main'"),
        (["delete", "main"], "there is no baseline 'main'"),
        (["set", "main"], "there was no traffic in that time"),
        (["set", "main", "--run", "none.json"], "cannot read none.json"),
        (["set", "main", "--run", "run.json", "--from", "7d"], "not both"),
        (["set", "main", "--url", "http://127.0.0.1:9"], "no answer from http://127.0.0.1:9"),
    ],
)
def test_what_cannot_be_done_is_said(here, capsys, args, says):
    assert main(["baseline", *args]) == (3 if "no answer" in says else 2)
    assert says in capsys.readouterr().err


def test_a_store_without_traffic_is_named(here, capsys):
    assert main(["baseline", "set", "main", "--data-dir=elsewhere"]) == 2
    said = capsys.readouterr().err
    assert "no traffic in that time. No daemon is running on elsewhere" in said
    assert "--url asks" in said


def test_what_promotes_a_baseline_can_be_copied(here, capsys):
    said = asked(capsys, "set", "golden", "--run", "run.json").splitlines()
    assert said[-1].endswith("ragmon baseline promote golden")


def test_somebody_without_a_name_may_save_one(here, capsys, monkeypatch):
    def nobody():
        raise KeyError("getpwuid(): uid not found: 10001")

    monkeypatch.setattr("getpass.getuser", nobody)
    assert "Saved golden version 1" in asked(capsys, "set", "golden", "--run", "run.json")


def test_where_a_daemon_holds_the_store_it_is_asked(here, capsys):
    lock = DirectoryLease(here / "ragmon-data")
    assert main(["baseline", "list", "--port=9"]) == 3
    assert "no answer from http://127.0.0.1:9" in capsys.readouterr().err
    lock.release()


def test_the_gate_reads_a_saved_golden_run(here, capsys):
    assert main(["evaluate", "--demo", "--no-judge", "--quiet", "--json", "demo.json"]) == 0
    asked(capsys, "set", "golden", "--run", "demo.json")
    assert main(["gate", "demo.json", "--baseline", "golden"]) == 0
    assert "gate passed" in capsys.readouterr().out
    assert main(["gate", "demo.json", "--baseline", "nobody"]) == 2
    assert "there is no baseline 'nobody'" in capsys.readouterr().err


def test_the_gate_refuses_a_baseline_of_traffic(here, capsys):
    (here / "ragmon-data").mkdir()
    rig = Rig(here / "ragmon-data", pipeline())
    rig.commit(sent(*(record(f"q{at}", NOON + 30.0 * at, chunks=[]) for at in range(300))))
    rig.store.close()
    asked(capsys, "set", "main")
    assert main(["evaluate", "--demo", "--no-judge", "--quiet", "--json", "demo.json"]) == 0
    assert main(["gate", "demo.json", "--baseline", "main"]) == 2
    assert "not of a golden run" in capsys.readouterr().err
