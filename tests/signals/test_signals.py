"""Every signal against examples worked by hand."""

from types import SimpleNamespace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ragmon.records import Latency, QueryRecord
from ragmon.signals import SignalOptions
from ragmon.signals.catalogue import build, by_record
from tests.support.examples import chunks, query_records, record

OPTIONS = SignalOptions(ks=(1, 3), slow_ms=1_000.0, relevant_score=0.5, low_score=0.2)
CATALOGUE = build(OPTIONS)

ABC = chunks("a", "b", "c")
SCORED = chunks("a", "b", "c", scores=(0.1, 0.7, 0.3))


def observed(query: QueryRecord, name: str, **labels: str) -> float | None:
    value = CATALOGUE.observe([query])[0, CATALOGUE.index(name, **labels)]
    return None if np.isnan(value) else float(value)


def cases(*rows: tuple[str, dict[str, object], float | None]) -> pytest.MarkDecorator:
    return pytest.mark.parametrize(
        ("fields", "expected"),
        [pytest.param(fields, expected, id=sentence) for sentence, fields, expected in rows],
    )


@cases(
    ("chunks not recorded", {}, None),
    ("retrieved nothing", {"chunks": []}, 1.0),
    ("retrieved something", {"chunks": ABC}, 0.0),
    ("failed before it knew", {"error": "E"}, None),
    ("failed with nothing retrieved", {"error": "E", "chunks": []}, 1.0),
)
def test_zero_result(fields, expected):
    assert observed(record(**fields), "zero_result") == expected


@cases(
    ("chunks not recorded", {}, None),
    ("nothing", {"chunks": []}, 0.0),
    ("three", {"chunks": ABC}, 3.0),
    ("a chunk retrieved twice counts twice", {"chunks": chunks("a", "a")}, 2.0),
)
def test_retrieved_chunks(fields, expected):
    assert observed(record(**fields), "retrieved_chunks") == expected


@cases(
    ("neither recorded", {}, None),
    ("chunks not recorded", {"citations": ["a"]}, None),
    ("citations not recorded", {"chunks": ABC}, None),
    ("nothing retrieved, so no share of it", {"chunks": [], "citations": ["a"]}, None),
    ("cites nothing", {"chunks": ABC, "citations": []}, 0.0),
    ("cites one of three", {"chunks": ABC, "citations": ["b"]}, 1 / 3),
    ("cites one of three twice", {"chunks": ABC, "citations": ["b", "b"]}, 1 / 3),
    ("cites only what was not retrieved", {"chunks": ABC, "citations": ["z"]}, 0.0),
    ("a chunk retrieved twice is cited twice", {"chunks": chunks("a", "a"), "citations": ["a"]}, 1),
)
def test_attribution(fields, expected):
    assert observed(record(**fields), "attribution") == expected


@cases(
    ("citations not recorded", {"chunks": ABC}, None),
    ("chunks not recorded", {"citations": []}, None),
    ("was given nothing to cite", {"chunks": [], "citations": []}, None),
    ("cites nothing", {"chunks": ABC, "citations": []}, 1.0),
    ("cites only what was not retrieved", {"chunks": ABC, "citations": ["z"]}, 1.0),
    ("cites one", {"chunks": ABC, "citations": ["c", "z"]}, 0.0),
)
def test_uncited(fields, expected):
    assert observed(record(**fields), "uncited") == expected


@cases(
    ("citations not recorded", {"chunks": ABC}, None),
    ("chunks not recorded", {"citations": ["z"]}, None),
    ("cites nothing", {"chunks": ABC, "citations": []}, 0.0),
    ("cites what it was given", {"chunks": ABC, "citations": ["a", "a"]}, 0.0),
    ("cites something else too", {"chunks": ABC, "citations": ["a", "z"]}, 1.0),
    ("cites although nothing was retrieved", {"chunks": [], "citations": ["z"]}, 1.0),
)
def test_cited_unretrieved(fields, expected):
    assert observed(record(**fields), "cited_unretrieved") == expected


@cases(
    ("citations not recorded", {"chunks": ABC}, None),
    ("cites nothing", {"chunks": ABC, "citations": []}, 0.0),
    ("cites two, and one never retrieved", {"chunks": ABC, "citations": ["c", "z", "a"]}, 2.0),
)
def test_cited_chunks(fields, expected):
    assert observed(record(**fields), "cited_chunks") == expected


