"""Admitting, observing and amending: pure, and the same in whatever order things arrive."""

import itertools

import msgspec
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec.structs import replace

from ragmon.pipeline import Pipeline, amend, effective
from ragmon.records import Amendments, Doubt, Feedback, Label, QueryRecord, Verdict
from ragmon.signals import SignalOptions
from ragmon.signals.catalogue import build
from tests.support.examples import chunks, pipeline, query_records, record

CATALOGUE = build(SignalOptions())


def rated(rating: float, at: float = 1.0, comment: str | None = None) -> Feedback:
    return Feedback(query_id="q", rating=rating, timestamp=at, comment=comment)


def labelled(at: float = 1.0, labeller: str = "ann", **fields) -> Label:
    return Label(query_id="q", labeller=labeller, timestamp=at, **fields)


def judged(score: float, at: float = 1.0, judge: str = "grounding") -> Verdict:
    return Verdict(query_id="q", judge=judge, score=score, timestamp=at)


def amended(*changes) -> Amendments:
    known = Amendments()
    for change in changes:
        known, _ = amend(known, change)
    return known


# ---- admitting ------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("fields", "citations"),
    [
        pytest.param({"answer": "So [1] and [3]."}, ["a", "c"], id="markers count from one"),
        pytest.param({"answer": "See [b]."}, ["b"], id="markers may be ids"),
        pytest.param({"answer": "No markers."}, None, id="nobody knows"),
        pytest.param({"answer": "So [1].", "citations": []}, [], id="what was logged is believed"),
        pytest.param({"answer": "So [1].", "chunks": None}, None, id="chunks not recorded"),
        pytest.param({"answer": "So [1].", "chunks": []}, None, id="nothing retrieved"),
        pytest.param({"answer": None}, None, id="no answer"),
    ],
)
def test_citations_are_read_from_the_answer(fields, citations):
    query = record(**({"chunks": chunks("a", "b", "c")} | fields))
    assert Pipeline(CATALOGUE).admit(query).citations == citations


@pytest.mark.parametrize(
    ("privacy", "answer", "cited"),
    [
        pytest.param("keep", "Write to ann@example.org [1]", ["a"], id="keep"),
        pytest.param("redact", "Write to [email] [1]", ["a"], id="redact"),
        pytest.param("drop", None, ["a"], id="drop, after the citations were read"),
    ],
)
def test_privacy(privacy, answer, cited):
    query = record(answer="Write to ann@example.org [1]", chunks=chunks("a"))
    admitted = Pipeline(CATALOGUE, privacy=privacy).admit(query)
    assert (admitted.answer, admitted.citations) == (answer, cited)


@pytest.mark.parametrize(
    ("privacy", "comment"),
    [("keep", "ask ann@example.org"), ("redact", "ask [email]"), ("drop", None)],
)
def test_privacy_of_feedback(privacy, comment):
    change = rated(1.0, comment="ask ann@example.org")
    admitted = Pipeline(CATALOGUE, privacy=privacy).admit_change(change)
    assert admitted == rated(1.0, comment=comment)


def test_privacy_of_labels():
    change = labelled(faithful=1.0, labeller="ann@example.org")
    admitted = Pipeline(CATALOGUE, privacy="redact").admit_change(change)
    assert admitted.labeller.startswith("[email]")


@pytest.mark.parametrize("change", [labelled(faithful=1.0), judged(0.5)])
def test_labels_and_verdicts_hold_nothing_private(change):
    assert Pipeline(CATALOGUE, privacy="drop").admit_change(change) is change


@pytest.mark.parametrize(
    ("privacy", "said"),
    [
        pytest.param("keep", "ask ann@example.org", id="kept"),
        pytest.param("redact", "ask [email]", id="redacted"),
        pytest.param("drop", "", id="dropped"),
    ],
)
def test_what_a_judge_quotes_is_as_private_as_the_answer(privacy, said):
    quoted = "ask ann@example.org"
    verdict = replace(judged(0.5), rationale=quoted, doubts=(Doubt(0, 3, "claim", quoted, 0.0),))
    admitted = Pipeline(CATALOGUE, privacy=privacy).admit_change(verdict)
    assert admitted.rationale == said
    assert [each.detail for each in admitted.doubts] == [said]
    assert admitted.score == 0.5


