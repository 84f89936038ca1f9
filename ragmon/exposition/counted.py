"""Counters as places in the totals of a series: their names, labels and sums."""

from collections.abc import Callable, Container, Iterator, Mapping, Sequence
from typing import NamedTuple

import numpy as np
from msgspec import Struct
from numpy.typing import NDArray

from ragmon.detectors.losses import HIT_K
from ragmon.exposition.text import Labels
from ragmon.signals import EVIDENCE, Column
from ragmon.signals.evidence import EMBEDDED_JUDGE, LOCAL_JUDGE, SAMPLED_JUDGE
from ragmon.signals.failure_mode import MODES
from ragmon.signals.verdict_sums import CUSTOM, layout_of
from ragmon.windows.row_layout import RowLayout
from ragmon.windows.totals import TotalsCopy

Floats = NDArray[np.float64]

_RATINGS = ("positive", "negative", "neutral")
_ALWAYS = (EMBEDDED_JUDGE, "human")  # judges that need no model
_AGAIN = "one that is corrected later counts under both"


class CounterReading(NamedTuple):
    """One value of a series: a sum less another, absent until a third is positive."""

    labels: Labels  # beside those of the series
    plus: int
    minus: int
    known: int


class Counter(NamedTuple):
    """One metric, without ``ragmon_`` and ``_total``."""

    metric: str
    help: str
    readings: tuple[CounterReading, ...]


class Table(Struct, frozen=True):
    """The counters of one kind of series, and all their readings side by side."""

    stem: str  # of names
    of: str  # before each help
    counters: tuple[Counter, ...]
    readings: tuple[CounterReading, ...]

    def name(self, counter: Counter) -> str:
        """Name of its series."""
        return f"{self.stem}{counter.metric}_total"

    def help(self, counter: Counter) -> str:
        """Help of its metric."""
        return f"{self.of}: {counter.help}" if self.of else counter.help

    def only(self, shows: Callable[[str], bool]) -> "Table":
        """The table of those counters whose name is shown."""
        counters = [counter for counter in self.counters if shows(self.name(counter))]
        return _table(self.stem, self.of, counters)

    def values(self, totals: TotalsCopy, series: Sequence[int]) -> Floats:
        """Every reading of some series, NaN where it is not shown; shape (series, readings)."""
        at = np.array(series, dtype=np.intp)
        sampled = totals.sampled.reshape(len(totals.sampled), -1)[at]
        sums = np.concatenate([totals.rows[at], sampled, np.zeros((len(at), 1))], axis=1)
        plus, minus, known = (
            np.array([reading[part] for reading in self.readings], dtype=np.intp)
            for part in (1, 2, 3)
        )
        # Digits beyond the sixth say nothing; rounding keeps a growing sum growing.
        values = np.round(sums[:, plus] - sums[:, minus], 6)
        return np.where(sums[:, known] > 0.0, values, np.nan)


class _Places:
    """Places in a row of totals, the sums of judges that sample after it, and a zero at the end."""

    def __init__(self, columns: Sequence[Column]) -> None:
        self._columns = {(column.name, column.labels): at for at, column in enumerate(columns)}
        layout = RowLayout(len(columns))
        self._n, self._sum, self._sum_sq = (int(part.start) for part in layout.moments)
        self._width = layout.width
        scores = layout_of(columns).counted
        self._scores = {(column.name, column.labels): at for at, column in enumerate(scores)}
        self.queries = layout.queries
        self.zero = self._width + 2 * len(scores)
        self.ks = sorted(
            {int(dict(column.labels)["k"]) for column in columns if column.name == "hit"}
        )

    def known(self, name: str, **labels: str) -> int:
        return self._n + self._columns[name, tuple(labels.items())]

    def sum(self, name: str, **labels: str) -> int:
        return self._sum + self._columns[name, tuple(labels.items())]

    def never_zero(self, name: str, **labels: str) -> int:
        """Records of a proportion that were never 0; see ``batch_rows.restated``."""
        return self._sum_sq + self._columns[name, tuple(labels.items())]

    @property
    def custom(self) -> dict[str, tuple[int, int]]:
        """``sampled`` of each custom judge."""
        judges = [dict(labels)["judge"] for name, labels in self._scores if name == CUSTOM]
        return {judge: self.sampled(CUSTOM, judge=judge) for judge in judges}

    def sampled(self, name: str, **labels: str) -> tuple[int, int]:
        """Weight of the scored answers, and weighted sum of their scores."""
        first = self._width + 2 * self._scores[name, tuple(labels.items())]
        return first, first + 1