@cases(
    ("no scores", {"chunks": ABC}, None),
    ("nothing retrieved", {"chunks": []}, None),
    ("the best need not come first", {"chunks": SCORED}, 0.7),
    ("some chunks without a score", {"chunks": chunks("a", "b", scores=(None, 0.2))}, 0.2),
    ("scores below zero", {"chunks": chunks("a", "b", scores=(-7.5, -3.0))}, -3.0),
)
def test_top_score(fields, expected):
    assert observed(record(**fields), "top_score") == expected


@cases(
    ("no scores", {"chunks": ABC}, None),
    ("one is good enough", {"chunks": SCORED}, 0.0),
    ("the limit itself is not low", {"chunks": chunks("a", scores=(0.2,))}, 0.0),
    ("below zero", {"chunks": chunks("a", scores=(-1.0,))}, 1.0),
)
def test_low_score(fields, expected):
    assert observed(record(**fields), "low_score") == expected


def test_low_score_is_off_until_set():
    catalogue = build(SignalOptions())
    values = catalogue.observe([record(chunks=SCORED)])
    assert np.isnan(values[0, catalogue.index("low_score")])


@cases(
    ("answered", {}, 0.0),
    ("failed", {"error": "TimeoutError"}, 1.0),
    ("an empty error is an error", {"error": ""}, 1.0),
)
def test_error(fields, expected):
    assert observed(record(**fields), "error") == expected


@cases(
    ("not timed", {}, None),
    ("only a stage was timed", {"latency_ms": Latency(retrieval=9e9)}, None),
    ("the limit itself is not slow", {"latency_ms": Latency(total=1_000.0)}, 0.0),
    ("above", {"latency_ms": Latency(total=1_000.5)}, 1.0),
)
def test_slow(fields, expected):
    assert observed(record(**fields), "slow") == expected


@pytest.mark.parametrize(
    ("rating", "positive", "negative", "coverage"),
    [
        pytest.param(None, None, None, 0.0, id="unrated"),
        pytest.param(1.0, 1.0, 0.0, 1.0, id="liked"),
        pytest.param(0.01, 1.0, 0.0, 1.0, id="liked a little"),
        pytest.param(0.0, 0.0, 0.0, 1.0, id="neither"),
        pytest.param(-0.5, 0.0, 1.0, 1.0, id="disliked"),
    ],
)
def test_feedback(rating, positive, negative, coverage):
    query = record(feedback=rating)
    assert observed(query, "positive_feedback") == positive
    assert observed(query, "negative_feedback") == negative
    assert observed(query, "feedback_coverage") == coverage


@pytest.mark.parametrize("stage", ["total", "retrieval", "generation"])
def test_latency(stage):
    assert observed(record(), "latency_ms", stage=stage) is None
    assert observed(record(latency_ms=Latency()), "latency_ms", stage=stage) is None
    timed = Latency(**{stage: 12.5})
    assert observed(record(latency_ms=timed), "latency_ms", stage=stage) == 12.5


# (hit@1, hit@3, reciprocal rank) by one evidence
UNKNOWN = (None, None, None)
MISS = (0.0, 0.0, 0.0)
FIRST = (1.0, 1.0, 1.0)
SECOND = (0.0, 1.0, 0.5)
FOURTH = (0.0, 0.0, 0.25)
FOUR = chunks("a", "b", "c", "d")


def ranked(query: QueryRecord, evidence: str) -> tuple[float | None, ...]:
    hits = (observed(query, "hit", k=k, evidence=evidence) for k in ("1", "3"))
    return (*hits, observed(query, "reciprocal_rank", evidence=evidence))


