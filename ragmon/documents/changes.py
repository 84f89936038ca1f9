"""Documents that appeared or vanished, more surely than by chance.

Without a moment to compare: if a document were still retrieved as often as ever, its last
retrieval would be anywhere among the queries of its pipeline, so that n retrievals all lie within
the first share s of them with probability s to the power n. With a moment or a release, the same
holds of that share of the queries.
"""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from ragmon.documents.gathering import MINUTE_S, Gathering
from ragmon.stats.discoveries import FALSE_DISCOVERIES, false_discovery_rates

Floats = NDArray[np.float64]

_LEAST = 5  # retrievals
_LEVEL = 0.2 * FALSE_DISCOVERIES  # stricter, since questions come in bursts


class Changed(NamedTuple):
    """A document that came or went."""

    document: int
    at: float  # unix seconds of its first retrieval, or of its last
    false_discovery_rate: float


class DocumentChanges(NamedTuple):
    """The surest first."""

    appeared: list[Changed]
    vanished: list[Changed]


def changes_of(gathering: Gathering) -> DocumentChanges:
    """The documents that came and those that went."""
    retrieved = gathering.tallies.ranks.sum(axis=1).astype(np.float64)
    asked = gathering.scope.since is not None or gathering.scope.version is not None
    before, after = _shares_at_change(gathering) if asked else _shares_by_time(gathering)
    with np.errstate(divide="ignore"):
        appeared = np.where(retrieved >= _LEAST, np.exp(retrieved * np.log(after)), np.nan)
        vanished = np.where(retrieved >= _LEAST, np.exp(retrieved * np.log(before)), np.nan)
    tallies = gathering.tallies
    return DocumentChanges(_surest(appeared, tallies.first), _surest(vanished, tallies.last))


def _shares_at_change(gathering: Gathering) -> tuple[Floats, Floats]:
    """Shares of the queries before and after a change; 1 for documents retrieved on both sides."""
    after = gathering.tallies.column("after").astype(np.float64)
    before = gathering.tallies.ranks.sum(axis=1) - after
    shares = {
        name: counts.after / max(counts.with_chunks, 1)
        for name, counts in gathering.pipelines.items()
    }
    share = np.array([shares.get(pipeline, 0.0) for pipeline, _ in gathering.names])
    return np.where(after == 0.0, 1.0 - share, 1.0), np.where(before == 0.0, share, 1.0)


def _shares_by_time(gathering: Gathering) -> tuple[Floats, Floats]:
    """Shares of the queries until the last retrieval of each document, and since its first."""
    documents = len(gathering.names)
    before, after = np.ones(documents), np.ones(documents)
    pipeline_of = np.array([pipeline for pipeline, _ in gathering.names], dtype=object)
    for pipeline, counts in gathering.pipelines.items():
        chosen = np.flatnonzero((pipeline_of == pipeline) & np.isfinite(gathering.tallies.last))
        minutes = np.array(sorted(counts.minutes), dtype=np.float64)
        summed = np.cumsum([counts.minutes[int(minute)] for minute in minutes])
        last = gathering.tallies.last[chosen] // MINUTE_S
        first = gathering.tallies.first[chosen] // MINUTE_S
        until = np.searchsorted(minutes, last, side="right") - 1
        begin = np.searchsorted(minutes, first, side="left")
        before[chosen] = summed[until] / summed[-1]
        after[chosen] = 1.0 - np.where(begin > 0, summed[begin - 1], 0) / summed[-1]
    return before, after


def _surest(p_values: Floats, at: Floats) -> list[Changed]:
    rates = false_discovery_rates(p_values)
    named = np.flatnonzero(rates <= _LEVEL)
    ordered = named[np.lexsort((named, rates[named]))]
    return [Changed(int(one), float(at[one]), float(rates[one])) for one in ordered]
