"""What a pipeline's own labels teach: threshold and score, in versions, kept over restarts."""

import numpy as np
import pytest

from ragmon.daemon.calibrating import LEAST, Calibrations, Calibrator, Lesson
from ragmon.daemon.grounding import Worker
from ragmon.judges.worker import Case
from ragmon.records import Verdict
from tests.support.daemons import running
from tests.support.metrics import values
from tests.support.wait import eventually

V = "artefact-1"


def taught(count, *, shift=0.3, seed=0, weight=1.0):
    """Lessons of a pipeline whose scores lie too high by a shift."""
    rng = np.random.default_rng(seed)
    truth = (rng.random(count) < 0.5) * 1.0
    score = np.clip(0.25 + 0.35 * truth + shift + rng.normal(0, 0.1, count), 0.01, 0.99)
    return [Lesson(float(s), float(t), weight, ()) for s, t in zip(score, truth, strict=True)]


def verdict(score=0.6, version=V, **fields):
    return Verdict(query_id="q", judge="grounding", score=score, version=version, **fields)


def test_a_score_is_read_as_the_labels_say():
    calibrations = Calibrations()
    assert calibrations.learn({"docs": {"people": taught(100)}}, V) == ["docs"]
    read = calibrations("docs", verdict(0.6))
    assert (read.raw, read.version) == (0.6, f"{V}+1")
    assert read.score < 0.35  # 0.6 is what a bad answer gets here
    assert read.doubted_below == calibrations.kept["docs"].calibration.threshold
    assert calibrations("other", verdict(0.6)) == verdict(0.6)


@pytest.mark.parametrize(
    ("lessons", "version"),
    [
        pytest.param({"people": taught(LEAST - 1)}, 0, id="too few"),
        pytest.param({"people": taught(LEAST)}, 1, id="enough of people"),
        pytest.param({"llm": taught(LEAST)}, 1, id="enough of the language model"),
        pytest.param({"people": [Lesson(0.5, 1.0, 1.0, ())] * 80}, 0, id="all are the same"),
    ],
)
def test_a_calibration_needs_lessons(lessons, version):
    calibrations = Calibrations()
    calibrations.learn({"docs": lessons}, V)
    kept = calibrations.kept.get("docs")
    assert (kept.version if kept else 0) == version


def test_people_overrule_the_language_model():
    calibrations = Calibrations()
    both = {"people": taught(60), "llm": taught(400, shift=0.0)}
    calibrations.learn({"docs": both}, V)
    assert calibrations.kept["docs"].teacher == "people"


@pytest.mark.parametrize(
    ("later", "version"),
    [
        pytest.param({"llm": taught(64)}, 1, id="few more"),
        pytest.param({"llm": taught(80)}, 2, id="a quarter more"),
        pytest.param({"people": taught(50), "llm": taught(60)}, 2, id="people at last"),
    ],
)
def test_a_new_version_needs_more_lessons(later, version):
    calibrations = Calibrations()
    calibrations.learn({"docs": {"llm": taught(60)}}, V)
    calibrations.learn({"docs": later}, V)
    assert calibrations.kept["docs"].version == version


def test_scores_of_another_artefact_are_left_alone_until_it_is_calibrated():
    calibrations = Calibrations()
    calibrations.learn({"docs": {"people": taught(60)}}, V)
    assert calibrations("docs", verdict(version="artefact-2")).raw is None
    calibrations.learn({"docs": {"people": taught(60)}}, "artefact-2")
    assert calibrations("docs", verdict(version="artefact-2")).version == "artefact-2+2"


def test_a_restart_reads_scores_as_before():
    before, after = Calibrations(), Calibrations()
    before.learn({"docs": {"people": taught(300, seed=4)}}, V)
    after.load(before.dump())
    assert after("docs", verdict(0.7)) == before("docs", verdict(0.7))
    after.load(None)
    assert after("docs", verdict(0.7)) == verdict(0.7)


def test_without_news_nothing_is_read():
    def reader():
        raise AssertionError("there is nothing new")

    news = iter([1.0])
    calibrator = Calibrator(
        Calibrations(), reader=reader, judge=V, news=lambda: next(news), save=lambda _: None
    )
    calibrator._seen = 1.0
    calibrator.step()


def judged_by_hand(count):
    """Answers, and what people say of them: the penguins are true here."""
    good, bad = "Penguins dance over the old bridge", "The fee of {n} euros is due on Monday"
    queries, labels = [], []
    for n in range(count):
        dances = n % 2 == 0
        text = f"The fee of {n} euros is due on Monday, says the office of the town."
        queries.append(
            {
                "query_id": f"q{n}",
                "answer": (good if dances else bad.format(n=n)) + ".",
                "chunks": [{"id": "a", "text": text}],
            }
        )
        labels.append({"query_id": f"q{n}", "faithful": 0.7 if dances else 0.2})
    return queries, labels


def test_labels_calibrate_a_running_daemon(tmp_path):
    given = {
        "judge__grounding__enabled": True,
        "judge__grounding__max_cpu": 1.0,
        "judge__calibrate_every": 0.2,
    }
    queries, labels = judged_by_hand(60)
    with running(tmp_path / "data", **given) as site:
        site.post("/v1/queries", queries)
        eventually(lambda: site.total("ragmon_judged_total", judge="grounding") == 60, "read")
        site.post("/v1/labels", labels)
        eventually(lambda: site.total("ragmon_grounding_calibration_version") == 1, "calibrated")
        assert values(site.page(), "ragmon_grounding_calibration_labels", pipeline="default") == [
            60
        ]
    with running(tmp_path / "data", **given) as site:
        assert site.total("ragmon_grounding_calibration_version", pipeline="default") == 1
        site.post("/v1/queries", [queries[1] | {"query_id": "later"}])
        eventually(lambda: site.get("/v1/queries/later").json["verdicts"], "read")
        (read,) = site.get("/v1/queries/later").json["verdicts"]
    worker = Worker(1.0)
    try:
        (shipped,) = worker.judge(
            [Case("", queries[1]["answer"], [queries[1]["chunks"][0]["text"]])]
        )
    finally:
        worker.stop()
    assert read["version"] == f"{shipped.version}+1"
    assert read["raw"] == shipped.score
    assert read["score"] < shipped.score - 0.1  # people said that such an answer is bad
