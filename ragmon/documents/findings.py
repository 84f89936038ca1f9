"""Findings of a gathering: what to do about which document, in one sentence each."""

from collections.abc import Callable, Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from ragmon.documents.blame import Comparisons, compare
from ragmon.documents.changes import Changed, changes_of
from ragmon.documents.compared import OUTCOMES
from ragmon.documents.gathering import DAY_S, Gathering
from ragmon.documents.report import (
    KINDS,
    DocumentFigures,
    DocumentFinding,
    DocumentReport,
    FindingKind,
    OutcomeFigures,
)
from ragmon.documents.twins import StaleTwin, stale_twins
from ragmon.durations import minute_text
from ragmon.percentages import percent_text
from ragmon.report import MeanEstimate, known
from ragmon.stats.discoveries import FALSE_DISCOVERIES, false_discovery_rates
from ragmon.stats.intervals import wilson_cc
from ragmon.stats.stratified import upper_tail

MOST_OF_A_KIND = 50
"""Findings of each kind that are listed, the surest."""

_HUB_SHARE = 0.05  # of the queries of its pipeline
_HUB_TIMES = 3.0  # as often as the mean document
_HUB_CITED = 0.25  # of what its ranks let expect
_HUB_LEAST = 20  # answers with citations
_LOSER_LEAST = 3  # answers in which it was lost

Floats = NDArray[np.float64]


class ReportBounds(NamedTuple):
    """Stretch of time that was gathered, and how many rows are asked for."""

    start: float  # unix seconds
    end: float
    rows: int
    with_ids: bool = False  # of all documents that were retrieved


class _Found(NamedTuple):
    """Findings with the numbers of their documents."""

    document: int
    finding: DocumentFinding


def report_of(
    gathering: Gathering, bounds: ReportBounds, on_step: Callable[[], None] = lambda: None
) -> DocumentReport:
    """The report.

    Args:
        gathering: all that was counted.
        bounds: of the report.
        on_step: called now and then; it may raise to give up.
    """
    gathering.missed()
    outcomes: dict[str, Comparisons] = {}
    for name in OUTCOMES:
        on_step()
        outcomes[name] = compare(gathering.compared.with_outcome(name), len(gathering.names))
    on_step()
    findings = _DocumentFindings(gathering, outcomes).every()
    kinds: dict[int, list[FindingKind]] = {}
    for document, finding in findings:
        kinds.setdefault(document, []).append(finding.kind)
    retrieved = gathering.tallies.ranks.sum(axis=1)
    rest = [at for at in np.argsort(-retrieved, kind="stable").tolist() if at not in kinds]
    shown = [*kinds, *rest][: bounds.rows]
    figures = _Figures(gathering, outcomes)
    compared = gathering.compared
    return DocumentReport(
        by="source" if gathering.scope.by_source else "chunk",
        k=gathering.scope.k,
        start=bounds.start,
        to=bounds.end,
        queries=gathering.queries,
        queries_with_chunks=sum(one.with_chunks for one in gathering.pipelines.values()),
        documents=len(gathering.names),
        retrievals_left_out=gathering.left_out,
        without_source=gathering.without_source,
        compared_share=compared.share,
        rated=compared.counts["disliked"],
        judged=compared.counts["unfaithful"],
        findings=[finding for _, finding in findings],
        rows=[figures.of(document, kinds.get(document, [])) for document in shown],
        retrieved_ids=[gathering.names[at][1] for at in np.flatnonzero(retrieved).tolist()]
        if bounds.with_ids
        else None,
    )


