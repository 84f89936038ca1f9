"""Simulated weeks of retrieval, in which one document may be bad."""

from typing import NamedTuple

import numpy as np

from ragmon.documents.gathering import (
    Gathering,
    RecordPiece,
    RetrievalRecord,
    RetrievedChunk,
    Scope,
)

WEEK_S = 7 * 86_400.0
TOPICS = 40
DOCUMENTS = 25  # of each topic
K = 5


class Week(NamedTuple):
    """What was simulated: the piece, and the documents that make answers worse."""

    piece: RecordPiece
    bad: set[str]
    retrieved: int  # answers with the bad document


def week(
    seed: int,
    answers: int = 50_000,
    *,
    times: int = 300,
    rise: float = 2.0,
    rated: float = 1.0,
    likeness: float = 2.0,
) -> Week:
    """A week of answers about topics that differ in how hard they are.

    Each answer retrieves five documents of its topic; a popular one is retrieved more often, some
    are often retrieved together. One document of middling popularity is bad: of ``times`` answers
    with it, ``rise`` times as many are disliked. Nobody but it is to be named.
    """
    rng = np.random.default_rng(seed)
    topic = rng.choice(TOPICS, answers, p=_shares(TOPICS, 0.5))
    hardness = rng.uniform(0.1, 0.3, TOPICS)
    version = (np.arange(answers) > answers * 0.6).astype(int)
    popularity = np.log(_shares(DOCUMENTS, 0.7))
    position = topic * 0.0 + rng.random(answers)  # of the question within its topic
    home = rng.random((TOPICS, DOCUMENTS))  # like positions of its documents
    distance = np.abs(position[:, None] - home[topic])
    score = popularity - likeness * distance + rng.gumbel(size=(answers, DOCUMENTS))
    chosen = np.argsort(-score, axis=1)[:, :K]
    documents = topic[:, None] * DOCUMENTS + chosen
    counts = np.bincount(documents.ravel(), minlength=TOPICS * DOCUMENTS)
    bad = int(np.argmin(np.abs(counts - times))) if times else -1
    is_bad = (documents == bad).any(axis=1)
    chance = hardness[topic] * (1.0 + 0.2 * version) * np.where(is_bad, rise, 1.0)
    disliked = (rng.random(answers) < np.minimum(chance, 0.95)).astype(float)
    disliked[rng.random(answers) >= rated] = np.nan
    records = [
        RetrievalRecord([RetrievedChunk(f"doc-{number}") for number in row])
        for row in documents.tolist()
    ]
    piece = RecordPiece(
        records=records,
        sequences=np.arange(answers),
        times=np.sort(rng.random(answers)) * WEEK_S,
        groups=[("shop", "v1"), ("shop", "v2")],
        group_of=version,
        disliked=disliked,
        unfaithful=np.full(answers, np.nan),
        relevant={},
    )
    return Week(piece, {f"doc-{bad}"} if times else set(), int(is_bad.sum()))


def gathered(piece: RecordPiece, scope: Scope | None = None) -> Gathering:
    """Everything that is counted of one piece."""
    gathering = Gathering(scope or Scope())
    gathering.add(piece)
    return gathering


def _shares(size: int, steepness: float) -> np.ndarray:
    weights = 1.0 / np.arange(1, size + 1) ** steepness
    return weights / weights.sum()
