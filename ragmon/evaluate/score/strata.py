"""Strata: cases grouped by metadata, where a mean hides a change in some of them."""

from collections.abc import Iterator, Mapping, Sequence
from typing import NamedTuple

import numpy as np

from ragmon.evaluate.cases import Metadata
from ragmon.evaluate.ranking.blocks import Floats

SMALL = 20
"""Cases below which a stratum is flagged: its interval spans some 40 points of a ratio."""

LENGTH = "query_length"
"""A key that every case has: short up to eight words, long above."""

_MOST_VALUES = 12  # of a key that becomes strata by default
_FEWEST_COMPARED = 5  # cases a stratum needs in both runs to count in a reversal
_SHORT_WORDS = 8


class CaseGroup(NamedTuple):
    """The cases of one stratum."""

    key: str
    value: str
    rows: tuple[int, ...]

    @property
    def small(self) -> bool:
        """True if it has too few cases to conclude from."""
        return len(self.rows) < SMALL


class Reversal(NamedTuple):
    """Simpson's paradox: every stratum moved one way, the whole the other."""

    key: str
    overall: float  # change of the mean over all cases
    strata: dict[str, float]  # change within each value of the key

    def __str__(self) -> str:
        ways = ("fell", "rose") if self.overall > 0 else ("rose", "fell")
        return (
            f"by {self.key} every stratum {ways[0]} while the whole {ways[1]}: "
            "the mix of cases changed, so compare within strata"
        )


def groups(
    metadata: Sequence[Metadata], queries: Sequence[str], keys: Sequence[str] | None = None
) -> list[CaseGroup]:
    """The strata of n cases.

    Args:
        metadata: of each case.
        queries: of each case.
        keys: to break down by; None: the length of the query and every key with two to twelve
            values. A case without the key is in none of its strata.
    """
    labels = labelled(metadata, queries)
    if keys is None:
        keys = [key for key, column in labels.items() if 2 <= _distinct(column) <= _MOST_VALUES]
    return [group for key in keys for group in _groups(key, labels.get(key, []))]


def labelled(metadata: Sequence[Metadata], queries: Sequence[str]) -> dict[str, list[str | None]]:
    """The value of each case, by key."""
    keys = dict.fromkeys(key for fields in metadata for key in fields)
    labels: dict[str, list[str | None]] = {
        key: [_text(fields.get(key)) for fields in metadata] for key in keys
    }
    labels[LENGTH] = ["long" if len(query.split()) > _SHORT_WORDS else "short" for query in queries]
    return labels


def reversal(
    key: str,
    before: tuple[Floats, Sequence[str | None]],
    after: tuple[Floats, Sequence[str | None]],
) -> Reversal | None:
    """Simpson's paradox between two runs; None when the strata do not all oppose the whole.

    It needs two runs over different mixes of cases: over the same cases, each scored in both,
    the whole always moves with some stratum.

    Args:
        key: what the strata are values of.
        before: scores of one metric (NaN: unknown) and the stratum of each case.
        after: the same of the other run, over its own cases.
    """
    overall = _mean(after[0]) - _mean(before[0])
    first, second = _means_by_stratum(*before), _means_by_stratum(*after)
    moved = {value: second[value] - first[value] for value in first if value in second}
    if len(moved) < 2 or not np.isfinite(overall) or overall == 0.0:
        return None
    if all(change * overall < 0.0 for change in moved.values()):
        return Reversal(key, overall, moved)
    return None


def _means_by_stratum(scores: Floats, labels: Sequence[str | None]) -> Mapping[str, float]:
    means = {}
    for group in _groups("", labels):
        known = scores[list(group.rows)]
        known = known[~np.isnan(known)]
        if len(known) >= _FEWEST_COMPARED:
            means[group.value] = float(known.mean())
    return means


def _groups(key: str, labels: Sequence[str | None]) -> Iterator[CaseGroup]:
    rows: dict[str, list[int]] = {}
    for at, label in enumerate(labels):
        if label is not None:
            rows.setdefault(label, []).append(at)
    for value in sorted(rows):
        yield CaseGroup(key, value, tuple(rows[value]))


def _distinct(column: Sequence[str | None]) -> int:
    return len({value for value in column if value is not None})


def _text(value: object) -> str | None:
    return None if value is None else str(value)


def _mean(scores: Floats) -> float:
    known = scores[~np.isnan(scores)]
    return float(known.mean()) if len(known) else float("nan")
