"""Exact against trec_eval, and the two forms against each other."""

import math
import random
import subprocess
import sys

import ir_measures
import numpy as np
import pytest
import pytrec_eval
from hypothesis import given, settings
from hypothesis import strategies as st

from ragmon.evaluate import ranking
from ragmon.evaluate.ranking import batch

RANKED = [f"c{number}" for number in range(1, 11)]
RELEVANT = {"c1", "c3", "c5", "c8"}
GRADES = dict(zip(RANKED, [2, 0, 1, 0, 2, 0, 0, 1, 0, 0], strict=True))


def random_collection(seed, queries):
    """Judgements with gaps, negative grades and empty queries; scores full of ties."""
    rng = random.Random(seed)
    qrels, run = {}, {}
    for number in range(queries):
        pool = [f"doc-{rng.randrange(10**6)}-é" for _ in range(rng.randrange(1, 60))]
        judged = rng.sample(pool, rng.randrange(1, len(pool) + 1))
        highest = rng.choice([0, 1, 1, 3])
        qrels[f"q{number}"] = {each: rng.randint(-1, highest) for each in judged}
        found = rng.sample(pool, rng.randrange(1, len(pool) + 1))
        levels = rng.choice([2, 5, 1000])
        run[f"q{number}"] = {each: rng.randrange(levels) / levels for each in found}
    return qrels, run


TREC = {
    **{f"P_{k}": lambda j, k=k: batch.precision(j, k) for k in (1, 5, 10, 100)},
    **{f"recall_{k}": lambda j, k=k: batch.recall(j, k) for k in (1, 5, 10, 100)},
    **{f"success_{k}": lambda j, k=k: batch.hit(j, k) for k in (1, 5, 10)},
    **{f"ndcg_cut_{k}": lambda j, k=k: batch.ndcg(j, k) for k in (1, 5, 10, 100)},
    **{f"map_cut_{k}": lambda j, k=k: batch.average_precision(j, k) for k in (1, 5, 10, 100)},
    "map": batch.average_precision,
    "ndcg": batch.ndcg,
    "recip_rank": batch.reciprocal_rank,
    "Rprec": batch.r_precision,
    "bpref": batch.bpref,
    "11pt_avg": lambda j: batch.interpolated_precision(j, ranking.ELEVEN_LEVELS).mean(axis=1),
    **{
        f"iprec_at_recall_{level:.2f}": lambda j, at=at: batch.interpolated_precision(
            j, ranking.ELEVEN_LEVELS
        )[:, at]
        for at, level in enumerate(ranking.ELEVEN_LEVELS)
    },
    "set_F": lambda j: np.array(
        [batch.f_beta(_row(j, at), int(n))[0] for at, n in enumerate(j.retrieved)]
    ),
}
MEASURES = {
    "P.1,5,10,100",
    "recall.1,5,10,100",
    "success.1,5,10",
    "ndcg_cut.1,5,10,100",
    "map_cut.1,5,10,100",
    *("map", "ndcg", "recip_rank", "Rprec", "bpref", "11pt_avg", "iprec_at_recall", "set_F"),
}


def _row(judged, at):
    return ranking.JudgedRankings(*(column[at : at + 1] for column in judged))


@pytest.fixture(scope="module")
def collection():
    qrels, run = random_collection(seed=5, queries=4000)
    truth = pytrec_eval.RelevanceEvaluator(qrels, MEASURES).evaluate(run)
    return qrels, run, truth


@pytest.mark.parametrize("name", TREC)
def test_exact_against_trec_eval(collection, name):
    qrels, run, truth = collection
    judged = ranking.judge(list(run.values()), [qrels[query] for query in run])
    expected = [truth[query][name] for query in run]
    assert np.ptp(expected) > 0.2  # the data tell good from bad
    np.testing.assert_allclose(TREC[name](judged), expected, rtol=0, atol=1e-9)


def test_ties_are_broken_as_trec_eval_breaks_them():
    scores = {"a": 1.0, "c": 1.0 + 1e-9, "b": 1.0, "z": 0.5}
    assert ranking.ranked(scores) == ["c", "b", "a", "z"]
    judged = ranking.judge([{"a": 1.0 + 1e-9, "b": 1.0}], [{"a": 1}])
    assert batch.reciprocal_rank(judged).tolist() == [0.5]  # one number in single precision


@pytest.mark.filterwarnings("ignore::DeprecationWarning")  # within ir_measures
def test_unjudged_against_ir_measures(collection):
    qrels, run, _ = collection
    distinct = {
        query: {each: -rank for rank, each in enumerate(ranking.ranked(scores))}
        for query, scores in run.items()
    }
    measure = ir_measures.parse_measure("Judged@10")
    found = {m.query_id: m.value for m in ir_measures.iter_calc([measure], qrels, distinct)}
    judged = ranking.judge(list(distinct.values()), [qrels[query] for query in distinct])
    expected = [1.0 - found[query] for query in distinct]
    np.testing.assert_allclose(batch.unjudged(judged, 10), expected, rtol=0, atol=1e-9)


