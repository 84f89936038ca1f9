"""Documents whose answers end badly more often than answers to like questions without them.

Two questions are alike when the best document that was retrieved beside the one in question is
the same, under the same version of the pipeline: it needs no texts, works in every language, and
compares a document with those that take its place. How hard a kind of question is, and how good a
release, thereby cancel out. Where that other document nearly always comes with it, the next one
counts.

A harmless document that is often retrieved together with a bad one would be blamed as well. So the
surest one is named first, its answers are laid aside, and the others have to stand out in the rest.
"""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from ragmon.documents.compared import AnswerTable
from ragmon.stats.discoveries import FALSE_DISCOVERIES, false_discovery_rates
from ragmon.stats.stratified import Strata, StratifiedComparisons, compare_strata

Floats = NDArray[np.float64]
Integers = NDArray[np.intp]

_LEVEL = 0.5 * FALSE_DISCOVERIES
"""Half, since a rate is a mean over weeks: where most weeks name one document, twice as large a
share of all that are ever named would be false."""
_FURTHER = 2.0
"""Factor on the rate of each document after the first: what is left of the influence of those
named makes its chance look smaller than it is. So it is tested as Holm would, at half the level."""
_MOST_NAMED = 50
_ALIKE = 0.8  # of a document's answers: from there on two cannot be told apart
_LEAST_ANSWERS = 5
_COMMON = 0.1  # of the answers: a document that more of them have tells nothing of a question,
_COMMON_TIMES = 3.0  # if it is in so many times as many as others
_LEVELS = 3  # documents by which a question may be told
_LEAST_OTHERS = 0.25  # answers without a document for each answer with it


class Blamed(NamedTuple):
    """A document that is named."""

    document: int
    false_discovery_rate: float
    companions: tuple[int, ...]  # retrieved nearly always together with it


class Comparisons(NamedTuple):
    """Every document of a table, and those that are named."""

    answers: Floats  # with each document, of which the outcome is known
    bad: Floats  # of these
    compared: StratifiedComparisons
    rates: Floats  # at which each would be named
    named: list[Blamed]


def compare(table: AnswerTable, documents: int) -> Comparisons:
    """Compare the answers with each document with like ones without it.

    Args:
        table: answers of which one outcome is known.
        documents: number of all.
    """
    answers = np.bincount(table.documents, minlength=documents).astype(np.float64)
    bad = np.bincount(table.documents, table.bad[table.records], minlength=documents)
    compared = compare_strata(_strata(table, documents), documents)
    p_values = np.where(compared.n_with >= _LEAST_ANSWERS, compared.p_value, np.nan)
    rates = false_discovery_rates(p_values)
    candidates = [*np.flatnonzero(rates <= _LEVEL).tolist()]
    tests = int((~np.isnan(p_values)).sum())
    named = _named(table, candidates, p_values, tests)
    return Comparisons(answers, bad.astype(np.float64), compared, rates, named)


def _named(table: AnswerTable, candidates: list[int], p_values: Floats, tests: int) -> list[Blamed]:
    """Those of the candidates that stand out without the answers of those named before."""
    named: list[Blamed] = []
    remaining, now = candidates, p_values
    while remaining and len(named) < _MOST_NAMED:
        best = min(remaining, key=lambda document: (now[document], document))
        rate = float(now[best]) * tests * (_FURTHER if named else 1.0)
        if not rate <= _LEVEL:
            break
        others = [document for document in remaining if document != best]
        companions = _companions(table, best, others)
        named.append(Blamed(best, rate, companions))
        remaining = [document for document in others if document not in companions]
        if remaining:
            table = table.without(best)
            now = _p_values(table, remaining)
    return named


def _p_values(table: AnswerTable, documents: list[int]) -> Floats:
    """Of some documents; NaN for the others."""
    size = max(int(table.documents.max(initial=0)), *documents) + 1
    compared = compare_strata(_strata(table, size, np.array(documents)), size)
    return np.where(compared.n_with >= _LEAST_ANSWERS, compared.p_value, np.nan)


def _companions(table: AnswerTable, document: int, others: list[int]) -> tuple[int, ...]:
    """Those others that are in nearly the same answers."""
    is_in = np.zeros(len(table), dtype=np.bool_)
    is_in[table.records[table.documents == document]] = True
    total = int(is_in.sum())
    companions = []
    for other in others:
        records = table.records[table.documents == other]
        both = int(is_in[records].sum())
        if both >= _ALIKE * max(total, len(records)):
            companions.append(other)
    return tuple(companions)


