"""Which stage is blamed: the earliest one that failed."""

import numpy as np
import pytest
from hypothesis import given, settings

from ragmon.signals import SignalOptions
from ragmon.signals.catalogue import build
from ragmon.signals.failure_mode import MODES
from tests.support.examples import chunks, query_records, record

ABCD = chunks("a", "b", "c", "d")
GOOD = {"chunks": ABCD, "relevant_ids": ["b"]}
BURIED = {"chunks": ABCD, "relevant_ids": ["d"]}
SCORES = chunks("a", "b", "c", "d", scores=(0.1, 0.2, 0.3, 0.9))


def modes(queries, **options):
    catalogue = build(SignalOptions(**options))
    columns = [catalogue.index("failure_mode", mode=mode) for mode in MODES]
    return catalogue.observe(queries)[:, columns]


@pytest.mark.parametrize(
    ("fields", "expected"),
    [
        pytest.param({}, "unknown", id="nothing was recorded"),
        pytest.param({"chunks": ABCD}, "unknown", id="nothing says whether the chunks were good"),
        pytest.param({"chunks": []}, "retrieval", id="nothing was retrieved"),
        pytest.param({"error": "E"}, "retrieval", id="it failed before anything was retrieved"),
        pytest.param({"error": "E", "chunks": []}, "retrieval", id="it failed with nothing"),
        pytest.param(
            {"chunks": ABCD, "relevant_ids": ["z"]},
            "retrieval",
            id="nothing relevant was retrieved",
        ),
        pytest.param(BURIED, "ranking", id="the relevant chunk lies below the top 3"),
        pytest.param(
            {"chunks": ABCD, "citations": ["d"]}, "ranking", id="the cited chunk lies below the top"
        ),
        pytest.param(GOOD | {"citations": []}, "generation", id="it cites none of the chunks"),
        pytest.param(
            {"chunks": ABCD, "citations": ["z"]},
            "generation",
            id="it cites only what it was not given",
        ),
        pytest.param(GOOD | {"feedback": -0.1}, "generation", id="it was disliked"),
        pytest.param(
            {"chunks": ABCD, "feedback": -1.0}, "generation", id="chunks unjudged, disliked"
        ),
        pytest.param(
            {"feedback": -1.0}, "generation", id="all that is known is that it was disliked"
        ),
        pytest.param({"chunks": ABCD, "error": "E"}, "generation", id="it failed after retrieval"),
        pytest.param(GOOD, "none", id="a relevant chunk on top"),
        pytest.param(GOOD | {"citations": ["b"], "feedback": 1.0}, "none", id="everything is good"),
        pytest.param({"feedback": 1.0}, "none", id="all that is known is that it was liked"),
        pytest.param({"chunks": ABCD, "citations": ["a"]}, "none", id="it cites the first chunk"),
        # the earliest stage is to blame
        pytest.param(
            {"chunks": [], "feedback": -1.0}, "retrieval", id="retrieval before generation"
        ),
        pytest.param(BURIED | {"feedback": -1.0}, "ranking", id="ranking before generation"),
        pytest.param(BURIED | {"error": "E"}, "ranking", id="ranking before a failed answer"),
        pytest.param(
            {"chunks": ABCD, "relevant_ids": ["z"], "citations": ["d"]},
            "retrieval",
            id="labels are believed before citations",
        ),
        pytest.param(
            {"chunks": ABCD, "relevant_ids": ["a"], "citations": ["d"]},
            "none",
            id="a label on top excuses a low citation",
        ),
    ],
)
def test_mode(fields, expected):
    row = modes([record(**fields)])[0]
    assert MODES[int(row.argmax())] == expected


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        pytest.param({}, "unknown", id="scores say nothing until a limit is set"),
        pytest.param(
            {"relevant_score": 0.8}, "ranking", id="the first that scores enough is fourth"
        ),
        pytest.param({"relevant_score": 0.8, "diagnosis_k": 4}, "none", id="the top is four deep"),
        pytest.param({"relevant_score": 0.95}, "retrieval", id="none scores enough"),
        pytest.param({"low_score": 0.95}, "retrieval", id="all scores are low"),
        pytest.param(
            {"low_score": 0.5}, "unknown", id="one score is not low, which proves nothing"
        ),
    ],
)
def test_mode_by_score(options, expected):
    row = modes([record(chunks=SCORES)], **options)[0]
    assert MODES[int(row.argmax())] == expected


@settings(deadline=None)
@given(query_records())
def test_every_query_has_exactly_one_mode(query):
    row = modes([query], relevant_score=0.5, low_score=0.2)[0]
    assert sorted(row.tolist()) == [0.0, 0.0, 0.0, 0.0, 1.0]


def test_no_queries_have_no_modes():
    assert modes([]).shape == (0, len(MODES))
    assert not np.isnan(modes([record()])).any()