@pytest.mark.filterwarnings("ignore::DeprecationWarning")  # within ir_measures
def test_err_against_gdeval(collection):
    qrels, run, _ = collection
    some = list(run)[:500]
    judgements = {  # it wants numbered queries and ids without accents
        query[1:]: {each.strip("é"): max(grade, 0) for each, grade in qrels[query].items()}
        for query in some
    }
    distinct = {
        query[1:]: {
            each.strip("é"): -float(rank) for rank, each in enumerate(ranking.ranked(run[query]))
        }
        for query in some
    }
    measure = ir_measures.parse_measure("ERR@10")
    found = {m.query_id: m.value for m in ir_measures.iter_calc([measure], judgements, distinct)}
    judged = ranking.judge(list(distinct.values()), list(judgements.values()))
    measured = dict(zip(distinct, batch.err(judged, 10, highest=4.0), strict=True))
    assert len(found) > 300  # it leaves out queries without relevant documents
    for query, value in found.items():
        assert measured[query] == pytest.approx(value, abs=5.1e-6)  # printed with five digits


@pytest.mark.parametrize(
    ("measured", "expected"),
    [
        pytest.param(ranking.average_precision(RANKED, RELEVANT), 0.6917, id="AP, not 0.729"),
        pytest.param(ranking.ndcg(RANKED, GRADES, 5), 0.7808, id="NDCG@5, not 0.793"),
        pytest.param(ranking.dcg(["c1", "c5", "c3", "c8"], GRADES), 4.1925, id="ideal DCG@5"),
        pytest.param(ranking.dcg(RANKED, GRADES, 5), 3.2737, id="DCG@5"),
        pytest.param(ranking.dcg(RANKED, GRADES, 5, "exponential"), 4.6606, id="DCG@5, 2^g-1"),
        pytest.param(ranking.precision(RANKED, RELEVANT, 5), 0.6, id="P@5"),
        pytest.param(ranking.precision(RANKED[:2], RELEVANT, 5), 0.2, id="P@5 of two results"),
        pytest.param(ranking.recall(RANKED, RELEVANT, 5), 0.75, id="R@5"),
        pytest.param(ranking.f_beta(RANKED, RELEVANT, 5), 0.6667, id="F1@5"),
        pytest.param(ranking.f_beta(RANKED, RELEVANT, 5, 2.0), 0.7143, id="F2@5"),
        pytest.param(ranking.r_precision(RANKED, RELEVANT), 0.5, id="R-precision"),
        pytest.param(ranking.hit(RANKED[1:2], RELEVANT, 1), 0.0, id="a miss"),
        pytest.param(ranking.reciprocal_rank(RANKED[1:], RELEVANT), 0.5, id="RR"),
        pytest.param(ranking.err(["a"], {"a": 3}, highest=4), 7 / 16, id="ERR, one result"),
        pytest.param(
            ranking.err(["a", "b"], {"a": 1, "b": 1}, mapping="linear", highest=2),
            0.5 + 0.5 * 0.5 / 2,
            id="ERR, linear cascade",
        ),
        pytest.param(ranking.auc_pr(RANKED, RELEVANT), 0.6917, id="AUC-PR of falling precision"),
        pytest.param(
            ranking.auc_pr(RANKED[1:], RELEVANT), (0.5 + 0.5 + 3 / 7) / 4, id="AUC-PR interpolates"
        ),
        pytest.param(ranking.unjudged(["c1", "x", "c2"], GRADES, 3), 1 / 3, id="unjudged@3"),
        pytest.param(ranking.mean_reciprocal_rank([(["a"], {"a"}), ([], {"a"})]), 0.5, id="MRR"),
        pytest.param(
            ranking.mean_average_precision([(RANKED, RELEVANT), (["a"], {"a"})]), 0.8458, id="MAP"
        ),
    ],
)
def test_worked_figures(measured, expected):
    assert measured == pytest.approx(expected, abs=5e-5)


