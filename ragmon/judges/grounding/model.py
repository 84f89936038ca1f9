"""Fitted part of the judge: weights of words, and the formula from shares to a score.

sentence   u = weights . shares, the unsupported part of it, in [0, 1]
answer     d = (mean of u by content words + WORST_SHARE * worst u) / (1 + WORST_SHARE),
           where the u of a short sentence is pulled towards the mean
score      1 / (1 + exp(slope * d + intercept))

A score is the chance that a human would call the answer supported if half of all answers were.
No single way to sum sentences up is best on every data set: the mean is where raters give an
overall impression, the worst sentence where one unsupported span makes an answer wrong.
AUROC in cross-validation for WORST_SHARE 0, 0.3, 1, 3: MTRAG 0.848, 0.849, 0.848, 0.846; claims
joined into answers, wrong when any claim is, 0.807, 0.812, 0.814, 0.812.
"""

import math
from collections.abc import Mapping, Sequence
from importlib import resources

import msgspec
from msgspec import Struct

from ragmon.judges.grounding.evidence import SHARES, SentenceEvidence

ARTEFACT = "artefact.json"
WORST_SHARE = 0.3
_PULL = 12.0  # content words of the answer's mean that are mixed into each sentence


class Provenance(Struct, frozen=True):
    """Origin of the fitted numbers."""

    script: str
    data: tuple[str, ...]  # each with its licence
    licence: str  # of the artefact
    trained_on: int  # answers


class Artefact(Struct, frozen=True):
    """Everything that was fitted; ``version`` changes whenever a score may."""

    version: str
    provenance: Provenance
    weights: dict[str, float]  # by name of SHARES, at least 0, sum 1
    slope: float  # at least 0
    intercept: float
    threshold: float  # answers scoring below are doubted
    doubt: float  # sentences whose support is below are doubted
    rarity: dict[str, int]  # percent by stem; a stem that is not here is rarest


def load_artefact() -> Artefact:
    """The artefact shipped in the package.

    Raises:
        msgspec.ValidationError: the file does not have the fields above.
    """
    file = resources.files("ragmon.judges.grounding").joinpath(ARTEFACT)
    artefact = msgspec.json.decode(file.read_bytes(), type=Artefact)
    if set(artefact.weights) != set(SHARES):
        raise msgspec.ValidationError(f"the artefact knows {sorted(artefact.weights)}")
    return artefact


def rarity_weights(percent_by_stem: Mapping[str, int]) -> dict[str, float]:
    """Weights in (0, 1] as ``Vocabulary`` takes them."""
    return {stem: percent / 100.0 for stem, percent in percent_by_stem.items()}


def unsupported(shares: Sequence[float], weights: Sequence[float]) -> float:
    """The unsupported part of one sentence, in [0, 1]."""
    return math.fsum(map(float.__mul__, shares, weights))


def summarise(evidence: Sequence[SentenceEvidence], parts: Sequence[float]) -> float:
    """The unsupported part ``d`` of an answer, in [0, 1], from the ``parts`` of its sentences.

    Raises:
        ZeroDivisionError: there is no sentence.
    """
    content = [line.content for line in evidence]
    mean = math.fsum(n * u for n, u in zip(content, parts, strict=True)) / sum(content)
    pulled = ((n * u + _PULL * mean) / (n + _PULL) for n, u in zip(content, parts, strict=True))
    return (mean + WORST_SHARE * max(pulled)) / (1.0 + WORST_SHARE)


def traits(
    evidence: Sequence[SentenceEvidence], parts: Sequence[float], context_words: int
) -> tuple[float, float, float]:
    """Traits of one pipeline: (log answer length, log context length, worst - mean).

    They are no part of the score, as their effect changes sign between data sets; a calibration
    may use them.
    """
    content = sum(line.content for line in evidence)
    mean = math.fsum(line.content * u for line, u in zip(evidence, parts, strict=True)) / content
    return math.log(content), math.log(context_words), max(parts) - mean


def logit(artefact: Artefact, unsupported_part: float) -> float:
    """Log odds that an answer or a sentence with this unsupported part is supported."""
    return -(artefact.slope * unsupported_part + artefact.intercept)


def logistic(x: float) -> float:
    """1 / (1 + e^-x) without overflow."""
    if x >= 0:
        return 1.0 / (1.0 + math.exp(-x))
    return math.exp(x) / (1.0 + math.exp(x))
