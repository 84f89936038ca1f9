import numpy as np
import pytest

from ragmon.evaluate import ranking
from ragmon.evaluate.cases import Case, CaseSet
from ragmon.evaluate.errors import DataError
from ragmon.evaluate.score.graders import GroundingGrader
from ragmon.evaluate.score.judge_usage import UsageSummary
from ragmon.evaluate.score.scoring import ScoringOptions, score
from ragmon.records import Chunk, QueryRecord

TEXTS = {"a": "The GIL is released during I/O.", "b": "Noise.", "c": "Threads wait."}


def record(case_id, retrieved, **fields):
    chunks = None if retrieved is None else [Chunk(id=each, text=TEXTS[each]) for each in retrieved]
    return QueryRecord(query_id=case_id, timestamp=1.0, chunks=chunks, **fields)


def scored(case, result, **options):
    return score(CaseSet((case,)), {case.case_id: result}, ScoringOptions(**options))


FULL = Case(
    query="when is the gil released",
    case_id="1",
    ground_truth_answer="During I/O.",
    grades={"a": 2, "c": 1, "b": 0},
    keywords=["GIL", "lock"],
    facets={"io": ["a"], "threads": ["c"]},
    nuggets=["released during I/O"],
)


@pytest.mark.parametrize(
    ("metric", "expected"),
    [
        ("precision@3", 2 / 3),
        ("recall@1", 0.0),
        ("hit@3", 1.0),
        ("reciprocal_rank", 0.5),
        ("err@3", ranking.err(["b", "a", "c"], {"a": 2, "c": 1})),
        ("bpref", 0.0),
        ("unjudged@3", 0.0),
        ("facet_recall@3", 1.0),
        ("nugget_recall@3", 1.0),
        ("keyword_recall@3", 0.5),
        ("keyword_rr@3", 0.25),
        ("exact_match", 1.0),
        ("context_utilization", 0.5),
        ("attribution", 1 / 3),
        ("zero_result", 0.0),
        ("latency_ms/total", 120.0),
        ("failure_mode/none", 1.0),
    ],
)
def test_what_is_known_of_one_case(metric, expected):
    result = record("1", "bac", answer="during IO", citations=["a"], latency_ms=120.0)
    assert scored(FULL, result, ks=(1, 3)).column(metric)[0] == pytest.approx(expected)


def test_words_below_the_cut_off_do_not_count():
    found = scored(FULL, record("1", "ba"), ks=(1,))
    for metric in ("keyword_rr@1", "keyword_recall@1", "keyword_ndcg@1", "nugget_recall@1"):
        assert found.column(metric)[0] == 0.0


@pytest.mark.parametrize(
    ("case", "result", "unknown"),
    [
        pytest.param(FULL, record("1", None, error="timeout"), "recall@5", id="the query failed"),
        pytest.param(
            Case(query="?", case_id="1"), record("1", "a"), "recall@5", id="nobody labelled it"
        ),
        pytest.param(FULL, record("1", "a"), "exact_match", id="no answer"),
        pytest.param(FULL, record("1", "a"), "context_utilization", id="citations not recorded"),
        pytest.param(
            Case(query="?", case_id="1", relevant_doc_ids=["a"]),
            record("1", "a"),
            "bpref",
            id="nothing judged irrelevant",
        ),
    ],
)
def test_unknown_is_not_zero(case, result, unknown):
    names = [each.name for each in scored(case, result).metrics]
    assert unknown not in names
    assert "error" in names


def test_citation_markers_are_not_compared_with_the_truth():
    found = scored(FULL, record("1", "ba", answer="During I/O [2]."))
    assert found.column("exact_match")[0] == found.column("rouge_l")[0] == 1.0


def test_the_monitor_and_the_evaluation_agree_on_hits():
    from ragmon.signals import SignalOptions
    from ragmon.signals.catalogue import build

    catalogue = build(SignalOptions(ks=(1, 3)))
    result = record("1", "bac", grades={"a": 1, "c": 1})
    live = catalogue.observe([result])[0]
    offline = scored(FULL, result, ks=(1, 3))
    for k in (1, 3):
        column = catalogue.index("hit", k=str(k), evidence="label")
        assert offline.column(f"hit@{k}")[0] == live[column]
    column = catalogue.index("reciprocal_rank", evidence="label")
    assert offline.column("reciprocal_rank")[0] == live[column]