# ---- observing ------------------------------------------------------------------------------


@settings(deadline=None)
@given(st.lists(query_records(), max_size=10))
def test_observations_stand_in_the_order_of_the_records(queries):
    observed_by = pipeline(slices=("tenant", "region"))
    found = observed_by.observe(queries)
    assert len(found) == len(queries)
    assert found.values.shape == (len(queries), len(observed_by.columns))
    assert found.timestamps.tolist() == [query.timestamp for query in queries]
    for at, query in enumerate(queries):
        tags = query.tags or {}
        dims = (query.pipeline, query.version, tags.get("tenant", ""), tags.get("region", ""))
        assert found.dims[found.dim_index[at]] == dims
    assert len(set(found.dims)) == len(found.dims)


def test_observing_what_is_known_is_observing_the_effective_record():
    observed_by = pipeline()
    query = record(chunks=chunks("a", "b"))
    known = amended(rated(-1.0), labelled(relevant_ids=["b"]))
    found = observed_by.observe([query], [known]).values[0]
    at = observed_by.catalogue.index
    assert found[at("negative_feedback")] == 1.0
    assert found[at("hit", k="1", evidence="label")] == 0.0
    assert found[at("hit", k="3", evidence="label")] == 1.0
    np.testing.assert_array_equal(
        observed_by.observe([query], [Amendments()]).values, observed_by.observe([query]).values
    )


# ---- amending -------------------------------------------------------------------------------

moments = st.integers(0, 5).map(float)
changes = st.one_of(
    st.builds(rated, st.sampled_from([-1.0, 0.0, 1.0]), moments),
    st.builds(
        labelled,
        moments,
        st.sampled_from(["ann", "bob"]),
        relevant_ids=st.none() | st.lists(st.sampled_from("ab"), max_size=1),
        faithful=st.sampled_from([0.0, 1.0]),
    ),
    st.builds(labelled, moments, relevant_ids=st.just(["a"])),
    st.builds(judged, st.sampled_from([0.0, 1.0]), moments, st.sampled_from(["grounding", "llm"])),
)


def author(change) -> tuple[str, ...]:
    """Whose newest word counts, and on what."""
    if isinstance(change, Label):
        told = (change.relevant_ids is not None, change.faithful is not None)
        return "Label", change.labeller, str(told)
    return type(change).__name__, getattr(change, "judge", "")


def by_author(known: Amendments) -> dict[tuple[str, ...], object]:
    said = [*known.labels, *known.verdicts]
    if known.feedback is not None:
        said.append(known.feedback)
    found = {author(each): each for each in said}
    assert len(found) == len(said)
    return found


@settings(deadline=None)
@given(st.lists(changes, max_size=6, unique_by=lambda each: (author(each), each.timestamp)))
def test_the_newest_word_of_each_counts_in_whatever_order_they_come(said):
    expected = {}
    for change in sorted(said, key=lambda each: each.timestamp):
        expected[author(change)] = change
    for order in itertools.islice(itertools.permutations(said), 24):
        assert by_author(amended(*order)) == expected


@settings(deadline=None)
@given(st.lists(changes, min_size=1, max_size=6))
def test_saying_it_again_says_nothing_new(said):
    known = amended(*said)
    for change in said:
        again, new = amend(known, change)
        assert not new
        assert again is known