def by_version(columns: Sequence[Column]) -> Table:
    """The counters of each version of a pipeline; what happens to every query begins at 0."""
    places = _Places(columns)
    counters = [
        *_queries(places, always=True),
        _slow(places),
        *_chunks(places, always=True),
        _feedback(places, always=True),
        _modes(places),
        *_hits(places, places.ks),
        *_judged(places, always=True),
        *_custom(places),
        *_answers(places),
    ]
    return _table("ragmon_", "", counters)


def by_slice(columns: Sequence[Column]) -> Table:
    """The headline counters, for each value of a tag; hits at the k that alerts speak of."""
    places = _Places(columns)
    headline = min(places.ks, key=lambda k: (abs(k - HIT_K), k))
    counters = [
        *_queries(places, always=False),
        *_chunks(places, always=False),
        _feedback(places, always=False),
        *_hits(places, [headline]),
        *_judged(places, always=False),
        *_custom(places),
    ]
    return _table("ragmon_slice_", "Of one value of a tag", counters)


def _table(stem: str, of: str, counters: Sequence[Counter]) -> Table:
    readings = (reading for counter in counters for reading in counter.readings)
    return Table(stem, of, tuple(counters), tuple(readings))


def _plain(places: _Places, metric: str, column: str, text: str, *, always: bool) -> Counter:
    known = places.queries if always else places.known(column)
    return Counter(metric, text, (CounterReading((), places.sum(column), places.zero, known),))


def _queries(places: _Places, *, always: bool) -> Iterator[Counter]:
    total = CounterReading((), places.queries, places.zero, places.queries)
    yield Counter("queries", "Queries counted.", (total,))
    text = "Queries logged with an error."
    yield _plain(places, "query_errors", "error", text, always=always)
    text = "Queries whose retrieval returned no chunk."
    yield _plain(places, "zero_result_queries", "zero_result", text, always=always)
    text = (
        "Queries whose question the same user, or session, had asked before in the same minute; "
        "detectors count the first alone. Many at once are a retry storm: see the runbook "
        "RagmonRetryStorm."
    )
    known = places.queries if always else places.known("repeat")
    reading = CounterReading((), places.known("repeat"), places.zero, known)
    yield Counter("repeats", text, (reading,))


def _slow(places: _Places) -> Counter:
    text = "Queries that took longer than latency.slow_ms."
    return _plain(places, "slow_queries", "slow", text, always=True)


def _chunks(places: _Places, *, always: bool) -> Iterator[Counter]:
    text = "Chunks retrieved for all queries."
    yield _plain(places, "chunks_retrieved", "retrieved_chunks", text, always=always)
    text = "Retrieved chunks that an answer cites."
    yield _plain(places, "chunks_cited", "cited_chunks", text, always=always)


def _feedback(places: _Places, *, always: bool) -> Counter:
    known = places.queries if always else places.known("positive_feedback")
    readings = (
        CounterReading((("rating", rating),), places.sum(f"{rating}_feedback"), places.zero, known)
        for rating in _RATINGS
    )
    text = f"User ratings of answers: positive, negative or neutral; {_AGAIN}."
    return Counter("feedback", text, tuple(readings))


def _modes(places: _Places) -> Counter:
    readings = (
        CounterReading(
            (("mode", mode),), places.sum("failure_mode", mode=mode), places.zero, places.queries
        )
        for mode in MODES
    )
    text = f"Queries by failure mode; {_AGAIN}."
    return Counter("failure_mode", text, tuple(readings))


def _hits(places: _Places, ks: Sequence[int]) -> Iterator[Counter]:
    """Hits and misses at each k, by each evidence."""
    hits, misses = [], []
    for evidence in EVIDENCE:
        for k in ks:
            labels = (("evidence", evidence), ("k", str(k)))
            of = {"k": str(k), "evidence": evidence}
            known = places.known("hit", **of)
            hits.append(CounterReading(labels, places.sum("hit", **of), places.zero, known))
            misses.append(CounterReading(labels, known, places.never_zero("hit", **of), known))
    for k in ks:
        labels = (("evidence", "judge"), ("k", str(k)))
        weight, weighted = places.sampled("hit", k=str(k), evidence="judge")
        hits.append(CounterReading(labels, weighted, places.zero, weight))
        misses.append(CounterReading(labels, weight, weighted, weight))
    text = (
        "Queries with {} relevant chunk among the first k, by evidence: label, citation, score, "
        f"or judge, whose sample counts for all; {_AGAIN}. {{}}"
    )
    rate = "hits / (hits + misses) is the hit rate."
    yield Counter("query_hits", text.format("a", f"Few are bad: {rate}"), tuple(hits))
    yield Counter("query_misses", text.format("no", f"Many are bad: {rate}"), tuple(misses))