class _Figures:
    """Figures of single documents."""

    def __init__(self, gathering: Gathering, outcomes: dict[str, Comparisons]) -> None:
        self._gathering = gathering
        self._outcomes = outcomes

    def of(self, document: int, kinds: list[FindingKind]) -> DocumentFigures:
        """All of one document."""
        gathering, tallies = self._gathering, self._gathering.tallies
        pipeline, name = gathering.names[document]
        ranks = tallies.ranks[document]
        retrieved = int(ranks.sum())
        counts = gathering.pipelines.get(pipeline)
        queries = counts.with_chunks if counts else 0
        column = {
            name: int(tallies.column(name)[document])
            for name in ("rank_sum", "with_citations", "cited", "relevant", "below_k", "missed")
        }
        return DocumentFigures(
            pipeline=pipeline,
            id=name,
            source=name if gathering.scope.by_source else gathering.sources[document],
            retrieved=retrieved,
            share=retrieved / queries if queries else 0.0,
            mean_rank=column["rank_sum"] / retrieved if retrieved else None,
            ranks=ranks.tolist(),
            first_seen=known(_finite(tallies.first[document])),
            last_seen=known(_finite(tallies.last[document])),
            cited=_mean(column["cited"], column["with_citations"]),
            relevant=column["relevant"],
            below_k=column["below_k"],
            missed=column["missed"],
            disliked=self._outcome("disliked", document),
            unfaithful=self._outcome("unfaithful", document),
            findings=kinds,
        )

    def _outcome(self, name: str, document: int) -> OutcomeFigures | None:
        outcome = self._outcomes[name]
        rate = _mean(int(outcome.bad[document]), int(outcome.answers[document]))
        if rate is None:
            return None
        compared = outcome.compared
        difference = known(float(compared.difference[document]))
        mean = rate.estimate
        return OutcomeFigures(
            answers=rate.samples,
            bad=int(outcome.bad[document]),
            rate=rate,
            compared=int(compared.n_with[document]),
            like_answers=int(compared.n_without[document]),
            like_rate=None
            if difference is None or mean is None
            else min(max(mean - difference, 0.0), 1.0),
            difference=difference,
            lower=known(float(compared.lower[document])),
            upper=known(float(compared.upper[document])),
            p_value=known(float(compared.p_value[document])),
            false_discovery_rate=known(float(outcome.rates[document])),
        )