@pytest.mark.parametrize(
    ("before", "change", "is_new"),
    [
        pytest.param((), rated(1.0), True, id="a first rating"),
        pytest.param((rated(1.0, 5.0),), rated(-1.0, 6.0), True, id="a change of mind"),
        pytest.param((rated(1.0, 5.0),), rated(-1.0, 4.0), False, id="older than what is known"),
        pytest.param((rated(1.0, 5.0),), rated(1.0, 9.0), False, id="a retry, stamped later"),
        pytest.param((rated(1.0, 5.0),), rated(1.0, 5.0, "thanks"), False, id="as old"),
        pytest.param((rated(1.0, 5.0),), rated(1.0, 6.0, "thanks"), True, id="a comment more"),
        pytest.param((rated(1.0),), labelled(faithful=1.0), True, id="a label beside a rating"),
        pytest.param(
            (labelled(faithful=1.0),), labelled(labeller="bob", faithful=1.0), True, id="two people"
        ),
        pytest.param(
            (labelled(faithful=1.0),), labelled(9.0, faithful=1.0), False, id="the same label"
        ),
        pytest.param((judged(0.5),), judged(0.5, judge="llm"), True, id="another judge"),
        pytest.param((judged(0.5),), judged(0.6, 2.0), True, id="a judge judges again"),
    ],
)
def test_what_is_new(before, change, is_new):
    assert amend(amended(*before), change)[1] == is_new


def test_a_retry_is_remembered_as_the_newest():
    """A dislike from between the two does not win because it came last."""
    liked_again = amended(rated(1.0, 5.0), rated(1.0, 9.0), rated(-1.0, 7.0))
    assert liked_again.feedback.rating == 1.0


@pytest.mark.parametrize(
    ("said", "feedback", "relevant_ids", "grades"),
    [
        pytest.param((), 0.5, ["logged"], None, id="nothing: what was logged"),
        pytest.param((rated(-1.0),), -1.0, ["logged"], None, id="a rating replaces the logged one"),
        pytest.param((labelled(relevant_ids=["b"]),), 0.5, ["b"], None, id="a label"),
        pytest.param((labelled(grades={"b": 1.0}),), 0.5, None, {"b": 1.0}, id="grades"),
        pytest.param((labelled(faithful=0.0),), 0.5, ["logged"], None, id="no ground truth in it"),
        pytest.param(
            (labelled(2.0, relevant_ids=["b"]), labelled(1.0, "bob", relevant_ids=["c"])),
            0.5, ["b"], None, id="the newest labeller",
        ),
        pytest.param(
            (labelled(1.0, relevant_ids=["b"]), labelled(2.0, "bob", relevant_ids=[])),
            0.5, [], None, id="who finds nothing relevant is heard too",
        ),
        pytest.param(
            (labelled(1.0, relevant_ids=["b"]), labelled(2.0, "bob", faithful=1.0)),
            0.5, ["b"], None, id="who says nothing of relevance changes none",
        ),
        pytest.param(
            (labelled(1.0, relevant_ids=["b"]), labelled(2.0, faithful=1.0)),
            0.5, ["b"], None, id="nor does a later label of the same person",
        ),
    ],
)  # fmt: skip
def test_effective(said, feedback, relevant_ids, grades):
    query = record(feedback=0.5, relevant_ids=["logged"])
    found = effective(query, amended(*said))
    assert (found.feedback, found.relevant_ids, found.grades) == (feedback, relevant_ids, grades)


def test_without_amendments_the_record_is_itself():
    query = record()
    assert effective(query, Amendments()) is query


@settings(deadline=None)
@given(st.lists(changes, max_size=6))
def test_amendments_are_stored_as_they_are(said):
    known = amended(*said)
    assert msgspec.msgpack.decode(msgspec.msgpack.encode(known), type=Amendments) == known
    assert isinstance(effective(record(), known), QueryRecord)


def test_labels_and_withdrawals_say_the_same_in_any_order():
    changes = [
        Label(query_id="q", faithful=1.0, timestamp=1.0),
        Label(query_id="q", relevant_ids=["a"], timestamp=2.0),
        Label(query_id="q", withdrawn=True, timestamp=2.0),
        Label(query_id="q", faithful=0.0, timestamp=3.0),
        Label(query_id="q", labeller="bob", faithful=1.0, timestamp=1.0),
    ]
    outcomes = set()
    for order in itertools.permutations(changes):
        known = Amendments()
        for change in order:
            known, _ = amend(known, change)
        outcomes.add(frozenset((one.labeller, one.faithful, one.withdrawn) for one in known.labels))
    assert outcomes == {
        frozenset({("human", None, True), ("human", 0.0, False), ("bob", 1.0, False)})
    }