class Strict:
    name = "strict"
    metrics = ("faithfulness", "completeness")
    concurrency = 1

    def usage(self):
        return UsageSummary(name=self.name, judged=1)

    def grade(self, case, result):
        return {"faithfulness": 0.25} if result.answer else {}


def test_judges_and_what_is_absent_without_them():
    run = {"1": record("1", "a", answer="x"), "2": record("2", "a")}
    cases = CaseSet((FULL, Case(query="?", case_id="2")))
    found = score(cases, run, ScoringOptions(), [Strict()])
    np.testing.assert_equal(found.column("faithfulness/strict"), [0.25, np.nan])
    assert found.absent["completeness/strict"] == "the judge gave no case a score"
    assert found.absent["answer_relevance"].startswith("the LLM judge was not asked")
    assert found.judges == (UsageSummary(name="strict", judged=1),)
    assert "completeness" not in found.absent


def test_a_truth_too_short_to_be_read_is_not_said_to_be_missing():
    case = Case(query="when is the gil released", case_id="1", ground_truth_answer="...")
    result = record("1", "a", answer="A thread that waits for I/O releases the GIL.")
    found = score(CaseSet((case,)), {"1": result}, ScoringOptions(), [GroundingGrader()])
    assert "or the judge could not read them" in found.absent["context_recall/grounding"]


def test_claims_that_the_answer_makes():
    claims = ["The GIL is released during I/O.", "The refund takes five days."]
    case = Case(query="when is the gil released", case_id="1", claims=claims)
    result = record("1", None, answer="A thread that waits for I/O releases the GIL: I/O is slow.")
    found = score(CaseSet((case,)), {"1": result}, ScoringOptions(), [GroundingGrader()])
    whole = found.column("claim_recall/grounding")[0]
    halves = []
    for claim in claims:
        alone = Case(query=case.query, case_id="1", claims=[claim])
        scores = GroundingGrader().grade(alone, result)
        halves.append(scores["claim_recall"])
    assert halves[0] > 0.5 > 0.3 > halves[1]
    assert whole == pytest.approx(sum(halves) / 2)
    assert found.absent["faithfulness/grounding"].endswith("an answer and the texts of its chunks")


def test_cases_and_results_without_each_other_are_reported():
    run = {"1": record("1", "a"), "9": record("9", "a")}
    cases = CaseSet((FULL, Case(query="?", case_id="2", relevant_doc_ids=["a"])), notes=("read",))
    found = score(cases, run, ScoringOptions())
    assert found.missing == ("2",)
    assert [case.case_id for case in found.cases] == ["1"]
    assert found.notes[:3] == (
        "read",
        "1 case has no result and is left out, such as '?'",
        "1 result matches no case, such as '9'",
    )
    assert found.notes[3].startswith("1 of 2 relevant ids were never retrieved")


def test_results_under_other_ids_are_matched_by_their_query():
    run = {
        "trace-7": record("trace-7", "b", query="When is the  GIL released"),
        "trace-8": record("trace-8", "a", query="when is the gil released"),
    }
    found = score(CaseSet((FULL,)), run, ScoringOptions(ks=(1,)))
    assert found.records[0].query_id == "trace-7"  # the first one; the other is reported
    assert found.notes[0] == "1 result matches no case, such as 'trace-8'"


@pytest.mark.parametrize(
    ("run", "message"),
    [
        pytest.param({"9": record("9", "a")}, "none of 1 cases has a result", id="other case ids"),
        pytest.param(
            {"1": QueryRecord(query_id="1", timestamp=1.0, chunks=[Chunk(id="doc#7")])},
            "no relevant id was ever retrieved.*'a'.*'doc#7'",
            id="other document ids",
        ),
    ],
)
def test_ids_that_match_nothing_are_an_error(run, message):
    with pytest.raises(DataError, match=message):
        score(CaseSet((FULL,)), run, ScoringOptions())


def test_a_metric_that_is_not_there():
    with pytest.raises(KeyError):
        scored(FULL, record("1", "a")).column("ndgc@5")
