"""Two evaluations side by side, over the cases they share."""

from collections.abc import Sequence

import numpy as np
from msgspec import Struct

from ragmon.evaluate.document import Evaluation
from ragmon.evaluate.errors import DataError
from ragmon.evaluate.ranking.blocks import Floats
from ragmon.evaluate.score import strata
from ragmon.evaluate.score.metrics import Better, Metric, is_headline
from ragmon.stats.paired import bca_intervals, holm, paired_permutation

_SEED = 20_240_502
_TIE = 1e-9  # scores closer than this are equal


class Contrast(Struct, frozen=True):
    """One metric under both systems, over the cases with a score under both."""

    name: str
    better: Better
    first: float  # mean
    second: float
    change: float  # second − first
    lower: float  # 95 % BCa interval of the change
    upper: float
    p: float  # two-sided sign-flip test
    p_adjusted: float  # after Holm: over the headline metrics, or over all the others
    wins: int  # cases where the second is better
    losses: int
    ties: int

    @property
    def verdict(self) -> str:
        """Better or worse; empty when these cases prove neither."""
        if self.p_adjusted > 0.05 or self.better == "neither":
            return ""
        gained = self.change > 0 if self.better == "higher" else self.change < 0
        return "better" if gained else "worse"


class Move(Struct, frozen=True):
    """A case whose score changed."""

    case_id: str
    query: str
    metric: str
    first: float
    second: float


class Comparison(Struct, frozen=True):
    """Changes between two evaluations, over the cases they share."""

    first: str
    second: str
    cases: int  # in both
    only_first: int
    only_second: int
    contrasts: list[Contrast]
    moves: list[Move]  # the largest first
    reversals: dict[str, str]  # by metric
    notes: list[str] = []  # differences that make the two hard to compare


class SharedCases(Struct, frozen=True):
    """Rows of the shared cases in both evaluations, in one order."""

    rows_first: list[int]
    rows_second: list[int]

    def difference(self, first: Floats, second: Floats) -> Floats:
        """Second minus first by case; NaN where either has no score."""
        return second[self.rows_second] - first[self.rows_first]


def pair(first: Evaluation, second: Evaluation) -> SharedCases:
    """Match the cases of two evaluations by id.

    Raises:
        DataError: the two share no case.
    """
    places = {case.case_id: at for at, case in enumerate(second.cases)}
    shared = [
        (at, places[case.case_id]) for at, case in enumerate(first.cases) if case.case_id in places
    ]
    if not shared:
        raise DataError(
            f"{first.name} and {second.name} share no case",
            hint=f"Their case ids look like {_example(first)!r} and {_example(second)!r}",
        )
    return SharedCases([a for a, _ in shared], [b for _, b in shared])


def compare(first: Evaluation, second: Evaluation, most_moves: int = 20) -> Comparison:
    """Compare every metric that both evaluations have.

    Args:
        first: the old one.
        second: the new one.
        most_moves: cases listed.

    Raises:
        DataError: no case, or no metric, in common.
    """
    paired = pair(first, second)
    metrics = [
        Metric(metric.name, metric.kind, metric.better)
        for metric in first.metrics
        if second.summary(metric.name) is not None
    ]
    if not metrics:
        raise DataError(f"{first.name} and {second.name} share no metric")
    names = [metric.name for metric in metrics]
    before, after = first.matrix(names), second.matrix(names)
    differences = paired.difference(before, after)
    return Comparison(
        first=first.name,
        second=second.name,
        cases=len(paired.rows_first),
        only_first=len(first.cases) - len(paired.rows_first),
        only_second=len(second.cases) - len(paired.rows_second),
        contrasts=_contrasts(metrics, before[paired.rows_first], differences),
        moves=_moves(metrics, first, paired, before, differences)[:most_moves],
        reversals=_reversals(metrics, first, second),
        notes=judge_changes(first, second),
    )


