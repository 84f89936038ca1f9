"""May this go live? A run against a baseline over the same cases, by rules.

A fall fails a rule when it is larger than allowed *and* proven: a one-sided paired test (exact
McNemar for hits, sign flips for other scores), corrected by Holm over all rules with a
``max_drop``. A fall that is larger than allowed but not proven is ``inconclusive``; it fails only
a strict gate. A limit (``min_value``, ``max_value``) is compared with the mean as it stands.
"""

from collections.abc import Iterable, Iterator
from typing import Literal

import numpy as np
from msgspec import Struct

from ragmon.evaluate.comparison import Paired, pair
from ragmon.evaluate.document import Evaluation, Summary
from ragmon.evaluate.errors import DataError
from ragmon.evaluate.ranking.judged import Floats
from ragmon.evaluate.rules import Policy, Rule, Target, headline_rules, targets
from ragmon.evaluate.significance import (
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
    """What the gate says."""

    baseline: str
    current: str
    cases: int  # compared
    checks: list[Check]
    notes: list[str]

    @property
    def passed(self) -> bool:
        """Whether no rule failed."""
        return all(check.verdict != "fail" for check in self.checks)


class _Fall(Struct, frozen=True):
    """A target with a ``max_drop``, measured but not yet judged."""

    target: Target
    first: Floats  # baseline scores
    worse: Floats  # how much worse each case got, in the sense of the metric
    p: float


def decide(baseline: Evaluation, current: Evaluation, policy: Policy) -> Decision:
    """Apply a policy.

    Raises:
        DataError: no shared cases, too many cases without a result, or a rule that names an
            unknown metric or stratum.
    """
    paired = pair(baseline, current)
    _check_missing(baseline, current, len(paired.rows_first), policy.max_missing)
    rules = policy.rules or headline_rules(baseline, current)
    asked = [target for rule in rules for target in targets(rule, current)]
    checks = [check for target in asked for check in _limit_checks(target, current)]
    falls = [
        _fall(target, baseline, current, paired)
        for target in asked
        if target.rule.max_drop is not None
    ]
    adjusted = holm([fall.p for fall in falls])
    checks.extend(_judge(fall, p, policy) for fall, p in zip(falls, adjusted, strict=True))
    notes = [*current.notes, *(f"{name}: {why}" for name, why in current.absent.items())]
    return Decision(baseline.name, current.name, len(paired.rows_first), checks, notes)


def limits(current: Evaluation, rules: Iterable[Rule]) -> list[Check]:
    """The ``min_value`` and ``max_value`` of rules, without a baseline.

    Raises:
        DataError: a rule names an unknown metric or stratum.
    """
    asked = [target for rule in rules for target in targets(rule, current)]
    return [check for target in asked for check in _limit_checks(target, current)]


def _check_missing(baseline: Evaluation, current: Evaluation, shared: int, most: float) -> None:
    missing = 1.0 - shared / len(baseline.cases)
    if missing > most:
        raise DataError(
            f"{len(baseline.cases) - shared} of {len(baseline.cases)} cases of {baseline.name} "
            f"have no result in {current.name}",
            hint="Run them, or allow it with --max-missing",
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
        reason = f"{_number(mean)} against a limit of {_number(limit)}"
        if mean is None:
            verdict, reason = "inconclusive", "no case of this stratum knows it"
        elif sign * mean < sign * limit:
            verdict, reason = "fail", f"{_number(mean)} is {name} {_number(limit)}"
        yield Check(
            metric=target.metric.name,
            stratum=target.stratum,
            verdict=verdict,
            reason=reason,
            samples=len(scores),
            current=mean,
        )


def _fall(target: Target, baseline: Evaluation, current: Evaluation, paired: Paired) -> _Fall:
    metric = target.metric
    if baseline.summary(metric.name) is None:
        raise DataError(
            f"is not part of the baseline {baseline.name}",
            field=metric.name,
            hint="Save the baseline again, scored with the same judges",
        )
    before, after = baseline.matrix([metric.name])[:, 0], current.matrix([metric.name])[:, 0]
    inside = set(target.rows)
    chosen = [at for at, row in enumerate(paired.rows_second) if row in inside]
    change = paired.difference(before, after)[chosen]
    known = ~np.isnan(change)
    worse = change[known] if metric.better == "lower" else -change[known]
    return _Fall(target, before[paired.rows_first][chosen][known], worse, _p_worse(metric, worse))


def _p_worse(summary: Summary, worse: Floats) -> float:
    """One-sided p-value that nothing got worse."""
    if not len(worse):
        return 1.0
    if summary.kind == "proportion":
        return mcnemar(int((worse > 0).sum()), int((worse < 0).sum()))[0]
    tails = paired_permutation(worse[:, None], np.random.default_rng(_SEED))
    return float(tails.upper[0])


def _judge(fall: _Fall, p_adjusted: float, policy: Policy) -> Check:
    allowed = max(fall.target.rule.max_drop or 0.0, policy.min_effect)
    if not len(fall.worse):
        return Check(
            metric=fall.target.metric.name,
            stratum=fall.target.stratum,
            verdict="fail" if policy.strict else "inconclusive",
            reason="no case knows it under both",
            samples=0,
        )
    drop = float(fall.worse.mean())
    verdict, reason = _verdict(drop, allowed, p_adjusted, fall, policy)
    sign = 1.0 if fall.target.metric.better == "lower" else -1.0
    change = sign * fall.worse
    interval = bca_intervals(change[:, None], np.random.default_rng(_SEED), bounded=False)
    known = len(change) > 1
    return Check(
        metric=fall.target.metric.name,
        stratum=fall.target.stratum,
        verdict=verdict,
        reason=reason,
        samples=len(change),
        current=float(fall.first.mean() + change.mean()),
        baseline=float(fall.first.mean()),
        change=float(change.mean()),
        lower=float(interval.lower[0]) if known else None,
        upper=float(interval.upper[0]) if known else None,
        p_adjusted=p_adjusted,
    )


def _verdict(
    drop: float, allowed: float, p_adjusted: float, fall: _Fall, policy: Policy
) -> tuple[Verdict, str]:
    if drop < allowed or drop <= (fall.target.rule.max_drop or 0.0):
        return "pass", "no worse" if drop <= 0 else f"worse by {_number(drop)}, which is allowed"
    if p_adjusted <= policy.alpha:
        return "fail", f"worse by {_number(drop)}, p = {p_adjusted:.2g}"
    provable = provable_drop(fall.worse, policy.alpha)
    reason = (
        f"worse by {_number(drop)}, not proven (p = {p_adjusted:.2g}); "
        f"these {len(fall.worse)} cases can prove about {_number(provable)}"
    )
    return "fail" if policy.strict else "inconclusive", reason


def _number(value: float | None) -> str:
    return "–" if value is None else f"{value:.4g}"
