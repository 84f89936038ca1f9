"""Release gate: a run against a baseline over the same cases, by rules.

A fall fails a rule when it is larger than allowed *and* proven: a one-sided paired test (exact
McNemar for hits, sign flips for other scores), corrected by Holm over all rules with a
``max_drop``. A fall that is larger than allowed but not proven is ``inconclusive``; it fails only
a strict gate. A limit (``min_value``, ``max_value``) is compared with the mean as it stands.
"""

import math
from collections.abc import Iterable, Iterator, Sequence
from typing import Literal

import numpy as np
from msgspec import Struct

from ragmon.evaluate.compare.comparison import SharedCases, judge_changes, pair
from ragmon.evaluate.compare.rules import GateRule, Policy, Target, headline_rules, targets
from ragmon.evaluate.document import Evaluation
from ragmon.evaluate.errors import DataError
from ragmon.evaluate.ranking.blocks import Floats
from ragmon.evaluate.score.metric_text import limit_text, points_or_number, value_text
from ragmon.evaluate.score.metrics import is_headline
from ragmon.stats.paired import (
    bca_intervals,
    holm,
    mcnemar,
    paired_permutation,
    provable_drop,
)

Verdict = Literal["pass", "fail", "inconclusive"]
_SEED = 20_240_503


class Check(Struct, frozen=True, kw_only=True):
    """One rule applied to one metric and stratum."""

    metric: str
    stratum: str
    verdict: Verdict
    reason: str
    samples: int
    current: float | None = None  # mean
    baseline: float | None = None
    change: float | None = None  # current − baseline
    lower: float | None = None  # 95 % interval of the change
    upper: float | None = None
    p_adjusted: float | None = None


class Decision(Struct, frozen=True):
    """The gate's decision: one check for each rule, metric and stratum."""

    baseline: str
    current: str
    cases: int  # compared
    checks: list[Check]
    notes: list[str]

    @property
    def passed(self) -> bool:
        """True if no check failed; inconclusive checks pass."""
        return all(check.verdict != "fail" for check in self.checks)


class _Fall(Struct, frozen=True):
    """A target with a ``max_drop``, over the shared cases; NaN outside its stratum."""

    target: Target
    first: Floats  # baseline scores, shape (shared cases,)
    worse: Floats  # how much worse each case got, in the sense of the metric; likewise


def decide(baseline: Evaluation, current: Evaluation, policy: Policy) -> Decision:
    """Apply a policy to an evaluation and its baseline.

    Raises:
        DataError: no shared cases, too many cases without a result, a rule that names an
            unknown metric or stratum, or nothing to check.
    """
    paired = pair(baseline, current)
    _check_missing(baseline, current, len(paired.rows_first), policy.max_missing)
    rules = policy.rules or headline_rules(baseline, current)
    checked = [
        target
        for rule in rules
        for target in targets(rule, current)
        if not (rule.each_stratum and _is_never_scored(target, baseline, current))
    ]
    checks = [check for target in checked for check in _limit_checks(target, current)]
    falls = [
        _fall(target, baseline, current, paired)
        for target in checked
        if target.rule.max_drop is not None
    ]
    checks += _judge(falls, policy)
    if not policy.rules:
        checks += _lost(baseline, current, policy)
    if not checks:
        raise DataError("nothing to check", hint="No case that the rules cover has a score")
    notes = [*current.notes, *judge_changes(baseline, current), *current.absences()]
    return Decision(baseline.name, current.name, len(paired.rows_first), checks, notes)


def _is_never_scored(target: Target, baseline: Evaluation, current: Evaluation) -> bool:
    """True if neither side has a score for any case of a stratum."""
    inside = {current.cases[row].case_id for row in target.rows}
    return all(
        math.isnan(score)
        for side in (baseline, current)
        for case, score in zip(side.cases, side.matrix([target.metric.name])[:, 0], strict=True)
        if case.case_id in inside
    )


def limits(current: Evaluation, rules: Iterable[GateRule]) -> list[Check]:
    """Check the ``min_value`` and ``max_value`` of rules, without a baseline.

    Raises:
        DataError: a rule names an unknown metric or stratum.
    """
    checked = [target for rule in rules for target in targets(rule, current)]
    return [check for target in checked for check in _limit_checks(target, current)]


def _lost(baseline: Evaluation, current: Evaluation, policy: Policy) -> Iterator[Check]:
    """Headline metrics of the baseline that are gone: a judge that fails must not pass the gate."""
    for metric in baseline.metrics:
        if is_headline(metric.name) and current.summary(metric.name) is None:
            yield Check(
                metric=metric.name,
                stratum="",
                verdict="fail" if policy.strict else "inconclusive",
                reason=f"absent now: {current.absent.get(metric.name, 'it was not scored')}",
                samples=0,
                baseline=metric.mean,
            )


def _check_missing(baseline: Evaluation, current: Evaluation, shared: int, most: float) -> None:
    missing = 1.0 - shared / len(baseline.cases)
    if missing > most:
        raise DataError(
            f"{len(baseline.cases) - shared} of {len(baseline.cases)} cases of {baseline.name} "
            f"have no result in {current.name}",
            hint="Evaluate them too, or allow more with --max-missing SHARE",
        )