class _DocumentFindings:
    """Findings of each kind."""

    def __init__(self, gathering: Gathering, outcomes: dict[str, Comparisons]) -> None:
        self._gathering = gathering
        self._outcomes = outcomes
        self._figures = _Figures(gathering, outcomes)

    def every(self) -> list[_Found]:
        """All of them, kind by kind, the surest first."""
        changes = changes_of(self._gathering)
        parts = {
            "disliked": self._blamed("disliked"),
            "unfaithful": self._blamed("unfaithful"),
            "vanished": [
                self._changed("vanished", one) for one in changes.vanished[:MOST_OF_A_KIND]
            ],
            "appeared": [
                self._changed("appeared", one) for one in changes.appeared[:MOST_OF_A_KIND]
            ],
            "stale_twin": self._stale_twins(),
            "loser": self._losers(),
            "hub": self._hubs(),
        }
        return [one for kind in KINDS for one in parts[kind][:MOST_OF_A_KIND]]

    def _finding(
        self,
        kind: FindingKind,
        document: int,
        text: str,
        *,
        others: Sequence[int] = (),
        at: float | None = None,
        rate: float | None = None,
    ) -> _Found:
        names = self._gathering.names
        pipeline, name = names[document]
        return _Found(
            document,
            DocumentFinding(
                kind=kind,
                pipeline=pipeline,
                id=name,
                others=[names[other][1] for other in others],
                at=at,
                false_discovery_rate=rate,
                text=text,
            ),
        )

    def _blamed(self, name: FindingKind) -> list[_Found]:
        named = []
        for blamed in self._outcomes[name].named:
            figures = getattr(self._figures.of(blamed.document, []), name)
            text = (
                f"{percent_text(figures.rate.estimate, 0)} of the {figures.answers:,} answers with"
                f" it are {name}, {percent_text(figures.like_rate, 0)} of those to like questions"
                " without it"
                f" ({_points(figures.lower)} to {_points(figures.upper)} points more)."
            )
            if blamed.companions:
                text += " Others are retrieved nearly always with it, and cannot be told apart."
            rate = blamed.false_discovery_rate
            named.append(
                self._finding(name, blamed.document, text, others=blamed.companions, rate=rate)
            )
        return named

    def _changed(self, kind: FindingKind, changed: Changed) -> _Found:
        retrieved = int(self._gathering.tallies.ranks[changed.document].sum())
        moment, release = minute_text(changed.at), self._gathering.scope.version
        if release is not None:
            text = (
                f"Retrieved {retrieved:,} times by other versions, and never by {release}."
                if kind == "vanished"
                else f"Retrieved {retrieved:,} times by {release}, and never by other versions."
            )
        elif kind == "vanished":
            text = f"Retrieved {retrieved:,} times until {moment}, and no more since."
        else:
            text = f"Never retrieved before {moment}, and {retrieved:,} times since."
        rate = changed.false_discovery_rate
        return self._finding(kind, changed.document, text, at=changed.at, rate=rate)

    def _stale_twins(self) -> list[_Found]:
        names = self._gathering.names
        pairs = [
            pair
            for pair in self._gathering.signatures.pairs()
            if names[pair.one][0] == names[pair.other][0]
        ]
        twins = stale_twins(pairs, self._gathering.cited_days)
        return [self._stale_twin(twin) for twin in sorted(twins, key=_by_rate)]

    def _stale_twin(self, twin: StaleTwin) -> _Found:
        at = twin.day * DAY_S
        text = (
            f"Cited {twin.cited[0]:,} times before {minute_text(at)}; since then its twin"
            f" {self._gathering.names[twin.current][1]} is, {twin.cited[1]:,} times. Their texts"
            f" are {percent_text(twin.similarity, 0)} the same."
        )
        rate = twin.false_discovery_rate
        return self._finding(
            "stale_twin", twin.stale, text, others=(twin.current,), at=at, rate=rate
        )

    def _losers(self) -> list[_Found]:
        tallies, k = self._gathering.tallies, self._gathering.scope.k
        relevant = tallies.column("relevant").astype(np.float64)
        lost = (tallies.column("below_k") + tallies.column("missed")).astype(np.float64)
        all_relevant, all_lost = relevant.sum(), lost.sum()
        p_values = np.full(len(relevant), np.nan)
        for at in np.flatnonzero(lost >= _LOSER_LEAST):
            others = max(all_relevant - relevant[at], 1.0)
            share = min(max((all_lost - lost[at]) / others, 0.5 / others), 0.999)
            above = lost[at] > relevant[at] * share
            p_values[at] = (
                upper_tail(float(lost[at]), float(relevant[at]), float(share)) if above else 1.0
            )
        rates = false_discovery_rates(p_values)
        named = np.flatnonzero(rates <= FALSE_DISCOVERIES)
        ordered = named[np.argsort(-lost[named], kind="stable")][:MOST_OF_A_KIND].tolist()
        return [
            self._finding(
                "loser",
                at,
                f"Relevant in {int(relevant[at]):,} answers by citation or label, and not among the"
                f" first {k} in {int(lost[at]):,} of them"
                f" ({int(tallies.column('missed')[at]):,} times not retrieved at all).",
                rate=float(rates[at]),
            )
            for at in ordered
        ]

    def _hubs(self) -> list[_Found]:
        gathering, tallies = self._gathering, self._gathering.tallies
        retrieved = tallies.ranks.sum(axis=1)
        members: dict[str, list[int]] = {}
        for at, (pipeline, _) in enumerate(gathering.names):
            members.setdefault(pipeline, []).append(at)
        hubs: list[tuple[int, _Found]] = []
        for pipeline, places in members.items():
            counts = gathering.pipelines.get(pipeline)
            if counts is None or not counts.with_chunks:
                continue
            least = max(
                _HUB_SHARE * counts.with_chunks, _HUB_TIMES * float(retrieved[places].mean())
            )
            for at in places:
                answers = int(tallies.column("with_citations")[at])
                if retrieved[at] < least or answers < _HUB_LEAST:
                    continue
                cited = int(tallies.column("cited")[at])
                expected = _expected_citations(counts.ranks, tallies.ranks[at], cited)
                if wilson_cc(cited / answers, answers)[1] < _HUB_CITED * expected:
                    share = retrieved[at] / counts.with_chunks
                    text = (
                        f"Retrieved for {percent_text(share, 0)} of all queries, and cited by"
                        f" {cited:,} of {answers:,} answers, where its ranks let expect"
                        f" {expected * answers:,.0f}."
                    )
                    hubs.append((int(retrieved[at]), self._finding("hub", at, text)))
        return [one for _, one in sorted(hubs, key=lambda pair: (-pair[0], pair[1].document))]


def _expected_citations(ranks: Floats, own: NDArray[np.int64], cited: int) -> float:
    """Share of its answers that would cite a document, if it were as others at its ranks.

    Args:
        ranks: answers with citations by rank, and those that cite it; shape (ranks, 2).
        own: those of the document.
        cited: answers that cite the document.
    """
    share = own / own.sum()
    others = np.maximum(ranks - np.stack([own, cited * share], axis=1), 0.0)
    overall = others[:, 1].sum() / max(others[:, 0].sum(), 1.0)
    by_rank = np.where(others[:, 0] >= 1.0, others[:, 1] / np.maximum(others[:, 0], 1.0), overall)
    return float(share @ by_rank)


def _by_rate(twin: StaleTwin) -> tuple[float, int]:
    return twin.false_discovery_rate, twin.stale


def _mean(hits: int, samples: int) -> MeanEstimate | None:
    if not samples:
        return None
    mean = hits / samples
    lower, upper = wilson_cc(mean, samples)
    return MeanEstimate(estimate=mean, lower=lower, upper=upper, samples=samples)


def _finite(value: float) -> float:
    return float(value) if np.isfinite(value) else float("nan")


def _points(share: float) -> str:
    return f"{100.0 * share:.0f}"
