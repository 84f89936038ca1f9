"""What a pipeline's own labels teach: threshold and score, in versions, kept over restarts."""

import numpy as np
import pytest

from ragmon.clock import SystemClock
from ragmon.daemon.judging.calibration import MOST_PIPELINES, Calibrations, Calibrator
from ragmon.daemon.judging.grounding_process import GroundingProcess
from ragmon.judges.grounding.fitting import LEAST, CalibrationExample
from ragmon.judges.worker import AnswerToRead
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
    return [
        CalibrationExample(float(s), float(t), weight, ())
        for s, t in zip(score, truth, strict=True)
    ]


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
    ("examples", "version"),
    [
        pytest.param({"people": taught(LEAST - 1)}, 0, id="too few"),
        pytest.param({"people": taught(LEAST)}, 1, id="enough of people"),
        pytest.param({"llm": taught(LEAST)}, 1, id="enough of the language model"),
        pytest.param(
            {"people": [CalibrationExample(0.5, 1.0, 1.0, ())] * 80}, 0, id="all are the same"
        ),
    ],
)
def test_a_calibration_needs_examples(examples, version):
    calibrations = Calibrations()
    calibrations.learn({"docs": examples}, V)
    kept = calibrations.kept.get("docs")
    assert (kept.version if kept else 0) == version


def rare(count, bad):
    """Nearly all are good, and the score knows."""
    spread = np.linspace(-0.05, 0.05, count)
    truth = [0.0 if number < bad else 1.0 for number in range(count)]
    return [
        CalibrationExample(0.5 + 0.3 * good + float(off), good, 1.0, ())
        for good, off in zip(truth, spread, strict=True)
    ]


def one_heavy(count):
    """One lesson speaks for nearly all."""
    return [
        each._replace(weight=1000.0 if at == 0 else 1.0) for at, each in enumerate(taught(count))
    ]


def by_chance(count):
    """The score knows nothing."""
    found, truths = taught(count), taught(count, seed=9)
    return [each._replace(truth=other.truth) for each, other in zip(found, truths, strict=True)]


def as_shipped(count):
    """The score is the very chance to be true."""
    rng = np.random.default_rng(3)
    scores = rng.random(count)
    return [CalibrationExample(float(s), float(rng.random() < s), 1.0, ()) for s in scores]


@pytest.mark.parametrize(
    ("examples", "refused"),
    [
        pytest.param(taught(100), None, id="clear examples are taken"),
        pytest.param(one_heavy(200), "few", id="one lesson weighs more than all others"),
        pytest.param(rare(100, bad=4), "one_kind", id="four bad answers"),
        pytest.param(rare(100, bad=5), None, id="five bad answers"),
        pytest.param(rare(100, bad=96), "one_kind", id="four good answers"),
        pytest.param(by_chance(100), "unrelated", id="a score that knows nothing"),
        pytest.param(
            [each._replace(truth=1.0 - each.truth) for each in taught(100)],
            "unrelated",
            id="a score upside down",
        ),
        pytest.param(as_shipped(60), "no_gain", id="the shipped reading is right"),
    ],
)
def test_examples_that_make_a_worse_judge_are_refused(examples, refused):
    calibrations = Calibrations()
    assert calibrations.learn({"docs": {"llm": examples}}, V) == ["docs"]
    assert calibrations.kept["docs"].refused == refused
    assert (calibrations("docs", verdict()) == verdict()) == (refused is not None)


@pytest.mark.parametrize("bad", [0.06, 0.3, 0.6])
def test_as_many_answers_are_doubted_as_the_teacher_calls_unfaithful(bad):
    rng = np.random.default_rng(5)
    truth = (rng.random(4_000) >= bad) * 1.0
    score = np.clip(0.5 + 0.2 * truth + rng.normal(0, 0.2, len(truth)), 0.01, 0.99)
    every = [
        CalibrationExample(float(s), float(t), 1.0, ()) for s, t in zip(score, truth, strict=True)
    ]
    calibrations = Calibrations()
    calibrations.learn({"docs": {"llm": every[:500]}}, V)
    read = [calibrations("docs", verdict(each.score)) for each in every[500:]]
    doubted = np.mean([each.score < each.doubted_below for each in read])
    assert doubted == pytest.approx(bad, abs=0.04)


def clear(count):
    """High scores are good answers, low ones bad."""
    return [
        CalibrationExample(0.2 + 0.6 * (at % 2) + 0.001 * at, float(at % 2), 1.0, ())
        for at in range(count)
    ]


