"""Documents whose texts are nearly the same, and those of them that took over from the other.

Texts are compared by their MinHash: the share of equal entries of two signatures estimates the
share of runs of three words that two texts have in common (standard error 0.06 at most).

Source: Broder (1997), On the Resemblance and Containment of Documents; bands as in Leskovec,
Rajaraman and Ullman, Mining of Massive Datasets, chapter 3.
"""

import math
from collections.abc import Iterator
from itertools import combinations
from typing import NamedTuple

import msgspec
import numpy as np
import xxhash
from numpy.typing import NDArray

from ragmon.documents.tallies import DayCounts
from ragmon.stats.discoveries import FALSE_DISCOVERIES, false_discovery_rates

ALIKE = 0.6
"""Share of equal runs of words from which on two texts are twins."""

_HASHES = 64
_BAND = 4
_WORDS = 1_000  # of a text that are looked at
_MOST_WORDS = 100_000  # whose hashes are kept
_RUN = 3  # words
_LETTERS = 6  # of a run, in texts without spaces
_LEAST_RUNS = 8  # shorter texts are headings, which are alike by chance
_MOST_ALIKE = 40  # documents in one band; more are boilerplate
_MOST_PAIRS = 200_000
_LEAST_CITED = 5  # each of the two
_CLEAR = 0.9  # of all citations, on the right side of the day

_BASE = np.uint64(0x9E3779B97F4A7C15)

_decode = msgspec.msgpack.Decoder(str | None).decode
_random = np.random.default_rng(20240607)
_FACTORS = _random.integers(1, 1 << 62, _HASHES, dtype=np.uint64) * np.uint64(2) + np.uint64(1)
_OFFSETS = _random.integers(0, 1 << 62, _HASHES, dtype=np.uint64)


class TwinPair(NamedTuple):
    """Two documents whose texts are nearly the same."""

    one: int
    other: int
    similarity: float


class StaleTwin(NamedTuple):
    """A document that was cited until a day, and its twin since."""

    stale: int
    current: int
    similarity: float
    day: int  # the first of the current one, since 1970
    cited: tuple[int, int]  # how often each, on its side of the day
    false_discovery_rate: float


class TextSignatures:
    """MinHashes of texts, by the number of their documents."""

    def __init__(self) -> None:
        self.documents: list[int] = []
        self._signatures: list[NDArray[np.uint32]] = []
        self._words = _WordHashes()

    def add(self, document: int, text: bytes) -> None:
        """Take in a text, as msgpack; empty or too short ones are left out."""
        decoded = _decode(text) if text else None
        signature = signature_of(decoded, self._words) if decoded else None
        if signature is not None:
            self.documents.append(document)
            self._signatures.append(signature)

    def pairs(self) -> list[TwinPair]:
        """All pairs that are alike."""
        if len(self.documents) < 2:
            return []
        every = np.stack(self._signatures)
        seen: set[tuple[int, int]] = set()
        for first in range(0, _HASHES, _BAND):
            for alike in _equal_rows(every[:, first : first + _BAND]):
                seen.update(combinations(alike, 2))
            if len(seen) > _MOST_PAIRS:
                break
        if not seen:
            return []
        places = np.array(sorted(seen)[:_MOST_PAIRS])
        shares = (every[places[:, 0]] == every[places[:, 1]]).mean(axis=1)
        return [
            TwinPair(self.documents[one], self.documents[other], share)
            for (one, other), share in zip(places.tolist(), shares.tolist(), strict=True)
            if share >= ALIKE
        ]


class _WordHashes(dict[str, int]):
    """Hashes of words, kept since texts share most of theirs."""

    def __missing__(self, word: str) -> int:
        if len(self) >= _MOST_WORDS:
            self.clear()
        self[word] = digest = xxhash.xxh3_64_intdigest(word.encode(errors="replace"))
        return digest