@pytest.mark.parametrize(
    ("measured", "expected"),
    [
        pytest.param(ranking.recall(["a"], set(), 3), 0.0, id="nothing relevant"),
        pytest.param(ranking.ndcg(["a"], {"a": 0}, 3), 0.0, id="nothing graded above 0"),
        pytest.param(ranking.average_precision([], {"a"}), 0.0, id="nothing retrieved"),
        pytest.param(ranking.precision(["a", "a"], {"a"}, 2), 0.5, id="a repeat earns nothing"),
        pytest.param(ranking.ndcg(["a", "a"], {"a": 1}), 1.0, id="nor does it cost gain"),
        pytest.param(ranking.recall(["a"], {"a": 0, "b": 1}, 1), 0.0, id="grades are no id list"),
        pytest.param(
            ranking.recall(["a", "b"], ["a", "a", "b"], 1), 0.5, id="relevant ids count once"
        ),
        pytest.param(ranking.bpref(["x", "b", "a"], {"a": 1, "b": 0}), 0.0, id="bpref, worst"),
        pytest.param(ranking.unjudged([], {"a": 1}, 3), 0.0, id="nothing to judge"),
        pytest.param(ranking.err(["a"], {}), 0.0, id="ERR without judgements"),
        pytest.param(ranking.ndcg(["x", "a"], {"a"}), 1 / math.log2(3), id="NDCG of plain ids"),
        pytest.param(ranking.dcg(["a"], ["a", "a"]), 1.0, id="DCG of plain ids"),
        pytest.param(ranking.err(["a"], ("a",)), 0.5, id="ERR of plain ids"),
        pytest.param(ranking.bpref(["x", "a"], {"a"}), 1.0, id="bpref of plain ids"),
        pytest.param(ranking.unjudged(["x", "a"], {"a"}, 2), 0.5, id="unjudged beside plain ids"),
        pytest.param(ranking.unjudged([0, 1], {1: 1}, 2), 0.5, id="a number is an id, also 0"),
        pytest.param(
            ranking.ndcg(np.array(["a", "b"]), np.array(["a"])), 1.0, id="arrays are sequences"
        ),
        pytest.param(
            ranking.chunk_attribution(np.array(["a", "b"]), np.array(["b"])), 0.5, id="of arrays"
        ),
        pytest.param(
            batch.ndcg(ranking.judge([["a"]], [{"a"}])).tolist(), [1.0], id="a batch of plain ids"
        ),
    ],
)
def test_edge_cases(measured, expected):
    assert measured == expected


@pytest.mark.parametrize(
    "wrong",
    [
        pytest.param(lambda: ranking.precision(["a"], {"a"}, 0), id="k of 0"),
        pytest.param(lambda: ranking.err(["a"], {"a": 3}, highest=2), id="grade off the scale"),
        pytest.param(lambda: ranking.judge([["a"]], []), id="queries without judgements"),
        pytest.param(lambda: ranking.mean_average_precision([]), id="mean of nothing"),
        pytest.param(lambda: ranking.facet_recall(["a"], {}, 3), id="no facets"),
        pytest.param(lambda: ranking.chunk_attribution([], {"a"}), id="attribution of nothing"),
        pytest.param(lambda: ranking.diminishing_k([], []), id="no k"),
        pytest.param(lambda: ranking.keyword_ndcg(["a"], "a", 0), id="texts up to 0"),
        pytest.param(lambda: ranking.ndcg(["a"], {"a": 1}, 1, "log"), id="an unknown gain"),
        pytest.param(lambda: ranking.err(["a"], {"a": 1}, mapping="log"), id="an unknown mapping"),
        pytest.param(
            lambda: batch.ndcg(ranking.judge([["a"]], [{"a": 1}]), 1, "log"), id="in a batch too"
        ),
    ],
)
def test_refuses(wrong):
    with pytest.raises(ValueError):
        wrong()


@pytest.mark.parametrize(
    "wrong",
    [
        pytest.param(lambda: ranking.precision(["a"], "abc", 1), id="one id is no set of ids"),
        pytest.param(lambda: ranking.ndcg(["a"], "abc", 1), id="nor are they grades"),
        pytest.param(lambda: ranking.judge([["a"]], ["abc"]), id="nor in a batch"),
        pytest.param(lambda: ranking.keyword_recall(["a b"], "a b"), id="nor are they keywords"),
        pytest.param(lambda: ranking.hit({"a": 0.1, "b": 0.9}, {"b"}, 1), id="scores in any order"),
        pytest.param(lambda: ranking.hit({"a", "b"}, {"b"}, 1), id="a set has no first"),
    ],
)
def test_refuses_what_is_no_ranking(wrong):
    with pytest.raises(TypeError):
        wrong()


IDS = st.sampled_from("abcdefgh")
QUERY = st.tuples(
    st.lists(IDS, max_size=10),
    st.dictionaries(IDS, st.sampled_from([-1.0, 0.0, 0.5, 1.0, 2.0, 3.0]), max_size=8),
)
PAIRS = [
    *(
        (getattr(ranking, name), getattr(batch, name), True)
        for name in ("precision", "recall", "hit", "f_beta", "ndcg", "dcg", "unjudged")
    ),
    *(
        (getattr(ranking, name), getattr(batch, name), False)
        for name in ("average_precision", "r_precision", "reciprocal_rank", "bpref")
    ),
]


