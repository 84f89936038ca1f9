"""Findings of each kind, from answers in which they were planted."""

import msgspec
import numpy as np
import pytest

from ragmon.documents.findings import ReportBounds, report_of
from ragmon.documents.gathering import Gathering, RetrievalRecord, RetrievedChunk, Scope
from tests.documents.test_gathering import NOON, piece, retrieval

HOUR_S = 3_600.0
BOUNDS = ReportBounds(NOON, NOON + 100 * HOUR_S, 50)


def report(*pieces, scope=None, bounds=BOUNDS):
    gathering = Gathering(scope or Scope())
    for one in pieces:
        gathering.add(one)
    return report_of(gathering, bounds)


def named(made, kind):
    return [finding.id for finding in made.findings if finding.kind == kind]


def hourly(records, **more):
    return piece(*records, at=[NOON + 36.0 * number for number in range(len(records))], **more)


def some(rng, *more, documents=20):
    return retrieval(*(f"d{at}" for at in rng.choice(documents, 3, replace=False)), *more)


def test_what_vanished_and_what_appeared_is_named_with_its_moment():
    rng = np.random.default_rng(1)
    records = [
        some(rng, *["old"] * (at < 500 and at % 10 == 0), *["new"] * (at >= 600 and at % 10 == 0))
        for at in range(1_000)
    ]
    made = report(hourly(records))
    assert named(made, "vanished") == ["old"]
    assert named(made, "appeared") == ["new"]
    gone = next(finding for finding in made.findings if finding.kind == "vanished")
    assert gone.at == NOON + 36.0 * 490
    assert "Retrieved 50 times until 2023-11-15 16:54 UTC, and no more since" in gone.text


def test_a_rare_document_has_not_vanished():
    rng = np.random.default_rng(2)
    records = [some(rng, *["rare"] * (at in (10, 200, 300, 420, 500))) for at in range(1_000)]
    made = report(hourly(records))
    assert named(made, "vanished") == named(made, "appeared") == []


@pytest.mark.parametrize(
    ("scope", "expected"),
    [
        pytest.param(Scope(version="v2"), ["old"], id="the release that dropped it"),
        pytest.param(Scope(version="v1"), [], id="another release"),
        pytest.param(Scope(since=NOON + 36.0 * 500), ["old"], id="the moment"),
        pytest.param(Scope(since=NOON + 36.0 * 200), [], id="a moment before"),
    ],
)
def test_a_change_can_be_asked_about(scope, expected):
    rng = np.random.default_rng(3)
    records = [some(rng, *["old"] * (at < 500 and at % 10 == 0)) for at in range(1_000)]
    made = report(
        hourly(
            records,
            groups=(("docs", "v1"), ("docs", "v2")),
            group_of=[int(at >= 500) for at in range(1_000)],
        ),
        scope=scope,
    )
    assert named(made, "vanished") == expected
    for finding in made.findings:
        if scope.version and finding.kind == "vanished":
            assert finding.text == "Retrieved 50 times by other versions, and never by v2."


def test_a_hub_is_retrieved_for_everything_and_cited_for_nothing():
    rng = np.random.default_rng(4)
    records = []
    for _ in range(400):
        one = some(rng, "footer", documents=60)
        cited = [chunk.id for chunk in one.chunks[:3] if rng.random() < 0.5]
        records.append(RetrievalRecord([one.chunks[3], *one.chunks[:3]], citations=cited))
    made = report(hourly(records))
    assert named(made, "hub") == ["footer"]
    hub = next(row for row in made.rows if row.id == "footer")
    assert (hub.retrieved, hub.mean_rank, hub.cited.estimate) == (400, 1.0, 0.0)


def test_a_popular_document_that_is_cited_is_no_hub():
    rng = np.random.default_rng(5)
    records = [
        RetrievalRecord([RetrievedChunk("faq"), *some(rng).chunks], citations=["faq"])
        for _ in range(300)
    ]
    assert named(report(hourly(records)), "hub") == []


def test_a_loser_is_relevant_and_ranked_below_k():
    rng = np.random.default_rng(6)
    records, relevant = [], {}
    for at in range(400):
        one = some(rng)
        if at % 10 == 0:
            records.append(RetrievalRecord([*one.chunks, RetrievedChunk("lost")]))
            relevant[at] = {"lost"}
        elif at % 10 == 1:
            records.append(one)
            relevant[at] = {"lost"}
        else:
            records.append(one)
            relevant[at] = {one.chunks[0].id}
    made = report(hourly(records, relevant=relevant))
    assert named(made, "loser") == ["lost"]
    row = made.rows[0]
    assert (row.id, row.relevant, row.below_k, row.missed) == ("lost", 80, 40, 40)


def test_a_stale_twin_is_named_with_the_one_that_took_over():
    words = " ".join(f"word{at}" for at in range(60))
    chunks = {
        "kb-1": RetrievedChunk("kb-1", "kb.md", packed(words)),
        "kb-2": RetrievedChunk("kb-2", "kb.md", packed(words + " since Monday")),
    }
    records = [
        RetrievalRecord([*chunks.values()], citations=["kb-1" if at < 20 else "kb-2"])
        for at in range(40)
    ]
    at = [NOON + 6 * HOUR_S * number for number in range(40)]
    made = report(piece(*records, at=at))
    (finding,) = [one for one in made.findings if one.kind == "stale_twin"]
    assert (finding.id, finding.others) == ("kb-1", ["kb-2"])


def packed(text):
    return msgspec.Raw(msgspec.msgpack.encode(text))


def test_a_blamed_document_comes_with_its_figures():
    rng = np.random.default_rng(7)
    records = [some(rng) for _ in range(2_000)]
    bad = [
        float(rng.random() < (0.6 if any(c.id == "d4" for c in one.chunks) else 0.2))
        for one in records
    ]
    made = report(hourly(records, disliked=bad))
    assert named(made, "disliked") == ["d4"]
    row = made.rows[0]
    assert row.id == "d4"
    assert row.findings == ["disliked"]
    assert row.disliked.rate.estimate == pytest.approx(0.6, abs=0.06)
    assert row.disliked.like_rate == pytest.approx(0.2, abs=0.06)
    assert row.disliked.lower < 0.4 < row.disliked.upper
    assert row.unfaithful is None
    assert made.rated == 2_000
    assert made.compared_share == 1.0
    assert "are disliked" in made.findings[0].text


def test_nothing_was_recorded():
    made = report(piece(RetrievalRecord(None)))
    assert (made.queries, made.queries_with_chunks, made.rows, made.findings) == (1, 0, [], [])
    assert report().documents == 0


def test_ids_are_listed_where_they_are_asked_for():
    bounds = BOUNDS._replace(with_ids=True, rows=1)
    made = report(piece(retrieval("a", "b"), relevant={0: {"z"}}), bounds=bounds)
    assert made.retrieved_ids == ["a", "b"]  # z was relevant, and never retrieved
    assert len(made.rows) == 1