def _judged(places: _Places, *, always: bool) -> Iterator[Counter]:
    """Faithfulness by judge: answers, and the sum of their scores.

    With ``always`` those who need no model begin at 0, so that PromQL sees the first.
    """
    weight, weighted = places.sampled("faithfulness", judge=SAMPLED_JUDGE)
    human = {"judge": "human"}
    judges = {
        EMBEDDED_JUDGE: (
            places.sum("grounding_moment", of="w"),
            places.sum("grounding_moment", of="wy"),
        ),
        SAMPLED_JUDGE: (weight, weighted),
        LOCAL_JUDGE: places.sampled("faithfulness", judge=LOCAL_JUDGE),
        "human": (places.known("faithfulness", **human), places.sum("faithfulness", **human)),
    }
    answers, scores = _by_judge(places, judges, _ALWAYS if always else ())
    text = (
        "Answers judged for faithfulness, by judge: one drawn for a sample counts for those that "
        "were not drawn, and one whose verdict changes counts again."
    )
    yield Counter("judged_answers", text, answers)
    text = (
        "Sum of the faithfulness (0 to 1) of the judged answers, by judge; their mean, this sum "
        "divided by judged answers, is bad when low."
    )
    yield Counter("judged_score", text, scores)


def _by_judge(
    places: _Places, judges: Mapping[str, tuple[int, int]], from_start: Container[str] = ()
) -> tuple[tuple[CounterReading, ...], ...]:
    """Readings of answers and of scores; those of some judges are there from the start."""
    return tuple(
        tuple(
            CounterReading(
                (("judge", judge),),
                sums[part],
                places.zero,
                places.queries if judge in from_start else sums[0],
            )
            for judge, sums in judges.items()
        )
        for part in (0, 1)
    )


def _custom(places: _Places) -> Iterator[Counter]:
    """Answers and the sum of their scores by each custom judge; nothing where there is none."""
    judges = places.custom
    if not judges:
        return
    answers, scores = _by_judge(places, judges)
    text = (
        "Answers scored by each judge of judge.custom: one drawn for a sample counts for those "
        "that were not drawn, and one whose verdict changes counts again."
    )
    yield Counter("custom_judged_answers", text, answers)
    text = (
        "Sum of the scores (0 to 1) by each judge of judge.custom; their mean, this sum divided by "
        "custom judged answers, is bad when low."
    )
    yield Counter("custom_judged_score", text, scores)


def _answers(places: _Places) -> Iterator[Counter]:
    """Answers by what is known of them; each pair makes a share."""
    readable = places.known("grounding_coverage")
    text = "Answers with the text of a chunk, so that the embedded judge can read them."
    reading = CounterReading((), readable, places.zero, readable)
    yield Counter("judgeable_answers", text, (reading,))
    text = (
        "Answers that the embedded judge has read; few of ragmon_judgeable_answers_total leave "
        "wide intervals: raise judge.grounding.max_cpu."
    )
    reading = CounterReading((), places.sum("grounding_coverage"), places.zero, readable)
    yield Counter("judgeable_answers_read", text, (reading,))
    yield from _pair(
        places,
        "unfaithful",
        ("unfaithful_answers", "Judged answers below judge.unfaithful_below, which is bad."),
        ("faithful_answers", "Judged answers that are not below judge.unfaithful_below."),
    )
    yield from _pair(
        places,
        "uncited",
        ("uncited_answers", "Answers that cite none of their retrieved chunks, which is bad."),
        ("citing_answers", "Answers that cite a retrieved chunk."),
    )
    yield from _pair(
        places,
        "refusal",
        ("refused_answers", "Answers that decline: they say that the sources do not tell."),
        ("given_answers", "Answers that do not decline."),
    )


def _pair(
    places: _Places, column: str, ones: tuple[str, str], zeros: tuple[str, str]
) -> Iterator[Counter]:
    """Counters of both outcomes of a proportion."""
    known, of_ones = places.known(column), places.sum(column)
    yield Counter(*ones, (CounterReading((), of_ones, places.zero, known),))
    yield Counter(*zeros, (CounterReading((), known, places.never_zero(column), known),))