def judge_changes(first: Evaluation, second: Evaluation) -> list[str]:
    """Notes on judges that differ between the two, or that failed for some answers."""
    before = {usage.name: usage for usage in first.judges}
    notes = []
    for now in second.judges:
        was = before.get(now.name)
        if was is not None and (was.model, was.prompt_version) != (now.model, now.prompt_version):
            notes.append(
                f"*/{now.name} was judged by {was.model} (prompts {was.prompt_version}) and by "
                f"{now.model} ({now.prompt_version}): a change may come from the judge"
            )
        if now.failed:
            notes.append(f"in {second.name}: {now}; answers that failed have no score")
    return notes


def _contrasts(metrics: Sequence[Metric], before: Floats, differences: Floats) -> list[Contrast]:
    known = ~np.isnan(differences)
    kept = [at for at in range(len(metrics)) if known[:, at].any()]
    rng = np.random.default_rng(_SEED)
    p_values = paired_permutation(differences[:, kept], rng).two_sided.tolist()
    intervals = bca_intervals(differences[:, kept], rng, bounded=False)
    all_adjusted = _adjusted([metrics[at].name for at in kept], p_values)
    contrasts = []
    for place, (at, p, adjusted) in enumerate(zip(kept, p_values, all_adjusted, strict=True)):
        change = differences[known[:, at], at]
        gained = change if metrics[at].better == "higher" else -change
        mean = float(before[known[:, at], at].mean())
        if metrics[at].better == "neither":
            gained = np.zeros_like(change)
        wins, losses = int((gained > _TIE).sum()), int((gained < -_TIE).sum())
        contrasts.append(
            Contrast(
                metrics[at].name,
                metrics[at].better,
                mean,
                mean + float(change.mean()),
                float(change.mean()),
                float(intervals.lower[place]),
                float(intervals.upper[place]),
                p,
                adjusted,
                wins,
                losses,
                len(change) - wins - losses,
            )
        )
    return contrasts


def _adjusted(names: Sequence[str], p_values: Sequence[float]) -> list[float]:
    """Holm's correction of the headline metrics, as a gate has it, and of the others apart.

    Dozens of correlated columns would otherwise hide a change that a gate on the few proves.
    """
    adjusted = [0.0] * len(names)
    for headline in (True, False):
        family = [at for at, name in enumerate(names) if is_headline(name) == headline]
        for at, p in zip(family, holm([p_values[at] for at in family]), strict=True):
            adjusted[at] = p
    return adjusted


def _moves(
    metrics: Sequence[Metric],
    first: Evaluation,
    paired: SharedCases,
    before: Floats,
    differences: Floats,
) -> list[Move]:
    """Of each case the headline metric that moved most, largest move first."""
    chosen = [at for at, metric in enumerate(metrics) if is_headline(metric.name)]
    if not chosen:
        return []
    signs = np.array([-1.0 if metrics[at].better == "lower" else 1.0 for at in chosen])
    gained = np.nan_to_num(differences[:, chosen] * signs)
    largest = np.abs(gained).argmax(axis=1)
    size = gained[np.arange(len(gained)), largest]
    order = np.argsort(-np.abs(size), kind="stable")
    moves = []
    for row in order[np.abs(size[order]) > _TIE].tolist():
        at = chosen[int(largest[row])]
        start = float(before[paired.rows_first[row], at])
        case = first.cases[paired.rows_first[row]]
        end = start + float(differences[row, at])
        moves.append(Move(case.case_id, case.query, metrics[at].name, start, end))
    return moves


def _reversals(metrics: Sequence[Metric], first: Evaluation, second: Evaluation) -> dict[str, str]:
    labels = [
        strata.labelled([case.metadata for case in side.cases], [case.query for case in side.cases])
        for side in (first, second)
    ]
    reversals = {}
    for metric in metrics:
        scores = [side.matrix([metric.name])[:, 0] for side in (first, second)]
        for key in labels[0].keys() & labels[1].keys():
            reversal = strata.reversal(
                key, (scores[0], labels[0][key]), (scores[1], labels[1][key])
            )
            if reversal is not None:
                reversals[metric.name] = str(reversal)
    return reversals


def _example(evaluation: Evaluation) -> str:
    return evaluation.cases[0].case_id if evaluation.cases else ""
