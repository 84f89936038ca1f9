"""Counts of one pass over records, against a plain count of the same."""

from collections import Counter

import numpy as np
import pytest

from ragmon.documents.compared import ComparedAnswers
from ragmon.documents.gathering import (
    Gathering,
    RecordPiece,
    RetrievalRecord,
    RetrievedChunk,
    Scope,
)

NOON = 1_700_049_600.0


def retrieval(*ids, source=None, **fields):
    return RetrievalRecord([RetrievedChunk(name, source) for name in ids], **fields)


def piece(*records, relevant=None, disliked=None, at=None, groups=(("docs", "v1"),), group_of=None):
    size = len(records)
    return RecordPiece(
        records=records,
        sequences=np.arange(size),
        times=np.array(at if at is not None else [NOON + number for number in range(size)]),
        groups=groups,
        group_of=np.array(group_of or [0] * size, dtype=np.intp),
        disliked=np.array(disliked or [np.nan] * size),
        unfaithful=np.full(size, np.nan),
        relevant=relevant or {},
    )


def counts(gathering, name):
    """A column by the id of the document."""
    column = gathering.tallies.column(name)
    return {name: int(column[at]) for at, (_, name) in enumerate(gathering.names) if column[at]}


def retrieved(gathering):
    return {
        name: int(gathering.tallies.ranks[at].sum()) for at, (_, name) in enumerate(gathering.names)
    }


def test_ranks_citations_and_times_are_counted():
    gathering = Gathering(Scope(k=1))
    gathering.add(
        piece(
            retrieval("a", "b", citations=["b"]),
            retrieval("b", "c"),
            retrieval("a", citations=[]),
            RetrievalRecord(None),
            retrieval(),
        )
    )
    gathering.missed()
    assert retrieved(gathering) == {"a": 2, "b": 2, "c": 1}
    assert counts(gathering, "rank_sum") == {"a": 2, "b": 3, "c": 2}
    assert counts(gathering, "with_citations") == {"a": 2, "b": 1}
    assert counts(gathering, "cited") == {"b": 1}
    assert counts(gathering, "below_k") == {"b": 1}
    assert gathering.tallies.first.tolist() == [NOON, NOON, NOON + 1]
    assert gathering.tallies.last.tolist() == [NOON + 2, NOON + 1, NOON + 1]
    assert gathering.queries == 5
    assert gathering.pipelines["docs"].with_chunks == 4  # one did not record its chunks


def test_pieces_add_up_to_the_whole():
    rng = np.random.default_rng(1)
    records = [
        retrieval(*(f"d{at}" for at in rng.choice(40, rng.integers(0, 8), replace=True)))
        for _ in range(300)
    ]
    whole, parts = Gathering(Scope()), Gathering(Scope())
    whole.add(piece(*records))
    for begin in range(0, 300, 70):
        parts.add(piece(*records[begin : begin + 70]))
    expected = Counter(name for record in records for name in {c.id for c in record.chunks})
    assert retrieved(whole) == retrieved(parts) == dict(expected)


def test_a_chunk_that_comes_twice_counts_once_at_its_best_rank():
    gathering = Gathering(Scope())
    gathering.add(piece(retrieval("a", "b", "a", citations=["a"])))
    assert retrieved(gathering) == {"a": 1, "b": 1}
    assert counts(gathering, "rank_sum") == {"a": 1, "b": 2}


def test_by_source_an_answer_counts_once_however_many_of_its_chunks_were_retrieved():
    gathering = Gathering(Scope(by_source=True))
    chunks = [
        RetrievedChunk("a1", "a.md"),
        RetrievedChunk("b1", "b.md"),
        RetrievedChunk("a2", "a.md"),
        RetrievedChunk("x"),
    ]
    gathering.add(piece(RetrievalRecord(chunks, citations=["a2"]), relevant={0: {"a1", "b9"}}))
    gathering.add(piece(RetrievalRecord([chunks[1]]), relevant={0: {"a1"}}))
    gathering.missed()
    assert retrieved(gathering) == {"a.md": 1, "b.md": 2}
    assert counts(gathering, "cited") == {"a.md": 1}
    assert counts(gathering, "missed") == {"a.md": 1}  # b9 is of no source that is known
    assert gathering.without_source == 1


def test_labels_tell_what_was_relevant_and_not_retrieved():
    gathering = Gathering(Scope(k=1))
    gathering.add(piece(retrieval("a", "b"), retrieval(), relevant={0: {"b", "z"}, 1: {"z"}}))
    gathering.missed()
    assert counts(gathering, "relevant") == {"b": 1, "z": 2}
    assert counts(gathering, "below_k") == {"b": 1}
    assert counts(gathering, "missed") == {"z": 2}
    assert retrieved(gathering)["z"] == 0


def test_pipelines_do_not_share_documents():
    gathering = Gathering(Scope())
    groups = (("docs", "v1"), ("faq", ""))
    gathering.add(piece(retrieval("a"), retrieval("a"), groups=groups, group_of=[0, 1]))
    assert gathering.names == [("docs", "a"), ("faq", "a")]


def test_documents_beyond_those_that_fit_are_left_out_and_counted():
    gathering = Gathering(Scope(), most_documents=2)
    gathering.add(piece(retrieval("a", "b", "c"), retrieval("c", "a")))
    assert retrieved(gathering) == {"a": 2, "b": 1}
    assert gathering.left_out == 2


@pytest.mark.parametrize(
    ("scope", "expected"),
    [
        pytest.param(Scope(since=NOON + 1), {"b": 1}, id="since a moment"),
        pytest.param(Scope(version="v2"), {"b": 1}, id="with a release"),
        pytest.param(Scope(), {}, id="no change is asked about"),
    ],
)
def test_what_is_retrieved_after_a_change_is_counted_apart(scope, expected):
    gathering = Gathering(scope)
    groups = (("docs", "v1"), ("docs", "v2"))
    gathering.add(piece(retrieval("a"), retrieval("b"), groups=groups, group_of=[0, 1]))
    assert counts(gathering, "after") == expected


def test_of_too_many_rated_answers_an_even_sample_is_kept():
    answers = ComparedAnswers(most=1_000)
    for first in range(0, 4_000, 500):
        answers.add(
            np.repeat(np.arange(500), 2),
            np.tile([0, 1], 500),
            np.arange(first, first + 500),
            np.zeros(500, dtype=np.intp),
            np.stack([np.arange(500) % 2.0, np.full(500, np.nan)], axis=1),
        )
    table = answers.with_outcome("disliked")
    assert answers.known == 4_000
    assert answers.counts == {"disliked": 4_000, "unfaithful": 0}
    assert answers.size_bytes < 4 * 1_000 + 18 * 500 + 1
    assert answers.share in (0.125, 0.25)
    assert len(table) == pytest.approx(4_000 * answers.share, rel=0.15)
    assert table.bad.mean() == pytest.approx(0.5, abs=0.1)
    assert table.documents.tolist() == [0, 1] * len(table)
    assert len(answers.with_outcome("unfaithful")) == 0
