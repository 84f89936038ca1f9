"""Rankings and judgements as arrays, a block of queries at a time."""

from collections.abc import Collection, Mapping, Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]
Counts = NDArray[np.int64]
Scores = Mapping[str, float]
Relevant = Collection[str] | Mapping[str, float]
_NAN = float("nan")


class JudgedRankings(NamedTuple):
    """n queries with the grade of the result at each rank."""

    grades: Floats  # (n, depth): NaN where unjudged; -1 behind the last result and at repeats
    ideal: Floats  # (n, width): all positive grades, highest first, then 0
    relevant: Counts  # (n,): documents graded above 0
    irrelevant: Counts  # (n,): documents graded 0
    retrieved: Counts  # (n,)


def judge(rankings: Sequence[Sequence[str] | Scores], grades: Sequence[Relevant]) -> JudgedRankings:
    """Look every result up in the judgements of its query.

    Args:
        rankings: of each query the ids, best first, or their scores (ordered as by ``ranked``).
        grades: of each query the grades by id; what is missing is unjudged. Of relevant ids
            alone every grade is 1.

    Raises:
        ValueError: the two differ in length.
    """
    judgements = [as_grades(known) for known in grades]
    graded = [
        _by_score(ranking, known) if isinstance(ranking, Mapping) else _in_order(ranking, known)
        for ranking, known in zip(rankings, judgements, strict=True)
    ]
    positive = [
        sorted([grade for grade in known.values() if grade > 0], reverse=True)
        for known in judgements
    ]
    irrelevant = [sum([grade == 0 for grade in known.values()]) for known in judgements]
    return JudgedRankings(
        _matrix(graded, -1.0),
        _matrix(positive, 0.0),
        np.array([len(row) for row in positive], dtype=np.int64),
        np.array(irrelevant, dtype=np.int64),
        np.array([len(ranking) for ranking in rankings], dtype=np.int64),
    )


def ranked(scores: Scores) -> list[str]:
    """Ids by falling score; ties by falling id, and scores in single precision, as trec_eval.

    Two scores that differ by less than single precision can tell are a tie there, and so here.
    """
    return [key for key, _ in _ordered(scores)]


def as_grades(relevant: Relevant) -> Mapping[str, float]:
    """Plain relevance as grades of 1.

    Raises:
        TypeError: it is one text, which would be read letter by letter.
    """
    if isinstance(relevant, Mapping):
        return relevant
    if isinstance(relevant, str):
        raise TypeError(f"relevant is the text {relevant!r}; give a set of ids, or grades by id")
    return dict.fromkeys(relevant, 1.0)


def _in_order(ranking: Sequence[str], known: Mapping[str, float]) -> list[float]:
    grades = [known.get(key, _NAN) for key in ranking]
    if len(set(ranking)) < len(ranking):
        seen: set[str] = set()
        for rank, key in enumerate(ranking):
            if key in seen:
                grades[rank] = -1.0
            seen.add(key)
    return grades


def _by_score(scores: Scores, known: Mapping[str, float]) -> Floats | list[float]:
    """Grades in the order of the scores; only where scores tie do the ids have to be sorted."""
    single = np.fromiter(scores.values(), dtype=np.float32, count=len(scores))
    order = np.argsort(-single)
    in_order = single[order]
    if (in_order[1:] == in_order[:-1]).any():
        return [known.get(key, _NAN) for key, _ in _ordered(scores)]
    grades = np.array([known.get(key, _NAN) for key in scores], dtype=np.float64)
    return grades[order]


def _ordered(scores: Scores) -> list[tuple[str, float]]:
    single = np.fromiter(scores.values(), dtype=np.float32, count=len(scores)).tolist()
    return sorted(
        zip(scores, single, strict=True), key=lambda entry: (entry[1], entry[0]), reverse=True
    )


def _matrix(rows: Sequence[Sequence[float] | Floats], padding: float) -> Floats:
    """Rows of different lengths as one array."""
    width = max(map(len, rows), default=0)
    if all(len(row) == width for row in rows):
        return np.array(rows, dtype=np.float64).reshape(len(rows), width)
    padded = np.full((len(rows), width), padding)
    for row, values in zip(padded, rows, strict=True):
        row[: len(values)] = values
    return padded