@pytest.mark.parametrize(
    ("examples", "marked"),
    [
        pytest.param({"people": clear(100)}, True, id="labels of people prove it"),
        pytest.param({"people": clear(56)}, False, id="28 good answers prove nothing"),
        pytest.param({"llm": clear(100)}, False, id="a language model's verdicts do not"),
        pytest.param({"people": by_chance(200)}, False, id="nor a score that knows nothing"),
    ],
)
def test_answers_are_marked_grounded_where_labels_prove_it(examples, marked):
    calibrations = Calibrations()
    calibrations.learn({"docs": examples}, V)
    assert calibrations("docs", verdict(0.95)).marked_grounded is marked
    assert not calibrations("docs", verdict(0.3)).marked_grounded
    assert not calibrations("docs", verdict(0.95, version="artefact-2")).marked_grounded
    assert not calibrations("docs", verdict(None, reason="refusal")).marked_grounded


def test_marks_need_no_calibration_and_last_over_a_restart():
    examples = [CalibrationExample(0.7 + 0.001 * at, 1.0, 1.0, ()) for at in range(100)]
    before, after = Calibrations(), Calibrations()
    before.learn({"docs": {"people": examples}}, V)
    assert before.kept["docs"].refused == "one_kind"
    after.load(before.dump())
    marked = after("docs", verdict(0.75))
    assert (marked.marked_grounded, marked.raw, marked.version) == (True, None, V)


def test_newer_examples_withdraw_what_they_do_not_bear_out():
    calibrations = Calibrations()
    calibrations.learn({"docs": {"llm": taught(100)}}, V)
    later = [each._replace(sequence=1_000) for each in by_chance(100)]
    calibrations.learn({"docs": {"llm": later}}, V)
    assert calibrations.in_force == {}
    assert calibrations("docs", verdict()) == verdict()
    again = [each._replace(sequence=2_000) for each in taught(100)]
    calibrations.learn({"docs": {"llm": again}}, V)
    assert calibrations("docs", verdict()).version == f"{V}+2"


def test_a_full_class_goes_on_learning_from_newer_answers():
    calibrations = Calibrations()
    calibrations.learn({"docs": {"llm": taught(500)}}, V)
    few = [each._replace(sequence=at) for at, each in enumerate(taught(500), -450)]
    calibrations.learn({"docs": {"llm": few}}, V)
    assert calibrations.kept["docs"].version == 1  # 49 of them are newer
    calibrations.learn(
        {"docs": {"llm": [each._replace(sequence=each.sequence + 1) for each in few]}}, V
    )
    assert calibrations.kept["docs"].version == 2


def test_more_pipelines_than_one_turn_holds_are_learned_in_the_next():
    calibrations = Calibrations()
    many = {f"p{number}": {"llm": taught(LEAST)} for number in range(MOST_PIPELINES + 2)}
    assert len(calibrations.learn(many, V)) == MOST_PIPELINES
    assert len(calibrations.learn(many, V)) == 2


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
def test_a_new_version_needs_more_examples(later, version):
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


def test_what_was_stored_under_the_older_name_of_a_field_is_read():
    body = (
        b'{"docs":{"version":3,"teacher":"people","lessons":60,"calibration":'
        b'{"kind":"shipped","judge_version":"v","labels":60,"threshold":0.5}}}'
    )
    calibrations = Calibrations()
    calibrations.load(body)
    assert calibrations.kept["docs"].examples == 60
    assert b'"lessons":60' in calibrations.dump()


def test_without_news_nothing_is_read():
    def reader():
        raise AssertionError("there is nothing new")

    news = iter([1.0])
    calibrator = Calibrator(
        Calibrations(), reader=reader, judge=lambda: V, news=lambda: next(news), save=lambda _: None
    )
    calibrator._seen = 1.0, V
    calibrator.step()


def judged_by_hand(count):
    """Answers, and what people say of them: they are harsher than words can tell."""
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
        labels.append({"query_id": f"q{n}", "faithful": 0.0 if dances else 0.6})
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
    worker = GroundingProcess(1.0, SystemClock())
    try:
        (shipped,) = worker.judge(
            [AnswerToRead("", queries[1]["answer"], [queries[1]["chunks"][0]["text"]])]
        )
    finally:
        worker.stop()
    assert read["version"] == f"{shipped.version}+1"
    assert read["raw"] == shipped.score
    assert read["score"] < shipped.score - 0.1  # people said that such an answer is not so good