def signature_of(text: str, known: dict[str, int] | None = None) -> NDArray[np.uint32] | None:
    """The MinHash of a text; None where it is too short to be told from others.

    Args:
        text: of a document.
        known: hashes of words that came before; None: none.
    """
    words = text[: 20 * _WORDS].casefold().split()[:_WORDS]
    if len(words) >= _LEAST_RUNS + _RUN - 1:
        hashes = _WordHashes() if known is None else known
        parts = np.fromiter(map(hashes.__getitem__, words), np.uint64, count=len(words))
        runs = _runs(parts, _RUN)
    else:
        letters = " ".join(words).encode("utf-32-le", errors="replace")
        runs = _runs(np.frombuffer(letters, dtype=np.uint32).astype(np.uint64), _LETTERS)
    if len(np.unique(runs)) < _LEAST_RUNS:
        return None
    mixed = (runs[:, None] * _FACTORS + _OFFSETS) >> np.uint64(32)
    signature: NDArray[np.uint32] = mixed.min(axis=0).astype(np.uint32)
    return signature


def _runs(parts: NDArray[np.uint64], length: int) -> NDArray[np.uint64]:
    """A hash of each run of so many parts."""
    size = max(len(parts) - length + 1, 0)
    runs = np.zeros(size, dtype=np.uint64)
    for at in range(length):
        runs = runs * _BASE + parts[at : at + size]
    return (runs ^ (runs >> np.uint64(29))) * _BASE


def stale_twins(pairs: list[TwinPair], cited: DayCounts) -> list[StaleTwin]:
    """Of two that are alike, one that was cited until a day and no more, and the other since.

    Args:
        pairs: documents that are alike, of one pipeline each.
        cited: citations by document and day.
    """
    switches = [_switch(pair, cited) for pair in pairs]
    p_values = [math.nan if switch is None else switch.false_discovery_rate for switch in switches]
    rates = false_discovery_rates(p_values)
    return [
        switch._replace(false_discovery_rate=float(rate))
        for switch, rate in zip(switches, rates, strict=True)
        if switch is not None and rate <= FALSE_DISCOVERIES
    ]


def _switch(pair: TwinPair, cited: DayCounts) -> StaleTwin | None:
    """The day that parts the citations of two best, with its p-value; None where none does."""
    one, other = cited.of(pair.one), cited.of(pair.other)
    if min(one.times.sum(), other.times.sum()) < _LEAST_CITED:
        return None
    days = np.unique(np.concatenate([one.days, other.days]))
    table = np.zeros((2, len(days)))
    for row, cites in zip(table, (one, other), strict=True):
        row[np.searchsorted(days, cites.days)] = cites.times
    before = np.cumsum(table, axis=1)[:, :-1]
    after = table.sum(axis=1, keepdims=True) - before
    apart = np.stack([before[0] + after[1], before[1] + after[0]])
    if not apart.size or apart.max() < _CLEAR * table.sum():
        return None
    order, at = divmod(int(apart.argmax()), apart.shape[1])
    first, second = (pair.one, pair.other) if order == 0 else (pair.other, pair.one)
    counts = np.stack([before[:, at], after[:, at]], axis=1)
    return StaleTwin(
        stale=first,
        current=second,
        similarity=pair.similarity,
        day=int(days[at + 1]),
        cited=(int(counts[order, 0]), int(counts[1 - order, 1])),
        false_discovery_rate=min(1.0, 2.0 * apart.shape[1] * _p_value(counts)),
    )


def _p_value(counts: NDArray[np.float64]) -> float:
    """Likelihood-ratio test of independence of a table of two by two."""
    expected = counts.sum(axis=1, keepdims=True) * counts.sum(axis=0) / counts.sum()
    seen = counts > 0.0
    ratio = 2.0 * float((counts[seen] * np.log(counts[seen] / expected[seen])).sum())
    return math.erfc(math.sqrt(max(ratio, 0.0) / 2.0))


def _equal_rows(rows: NDArray[np.uint32]) -> Iterator[list[int]]:
    """Places of the rows that equal others."""
    keys = np.ascontiguousarray(rows).view(np.dtype((np.void, rows.dtype.itemsize * _BAND))).ravel()
    order = np.argsort(keys, kind="stable")
    ends = np.flatnonzero(np.append(keys[order][1:] != keys[order][:-1], True))
    begin = 0
    for end in (ends + 1).tolist():
        if end - begin > 1:
            yield sorted(order[begin : min(end, begin + _MOST_ALIKE)].tolist())
        begin = end