@cases(
    ("no ground truth", {"chunks": FOUR}, UNKNOWN),
    ("chunks not recorded", {"relevant_ids": ["a"]}, UNKNOWN),
    ("the best chunk", {"chunks": FOUR, "relevant_ids": ["a", "d"]}, FIRST),
    ("the second", {"chunks": FOUR, "relevant_ids": ["b"]}, SECOND),
    ("the fourth", {"chunks": FOUR, "relevant_ids": ["d"]}, FOURTH),
    ("not retrieved", {"chunks": FOUR, "relevant_ids": ["z"]}, MISS),
    ("nothing retrieved", {"chunks": [], "relevant_ids": ["z"]}, MISS),
    ("nothing is relevant", {"chunks": FOUR, "relevant_ids": []}, UNKNOWN),
    ("grades", {"chunks": FOUR, "grades": {"b": 2.0, "c": 3.0}}, SECOND),
    ("a grade of zero is not relevant", {"chunks": FOUR, "grades": {"a": 0.0, "b": 1.0}}, SECOND),
    ("nor is a negative one", {"chunks": FOUR, "grades": {"a": -1.0, "d": 1.0}}, FOURTH),
    ("all grades zero", {"chunks": FOUR, "grades": {"a": 0.0}}, UNKNOWN),
    ("no grades at all", {"chunks": FOUR, "grades": {}}, UNKNOWN),
    ("both", {"chunks": FOUR, "relevant_ids": ["d"], "grades": {"b": 1.0}}, SECOND),
    ("retrieved twice", {"chunks": chunks("x", "a", "a"), "relevant_ids": ["a"]}, SECOND),
)
def test_rank_by_label(fields, expected):
    assert ranked(record(**fields), "label") == expected


@cases(
    ("citations not recorded", {"chunks": FOUR}, UNKNOWN),
    ("chunks not recorded", {"citations": ["a"]}, UNKNOWN),
    ("cites nothing", {"chunks": FOUR, "citations": []}, MISS),
    ("cites only what was not retrieved", {"chunks": FOUR, "citations": ["z"]}, MISS),
    ("nothing retrieved", {"chunks": [], "citations": ["a"]}, MISS),
    ("the order of citations does not matter", {"chunks": FOUR, "citations": ["d", "b"]}, SECOND),
    ("the fourth", {"chunks": FOUR, "citations": ["d", "d"]}, FOURTH),
)
def test_rank_by_citation(fields, expected):
    assert ranked(record(**fields), "citation") == expected


@cases(
    ("no scores", {"chunks": FOUR}, UNKNOWN),
    ("chunks not recorded", {}, UNKNOWN),
    ("nothing retrieved", {"chunks": []}, MISS),
    ("none scores enough", {"chunks": chunks("a", "b", scores=(0.4, -2.0))}, MISS),
    ("the limit itself is enough", {"chunks": chunks("a", scores=(0.5,))}, FIRST),
    ("by place, not by score", {"chunks": SCORED}, SECOND),
    (
        "a chunk without a score is passed over",
        {"chunks": chunks("a", "b", scores=(None, 1))},
        SECOND,
    ),
)
def test_rank_by_score(fields, expected):
    assert ranked(record(**fields), "score") == expected


def test_scores_say_nothing_until_a_limit_is_set():
    catalogue = build(SignalOptions(ks=(1,)))
    values = catalogue.observe([record(chunks=SCORED), record(chunks=[])])
    assert np.isnan(values[:, catalogue.index("hit", k="1", evidence="score")]).all()
    assert np.isnan(values[:, catalogue.index("reciprocal_rank", evidence="score")]).all()


@settings(deadline=None)
@given(st.lists(query_records(), min_size=1, max_size=20))
def test_a_batch_is_observed_as_its_records_are(queries):
    together = CATALOGUE.observe(queries)
    apart = np.concatenate([CATALOGUE.observe([query]) for query in queries])
    np.testing.assert_array_equal(together, apart)


def test_an_empty_batch_has_no_rows():
    assert CATALOGUE.observe([]).shape == (0, len(CATALOGUE.columns))


def test_an_unknown_column_is_named():
    with pytest.raises(KeyError, match="hit"):
        CATALOGUE.index("hit", k="7", evidence="label")


@pytest.mark.parametrize("value", ["yes", (1.0, 0.0)], ids=["a text", "two values"])
def test_a_signal_that_returns_something_else_is_named(value):
    broken = SimpleNamespace(NAME="other_language", observe=lambda *_: value)
    observer = by_record(broken, OPTIONS)
    with pytest.raises(ValueError, match="signal other_language: observe must return a number"):
        observer([record()], None, None)
