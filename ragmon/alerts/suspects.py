"""Suspects: slices that may hold the cause of a change, each with its probability.

A slice is compared with the pipeline as a whole. If only the slice changed, the rest of the
pipeline is at its old level; if everything changed, both moved by the same odds. The ratio of the
two likelihoods, of the losses that were counted since the change, is the weight of the slice. The
whole pipeline is as likely beforehand as all slices together. Levels may miss by two points, so
that a small shift elsewhere does not acquit a slice.
"""

import math
from collections.abc import Sequence

from msgspec import Struct

SURE = 0.5
"""Probability from which a slice is named as the cause."""

_SLACK = 0.02
_ERRORS = 2.0  # standard errors
_EVENLY = 2.0  # times the mean loss of the whole, within which a slice has its fair part
_LEAST, _MOST = 1e-4, 1.0 - 1e-4  # of a rate
_STEPS = 40  # of a bisection over the log odds
_LONGEST = 20.0  # shift of the log odds
_MOST_EVIDENCE = 50.0  # log likelihood ratio, beyond which a slice is innocent


class Cell(Struct, frozen=True):
    """Samples since the change, their losses, and the loss rate that was expected of them."""

    n: float
    losses: float
    expected: float

    @property
    def rate(self) -> float:
        """Mean loss since the change."""
        return self.losses / self.n

    @property
    def excess(self) -> float:
        """Losses beyond what was expected."""
        return self.losses - self.n * self.expected


def probabilities(whole: Cell, slices: Sequence[Cell]) -> list[float]:
    """For each slice the probability that the change is its own, not the whole pipeline's."""
    if not slices:
        return []
    evidence = [_evidence(whole, part) - math.log(len(slices)) for part in slices]
    most = max(0.0, *evidence)  # taken away, so that no weight is beyond a float
    weights = [math.exp(max(each - most, -_MOST_EVIDENCE)) for each in evidence]
    total = math.exp(-most) + sum(weights)
    return [weight / total for weight in weights]


def overlaps(whole: Cell, culprit: Cell, part: Cell) -> bool:
    """True where what a slice lost is explained by a culprit of another dimension.

    Either most of it must lie within the culprit, since the queries outside of it lost too little;
    or the slice has no more than its fair part of what the culprit does to the whole.
    """
    n = whole.n - culprit.n
    usual = max(whole.n * whole.expected - culprit.n * culprit.expected, 0.0)
    lost = max(whole.losses - culprit.losses - usual, 0.0)
    outside = lost + _ERRORS * math.sqrt(usual * max(1.0 - usual / max(n, 1.0), 0.0))
    if 2.0 * outside <= part.excess:
        return True
    return part.excess / part.n <= _EVENLY * whole.excess / whole.n


def _evidence(whole: Cell, part: Cell) -> float:
    """Log likelihood ratio of "only this slice" against "everything alike"."""
    n, losses = whole.n - part.n, whole.losses - part.losses
    if n < 1.0 or part.n < 1.0:
        return -_MOST_EVIDENCE  # it is the whole, or nothing
    expected = (whole.n * whole.expected - part.n * part.expected) / n
    rest = Cell(n, min(max(losses, 0.0), n), _rate(expected))
    alone = _likelihood(part, part.rate) + _likelihood(rest, rest.expected)
    shift = _shift(whole.losses, (part, rest))
    together = sum(_likelihood(cell, _shifted(cell.expected, shift)) for cell in (part, rest))
    return alone - together


def _likelihood(cell: Cell, rate: float) -> float:
    """Log likelihood of the losses, at the observed rate if it is within the slack."""
    level = _rate(min(max(cell.rate, rate - _SLACK), rate + _SLACK))
    return cell.losses * math.log(level) + (cell.n - cell.losses) * math.log(1.0 - level)


def _shift(losses: float, cells: Sequence[Cell]) -> float:
    """The shift of all log odds at which that many losses are expected."""
    low, high = -_LONGEST, _LONGEST
    for _ in range(_STEPS):
        middle = 0.5 * (low + high)
        if sum(cell.n * _shifted(cell.expected, middle) for cell in cells) < losses:
            low = middle
        else:
            high = middle
    return 0.5 * (low + high)


def _shifted(rate: float, shift: float) -> float:
    odds = _rate(rate)
    return 1.0 / (1.0 + math.exp(-(math.log(odds / (1.0 - odds)) + shift)))


def _rate(rate: float) -> float:
    return min(max(rate, _LEAST), _MOST)
