"""Fit of the grounding artefact: rarity of words, weights of shares, slopes of summaries.

Few numbers, ridge penalty, no negative weight: each share is a kind of missing support, so a
negative weight could only be noise of the training data, and does not transfer.
"""

import math
from collections import Counter
from collections.abc import Iterable, Sequence

import numpy as np
from numpy.typing import NDArray

from ragmon.judges.grounding import evidence, model, words
from ragmon.judges.grounding.evidence import SHARES, SentenceEvidence
from ragmon.judges.grounding.model import Artefact, Provenance
from ragmon.judges.grounding.passages import PassageCache
from ragmon.judges.grounding.words import Vocabulary
from ragmon.judges.training.corpus import Example

Vector = NDArray[np.float64]
Matrix = NDArray[np.float64]

_WINDOW = 600  # characters of context that count as one document for the rarity of words
_WINDOWS_A_CHUNK = 10
_LEAST_DOCUMENTS = 2
_RAREST_PERCENT = 10
_FLATTENED = 0.8  # power; 0.4 to 1 rank alike, below 1 the threshold suits more data sets


def rarity(chunks: Iterable[str]) -> dict[str, int]:
    """Flattened inverse document frequency in percent, by stem, over distinct chunks."""
    blank = Vocabulary({})
    counts: Counter[str] = Counter()
    documents = 0
    for chunk in sorted(set(chunks)):
        for start in range(0, min(len(chunk), _WINDOW * _WINDOWS_A_CHUNK), _WINDOW):
            terms = (blank[t] for t in words.TOKEN.findall(chunk[start : start + _WINDOW]))
            counts.update({term.stem for term in terms if term.weight and not term.number})
            documents += 1
    rarest = math.log(2 * (documents + 1))

    def percent(n: int) -> int:
        share = math.log((documents + 1) / (n + 0.5)) / rarest
        return max(_RAREST_PERCENT, round(100 * math.pow(share, _FLATTENED)))

    return {stem: percent(n) for stem, n in sorted(counts.items()) if n >= _LEAST_DOCUMENTS}


def ridge_logistic(
    x: Matrix, y: Vector, sample_weights: Vector, *, ridge: float, steps: int = 2000
) -> tuple[Vector, float]:
    """Logistic regression with coefficients at least 0, by projected gradient steps.

    Args:
        x: shape (n, k).
        y: 0 or 1, shape (n,).
        sample_weights: any positive scale, shape (n,).
        ridge: penalty on squared coefficients of the standardised columns.
        steps: of accelerated projected gradient; 2000 leave the loss unchanged to 1e-9.

    Returns:
        (coefficients for the raw columns, intercept).
    """
    w = sample_weights / sample_weights.sum()
    mean = w @ x
    spread = np.sqrt(w @ (x - mean) ** 2) + 1e-9
    z = np.column_stack([(x - mean) / spread, np.ones(len(y))])
    penalty = np.append(np.full(x.shape[1], 2.0 * ridge), 0.0)
    floor = np.append(np.zeros(x.shape[1]), -np.inf)
    rate = 1.0 / (0.25 * np.linalg.norm(z * np.sqrt(w)[:, None], 2) ** 2 + penalty.max())
    b = ahead = np.zeros(z.shape[1])
    momentum = 1.0
    for _ in range(steps):
        gradient = z.T @ (w * (1.0 / (1.0 + np.exp(-(z @ ahead))) - y)) + penalty * ahead
        following = np.maximum(ahead - rate * gradient, floor)
        faster = (1.0 + math.sqrt(1.0 + 4.0 * momentum**2)) / 2.0
        ahead = following + (momentum - 1.0) / faster * (following - b)
        b, momentum = following, faster
    coefficients = b[:-1] / spread
    return coefficients, float(b[-1] - coefficients @ mean)


def balanced_weights(y: Vector) -> Vector:
    """Each class weighs half, the whole 1."""
    weights: Vector = np.where(y == 1, 0.5 / max(1.0, y.sum()), 0.5 / max(1.0, (1 - y).sum()))
    return weights


def fit(
    whole: Sequence[Sequence[Example]],
    joined: Sequence[Example] = (),
    *,
    version: str = "0",
    provenance: Provenance | None = None,
    ridge: float = 1.0,
) -> Artefact:
    """Fit on data sets of equal weight, each balanced between supported and not.

    Args:
        whole: data sets as labelled.
        joined: answers joined from claims; they only fit the sum over sentences.
        version: of the artefact.
        provenance: recorded as it is.
        ridge: penalty of both regressions.
    """
    percent = rarity(chunk for data in whole for example in data for chunk in example.context)
    reader = EvidenceReader(percent)
    read = [reader.read(data) for data in whole]
    y, weights = _targets(whole)
    shares = np.array([_mean_shares(lines) for part in read for lines in part])
    coefficients, _ = ridge_logistic(shares, y, weights, ridge=ridge)
    mix = coefficients / coefficients.sum()
    if joined:
        read.append(reader.read(joined))
        y, weights = _targets([*whole, joined])
    parts = np.array([[unsupported_part(lines, mix.tolist())] for data in read for lines in data])
    slope, intercept = ridge_logistic(parts, y, weights, ridge=0.0)
    return Artefact(
        version=version,
        provenance=provenance or Provenance("", (), "", sum(map(len, whole))),
        weights=dict(zip(SHARES, mix.round(5).tolist(), strict=True)),
        slope=round(float(slope[0]), 5),
        intercept=round(intercept, 5),
        threshold=0.5,
        doubt=0.5,
        rarity=percent,
    )


class EvidenceReader:
    """Reads answers into evidence with one rarity table."""

    def __init__(self, percent: dict[str, int]) -> None:
        self._vocabulary = Vocabulary(model.rarity_weights(percent))
        self._cache = PassageCache(self._vocabulary)

    def read(self, examples: Sequence[Example]) -> list[tuple[SentenceEvidence, ...]]:
        """Evidence by sentence, for each answer."""
        return [
            evidence.weigh(e.answer, e.query, self._cache.context(e.context), self._vocabulary)
            for e in examples
        ]


def _targets(data: Sequence[Sequence[Example]]) -> tuple[Vector, Vector]:
    labels = [np.array([float(e.hallucinated) for e in part]) for part in data]
    return np.concatenate(labels), np.concatenate([balanced_weights(y) for y in labels])


def _mean_shares(lines: Sequence[SentenceEvidence]) -> Vector:
    if not lines:
        return np.zeros(len(SHARES))
    content = np.array([line.content for line in lines], dtype=float)
    shares: Vector = content @ np.array([line.shares for line in lines]) / content.sum()
    return shares


def unsupported_part(lines: Sequence[SentenceEvidence], mix: Sequence[float]) -> float:
    """Of an answer; 0 for one without content."""
    if not lines:
        return 0.0
    return model.summarise(lines, [model.unsupported(line.shares, mix) for line in lines])
