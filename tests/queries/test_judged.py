"""Judged and labelled answers out of a store."""

import pytest

from ragmon.judge_reports.gathering import JudgedAnswers
from ragmon.queries.blocks import QueryFilter
from ragmon.queries.judged import gather
from ragmon.records import Label, Verdict
from tests.support.examples import NOON, pipeline, record
from tests.support.rig import Rig, sent


@pytest.fixture
def rig(tmp_path):
    made = Rig(tmp_path, pipeline(slices=("lang",)))
    yield made
    made.store.close()


def gathered(rig, **asked) -> JudgedAnswers:
    defaults = {"since": 0.0, "until": 2e9, "pipeline": "", "failing": (), "limit": 0}
    answers = JudgedAnswers()
    with rig.store.reader() as reader:
        gather(reader, QueryFilter(**(defaults | asked)), answers)
    return answers


def judged(name: str, **scores: float) -> list[Verdict]:
    return [Verdict(query_id=name, judge=judge, score=score) for judge, score in scores.items()]


def test_labelled_answers_come_with_their_scores_and_slices(rig):
    asked = record("q1", version="v2", tags={"lang": "de"}), record("q2"), record("q3")
    rig.commit(sent(*asked))
    label = Label(query_id="q1", faithful=0.0, timestamp=NOON)
    relevant = Label(query_id="q2", relevant_ids=["a"], timestamp=NOON)
    changes = [*judged("q1", grounding=0.9, llm=0.2), *judged("q2", grounding=0.5), relevant]
    rig.commit(sent(changes=[*changes, label]))
    answers = gathered(rig)
    (answer,) = answers.labelled
    assert answer.labels == {"grounding": 0.0, "llm": 0.0}
    assert answer.scores["llm"].score == 0.2
    assert answer.scores["grounding"].is_good
    assert (answer.place.version, answer.place.slices) == ("v2", (("lang", "de"),))
    (at_odds,) = answers.at_odds(9)
    assert (at_odds.query_id, at_odds.label) == ("q1", 0.0)
    assert answers.judges == ["grounding", "llm"]


def test_judges_at_odds_need_no_label(rig):
    rig.commit(sent(record("q1"), record("q2", pipeline="other")))
    rig.commit(sent(changes=[*judged("q1", grounding=0.9, local=0.1), *judged("q2", local=1.0)]))
    answers = gathered(rig)
    assert answers.labelled == []
    assert [one.query_id for one in answers.at_odds(9)] == ["q1"]
    assert answers.pairs["local", "grounding"].disagreed == 1


@pytest.mark.parametrize(
    ("asked", "names"),
    [
        pytest.param({"pipeline": "docs"}, {"q1"}, id="one pipeline"),
        pytest.param(
            {"readable": lambda name: name != "docs"}, {"q2"}, id="those that may be read"
        ),
        pytest.param({"since": NOON + 60.0}, {"q2"}, id="a time"),
        pytest.param({"until": NOON + 60.0}, {"q1"}, id="until a time"),
    ],
)
def test_only_what_was_asked_for_counts(rig, asked, names):
    first = record("q1", pipeline="docs")
    rig.commit(sent(first, record("q2", pipeline="faq", at=NOON + 90.0)))
    changes = [*judged("q1", llm=0.1, local=0.7), *judged("q2", llm=0.1, local=0.7)]
    labels = [Label(query_id=name, faithful=1.0, timestamp=NOON) for name in ("q1", "q2")]
    rig.commit(sent(changes=[*changes, *labels]))
    answers = gathered(rig, **asked)
    assert {one.query_id for one in answers.at_odds(9)} == names
    assert len(answers.labelled) == 1