def _strata(table: AnswerTable, documents: int, chosen: Integers | None = None) -> Strata:
    """A row for each document and kind of question.

    Args:
        table: the answers.
        documents: number of all.
        chosen: documents that are compared; None: all.
    """
    if not len(table):
        nothing = np.zeros(0)
        return Strata(np.zeros(0, dtype=np.intp), nothing, nothing, nothing, nothing)
    ranked = _Ranked(table, documents)
    records, asked = table.records, table.documents
    if chosen is not None:
        is_chosen = np.zeros(documents, dtype=np.bool_)
        is_chosen[chosen] = True
        records, asked = records[is_chosen[asked]], asked[is_chosen[asked]]
    kind = ranked.kind_of(records, asked, 0)
    for level in range(1, _LEVELS):
        rows, to = _rows(asked, kind, ranked)
        lonely = (rows.n_without < _LEAST_OTHERS * rows.n_with)[to]
        if not lonely.any():
            break
        further = ranked.kind_of(records[lonely], asked[lonely], level)
        kind[lonely] = np.where(further >= 0, further, kind[lonely])
    return _rows(asked, kind, ranked, records, table.bad)[0]


class _Ranked:
    """Answers by kind: the version, and the best document that few answers have.

    What is retrieved for many questions tells nothing of them; it is ranked behind the others.
    """

    def __init__(self, table: AnswerTable, documents: int) -> None:
        answers = np.bincount(table.documents, minlength=documents)
        usual = answers.sum() / max((answers > 0).sum(), 1)
        is_common = answers[table.documents] > max(_COMMON * len(table), _COMMON_TIMES * usual)
        order = np.lexsort((is_common, table.records))
        self._documents = table.documents[order]
        self._starts = np.flatnonzero(np.diff(table.records, prepend=-1))
        self._ends = np.append(self._starts[1:], len(table.records))
        self._groups = table.groups
        self._width = documents + 1
        first = np.where(self._ends - self._starts > 1, self._documents[self._starts] + 1, 0)
        # An answer with one document has no other: it is compared with answers of one document.
        self.kinds, self.kind = np.unique(table.groups * self._width + first, return_inverse=True)
        self.n = np.bincount(self.kind).astype(np.float64)
        self.bad = np.bincount(self.kind, table.bad).astype(np.float64)

    def kind_of(self, records: Integers, asked: Integers, level: int) -> Integers:
        """Kind of the best document but the one asked about; -1 where no answer is of that kind.

        Args:
            records: answers.
            asked: a document of each.
            level: 0 the best other one, 1 the next, and so on.
        """
        at = self._starts[records] + level
        last = len(self._documents) - 1
        # The document that is asked about stands before the other one, or after it.
        seen = np.zeros(len(records), dtype=np.bool_)
        for before in range(level + 1):
            seen |= self._documents[np.minimum(self._starts[records] + before, last)] == asked
        at += seen
        is_there = at < self._ends[records]
        other = np.where(is_there, self._documents[np.minimum(at, last)] + 1, 0)
        code = self._groups[records] * self._width + other
        place = np.minimum(np.searchsorted(self.kinds, code), len(self.kinds) - 1)
        known = (self.kinds[place] == code) & (is_there | (level == 0))
        return np.where(known, place, -1)


def _rows(
    asked: Integers,
    kind: Integers,
    ranked: _Ranked,
    records: Integers | None = None,
    bad: Floats | None = None,
) -> tuple[Strata, Integers]:
    """Rows of documents by kind, and the row of each retrieved document.

    Args:
        asked: retrieved documents.
        kind: of the question, or -1: nothing is like it.
        ranked: all answers.
        records: answer of each document; None: sizes alone are asked for.
        bad: outcome by answer.
    """
    size = len(ranked.kinds) + 1
    cells, to = np.unique(asked * size + kind + 1, return_inverse=True)
    kind_of_row = cells % size - 1

    def summed(values: NDArray[np.generic]) -> Floats:
        return np.bincount(to, values.astype(np.float64), minlength=len(cells)).astype(np.float64)

    if records is None or bad is None:
        n_with = summed(np.ones(len(to)))
        others = np.where(kind_of_row >= 0, ranked.n[kind_of_row] - n_with, 0.0)
        return Strata(cells // size, n_with, n_with, others, others), to
    is_own = ranked.kind[records] == kind  # it is one of the answers of that kind itself
    events = bad[records]
    known = kind_of_row >= 0
    return Strata(
        cells // size,
        summed(np.ones(len(to))),
        summed(events),
        np.where(known, ranked.n[kind_of_row] - summed(is_own), 0.0),
        np.where(known, ranked.bad[kind_of_row] - summed(events * is_own), 0.0),
    ), to