@pytest.mark.parametrize(
    ("one", "many", "takes_k"), PAIRS, ids=[pair[0].__name__ for pair in PAIRS]
)
@settings(max_examples=80, deadline=None)
@given(queries=st.lists(QUERY, min_size=1, max_size=4), k=st.integers(1, 12))
def test_one_query_and_many_agree(one, many, takes_k, queries, k):
    judged = ranking.judge(*zip(*queries, strict=True))
    args = (k,) if takes_k else ()
    expected = [one(ranked, grades, *args) for ranked, grades in queries]
    np.testing.assert_allclose(many(judged, *args), expected, rtol=0, atol=1e-12)


@pytest.mark.parametrize("mapping", ["linear", "exponential"])
@settings(max_examples=80, deadline=None)
@given(queries=st.lists(QUERY, min_size=1, max_size=4), k=st.integers(1, 12))
def test_err_of_one_and_many_agree(mapping, queries, k):
    judged = ranking.judge(*zip(*queries, strict=True))
    expected = [ranking.err(*query, k, mapping=mapping, highest=3.0) for query in queries]
    found = batch.err(judged, k, mapping=mapping, highest=3.0)
    np.testing.assert_allclose(found, expected, rtol=0, atol=1e-12)


@settings(max_examples=100, deadline=None)
@given(query=QUERY)
def test_area_is_at_least_average_precision(query):
    area = ranking.auc_pr(*query)
    assert area >= ranking.average_precision(*query) - 1e-12
    points, steps = ranking.precision_recall_points(*query), 0.0
    for at, (recall, _) in enumerate(points):
        best = max(precision for _, precision in points[at:])
        steps += (recall - (points[at - 1][0] if at else 0.0)) * best
    assert area == pytest.approx(steps)


def test_curve_and_the_k_that_is_enough():
    judged = ranking.judge([RANKED, ["x", "a"]], [GRADES, {"a": 1}])
    found = ranking.curve(batch.recall, judged, [1, 2, 8, 10])
    np.testing.assert_allclose(found, [0.125, 0.625, 1.0, 1.0])
    assert ranking.diminishing_k([1, 2, 8, 10], found.tolist()) == 8
    assert ranking.diminishing_k([1, 5, 10], [0.9, 0.94, 0.95]) == 1 + 4
    assert ranking.diminishing_k([1, 5], [0.0, 0.0]) == 1


TEXTS = ["Nothing here.", "The GIL, released during I/O.", "A thread waits for the gil"]


@pytest.mark.parametrize(
    ("measured", "expected"),
    [
        pytest.param(ranking.keyword_reciprocal_rank(TEXTS, "gil"), 0.5, id="case does not matter"),
        pytest.param(ranking.keyword_reciprocal_rank(TEXTS, "gi"), 0.0, id="whole words only"),
        pytest.param(ranking.keyword_ndcg(TEXTS, "GIL", 2), 1 / (1 + math.log2(3)), id="NDCG"),
        pytest.param(ranking.keyword_ndcg(TEXTS, "rust"), 0.0, id="a keyword nowhere"),
        pytest.param(ranking.keyword_recall(TEXTS, ["thread", "asyncio"]), 0.5, id="recall"),
        pytest.param(ranking.keyword_recall(TEXTS, ["thread"], 2), 0.0, id="recall at 2"),
        pytest.param(ranking.nugget_recall(TEXTS, ["gil released during I/O"]), 1.0, id="nugget"),
        pytest.param(ranking.nugget_recall(TEXTS, ["here the gil"]), 0.0, id="not across texts"),
        pytest.param(ranking.facet_recall("ab", {"x": ["b"], "y": ["c"]}, 2), 0.5, id="facets"),
        pytest.param(ranking.facet_recall("ab", {"x": ["b"]}, 1), 0.0, id="facets at 1"),
        pytest.param(ranking.chunk_attribution(["a", "b"], {"a", "z"}), 0.5, id="attribution"),
    ],
)  # fmt: skip
def test_metrics_of_texts(measured, expected):
    assert measured == pytest.approx(expected)


def test_ranking_imports_no_daemon():
    code = (
        "import sys; from ragmon.evaluate import ranking; "
        "print(sorted(m for m in sys.modules if m.split('.')[0] in "
        "{'uvicorn', 'starlette', 'apscheduler', 'structlog', 'requests', 'pydantic', 'rich'}))"
    )
    out = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert out.stdout.strip() == "[]"