def _limit_checks(target: Target, current: Evaluation) -> Iterator[Check]:
    rule = target.rule
    scores = current.matrix([target.metric.name])[target.rows, 0]
    scores = scores[~np.isnan(scores)]
    mean = float(scores.mean()) if len(scores) else None
    for limit, name, sign in ((rule.min_value, "below", 1.0), (rule.max_value, "above", -1.0)):
        if limit is None:
            continue
        verdict: Verdict = "pass"
        metric = target.metric.name
        shown, allowed = value_text(metric, mean), limit_text(metric, limit)
        reason = f"{shown} against a limit of {allowed}"
        if mean is None:
            verdict, reason = "inconclusive", "no case of this stratum has a score"
        elif sign * mean < sign * limit:
            verdict, reason = "fail", f"{shown} is {name} {allowed}"
        yield Check(
            metric=target.metric.name,
            stratum=target.stratum,
            verdict=verdict,
            reason=reason,
            samples=len(scores),
            current=mean,
        )


def _fall(target: Target, baseline: Evaluation, current: Evaluation, paired: SharedCases) -> _Fall:
    metric = target.metric
    if baseline.summary(metric.name) is None:
        raise DataError(
            f"is not in the baseline {baseline.name}",
            field=metric.name,
            hint="Save the baseline again, scored with the same judges",
        )
    before, after = baseline.matrix([metric.name])[:, 0], current.matrix([metric.name])[:, 0]
    change = paired.difference(before, after)
    inside = np.isin(paired.rows_second, target.rows)
    sign = 1.0 if metric.better == "lower" else -1.0
    return _Fall(
        target,
        np.where(inside, before[paired.rows_first], np.nan),
        np.where(inside, sign * change, np.nan),
    )


def _judge(falls: Sequence[_Fall], policy: Policy) -> list[Check]:
    """One check a fall; all are resampled together."""
    if not falls:
        return []
    rng = np.random.default_rng(_SEED)
    worse = np.column_stack([fall.worse for fall in falls])
    by_chance = paired_permutation(worse, rng).upper.tolist()
    p_values = [_exact(fall, p) for fall, p in zip(falls, by_chance, strict=True)]
    bounds = bca_intervals(worse, rng, bounded=False)
    return [
        _check(fall, p, (low, high), policy)
        for fall, p, low, high in zip(
            falls, holm(p_values), bounds.lower.tolist(), bounds.upper.tolist(), strict=True
        )
    ]


def _exact(fall: _Fall, by_chance: float) -> float:
    """One-sided p-value that nothing got worse: exact where cases are hits or misses."""
    if fall.target.metric.kind != "proportion":
        return by_chance
    return mcnemar(int((fall.worse > 0).sum()), int((fall.worse < 0).sum()))[0]


def _check(fall: _Fall, p: float, worse_by: tuple[float, float], policy: Policy) -> Check:
    known = ~np.isnan(fall.worse)
    samples = int(known.sum())
    name, stratum = fall.target.metric.name, fall.target.stratum
    unsure: Verdict = "fail" if policy.strict else "inconclusive"
    if not samples:
        reason = "no case has a score in both evaluations"
        return Check(metric=name, stratum=stratum, verdict=unsure, reason=reason, samples=0)
    verdict, reason = _verdict(fall, p, policy)
    before = int((~np.isnan(fall.first)).sum())
    if verdict == "pass" and samples < (1.0 - policy.max_missing) * before:
        verdict = unsure
        reason += (
            f", but only {samples} of the {before} cases scored in the baseline have a score now"
        )
    drop, baseline = float(fall.worse[known].mean()), float(fall.first[known].mean())
    sign = 1.0 if fall.target.metric.better == "lower" else -1.0
    low, high = sorted(sign * bound for bound in worse_by)
    return Check(
        metric=name,
        stratum=stratum,
        verdict=verdict,
        reason=reason,
        samples=samples,
        current=baseline + sign * drop,
        baseline=baseline,
        change=sign * drop,
        lower=low if samples > 1 else None,
        upper=high if samples > 1 else None,
        p_adjusted=p,
    )


def _verdict(fall: _Fall, p: float, policy: Policy) -> tuple[Verdict, str]:
    worse = fall.worse[~np.isnan(fall.worse)]
    drop = float(worse.mean())
    name, allowed = fall.target.metric.name, fall.target.rule.max_drop or 0.0
    worse_by = f"worse by {points_or_number(name, drop)}"
    if drop <= allowed or drop < policy.min_effect:
        return "pass", "no worse" if drop <= 0 else f"{worse_by}, which is allowed"
    if p <= policy.alpha:
        return "fail", f"{worse_by}, p = {p:.2g}"
    provable = provable_drop(worse, policy.alpha)
    reason = (
        f"{worse_by}, not proven (p = {p:.2g}); these {len(worse)} cases "
        f"can prove a fall of about {points_or_number(name, provable)}"
    )
    return "fail" if policy.strict else "inconclusive", reason
