"""Labelled production queries as cases, out of a store that a daemon wrote."""

import pytest

from ragmon.evaluate.document import describe
from ragmon.evaluate.errors import DataError
from ragmon.evaluate.report.text import agreement
from ragmon.evaluate.run.from_store import labelled
from ragmon.evaluate.score.graders import GroundingGrader, HumanGrader
from ragmon.evaluate.score.scoring import ScoringOptions, score
from ragmon.stores.sqlite.reader import SqliteReader
from ragmon.stores.sqlite.store import FILE
from tests.support.daemons import running

NOW = 1_800_000_000.0


HELD = "The interpreter releases the lock during blocking input and output operations."
TEXTS = [
    {
        "answer": answer,
        "chunks": [{"id": "a", "text": HELD}],
        "query": "when is it released",
        "timestamp": NOW - 5_000,
    }
    for answer in (HELD, "Green penguins dance nightly over seven old bridges.") * 2
]


@pytest.fixture(scope="module")
def directory(tmp_path_factory):
    from ragmon.clock import ManualClock

    data_dir = tmp_path_factory.mktemp("stored") / "data"
    chunks = [{"id": "a"}, {"id": "b"}]
    queries = [
        {"query_id": "born", "query": "with labels", "relevant_ids": ["b"], "tags": {"team": "x"}},
        {"query_id": "later", "query": "labelled later", "pipeline": "docs"},
        {"query_id": "never", "query": "never labelled"},
        *({"query_id": f"v{at}", "pipeline": "judged", **text} for at, text in enumerate(TEXTS)),
        {"query_id": "old", "relevant_ids": ["a"], "timestamp": NOW - 86_400},
    ]
    filled = [{"chunks": chunks, "timestamp": NOW - 60} | query for query in queries]
    with running(data_dir, ManualClock(NOW)) as site:
        assert site.post("/v1/queries", filled).json["accepted"] == 4 + len(TEXTS)
        label = {"query_id": "later", "grades": {"a": 2, "z": 0}}
        verdicts = [{"query_id": f"v{at}", "faithful": (1.0, 0.0)[at % 2]} for at in range(4)]
        changed = {"query_id": "v0", "labeller": "ann", "faithful": 0.5, "timestamp": NOW + 1}
        given = [label, *verdicts, changed]
        assert site.post("/v1/labels", given).json["accepted"] == 6
    return data_dir


def read(directory, since=NOW - 3600, pipeline="", whole=False):
    with SqliteReader(directory / FILE) as reader:
        found = labelled(reader, since, NOW, pipeline)
        return found if whole else found[:2]


def test_what_was_labelled_and_when(directory):
    case_set, run = read(directory)
    assert {case.case_id: case.judgements for case in case_set.cases} == {
        "born": {"b": 1.0},
        "later": {"a": 2.0, "z": 0.0},
    }
    assert case_set.cases[0].metadata == {"pipeline": "default", "version": "", "team": "x"}
    found = score(case_set, run, ScoringOptions())
    assert dict(zip(run, found.column("reciprocal_rank").tolist(), strict=True)) == {
        "born": 0.5,
        "later": 1.0,
    }


def test_only_one_pipeline(directory):
    assert list(read(directory, pipeline="docs")[1]) == ["later"]


def test_as_far_back_as_asked(directory):
    assert set(read(directory, since=0.0)[1]) == {"born", "later", "old", "v0", "v1", "v2", "v3"}


def test_verdicts_of_people_stand_beside_those_of_judges(directory):
    cases, run, faithful = read(directory, since=0.0, pipeline="judged", whole=True)
    assert faithful == {"v0": 0.5, "v1": 0.0, "v2": 1.0, "v3": 0.0}  # the newest counts
    found = describe(
        score(cases, run, ScoringOptions(), [GroundingGrader(), HumanGrader(faithful)]), "live", NOW
    )
    assert found.summary("faithfulness/human").mean == 0.375
    (agreed,) = found.agreement
    assert (agreed.judge, agreed.labels) == ("grounding", 4)
    assert agreed.balanced_accuracy.value == agreed.kappa.value == 1.0
    assert agreed.kappa.lower < 1.0
    assert "4 human labels: balanced accuracy 100 %" in agreement(agreed)


def test_without_verdicts_there_is_no_agreement(directory):
    cases, run, faithful = read(directory, pipeline="docs", whole=True)
    assert faithful == {}
    found = describe(
        score(cases, run, ScoringOptions(), [GroundingGrader(), HumanGrader(faithful)]), "live", NOW
    )
    assert found.agreement == []
    assert found.absent["faithfulness/human"] == "no answer has a human label"


def test_nothing_labelled(directory):
    with pytest.raises(DataError, match="no stored query of that time has a label"):
        read(directory, pipeline="another")
