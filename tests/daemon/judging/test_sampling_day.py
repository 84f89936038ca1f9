"""Sampler, draw, budget and estimate together, through days that do not go to plan."""

import numpy as np
import pytest

from ragmon.judges.budget import Budget, BudgetLimits
from ragmon.sampling import Sampler, SamplingOptions, draws
from ragmon.stats import judged_estimate

HOUR = 3_600.0
LIMITS = BudgetLimits(judgements_per_hour=60, dollars_per_day=15.0)
COST = 0.01


class Day:
    """Six hours, a batch a minute: quality falls in the third hour, just when traffic bursts."""

    def __init__(self, seed, *, restarts=False):
        self.rng = np.random.default_rng(seed)
        self.sampler, self.budget = Sampler(SamplingOptions(slice_per_day=24.0)), Budget(LIMITS)
        self.restarts = restarts
        self.shared, self.scored = [], []
        self.waiting, self.good, self.judged_by_hour = [], [], [0] * 6
        for minute in range(360):
            self.arrive(minute)
            self.judge(minute)
        while self.waiting:  # the next days clear the backlog
            minute += 1
            self.judge(minute)

    def arrive(self, minute):
        now, burst = 60.0 * minute, 120 <= minute < 150
        n = 200 if burst else 10
        t = self.rng.beta(2.4, 1.6, n) if burst else self.rng.beta(4.5, 0.5, n)
        y = self.rng.random(n) < t
        f = 0.5 + 0.5 * t  # flatters
        p = self.sampler.probabilities(
            now,
            [("docs", "v1")],
            np.zeros(n, dtype=int),
            1.0 - f,
            pace_per_hour=self.budget.even_rate(now, len(self.waiting), cost_usd=COST),
            room=self.budget.room(now, len(self.waiting), cost_usd=COST),
        )
        seed = self.rng.integers(1 << 60)
        drawn = draws(f"{seed}-{minute}-{i}" for i in range(n)) < p
        self.good += y.tolist()
        self.shared.append(judged_estimate.shared_rows(f, p, drawn).sum(axis=0))
        self.waiting += [(f[i], p[i], float(y[i])) for i in np.flatnonzero(drawn)]
        if self.restarts and minute % 7 == 0:
            self.sampler = Sampler(SamplingOptions(slice_per_day=24.0), self.sampler.forecast)
            self.budget = Budget(LIMITS, self.budget.spent)

    def judge(self, minute):
        now = 60.0 * minute
        while self.waiting:
            receipt = self.budget.admit(now, 2 * COST)
            if receipt is None:
                return
            self.budget.settle(receipt, COST)
            if minute < 360:
                self.judged_by_hour[minute // 60] += 1
            f, p, y = self.waiting.pop(0)
            self.scored.append(judged_estimate.scored_rows([f], [p], [y])[0])

    @property
    def estimate(self):
        return judged_estimate.estimate(
            np.sum(self.shared, axis=0), np.sum(self.scored, axis=0), rho=0.0
        )


@pytest.mark.parametrize("restarts", [False, True], ids=["undisturbed", "restarted 50 times"])
def test_a_burst_costs_precision_and_neither_budget_nor_truth(restarts):
    errors, hits = [], 0
    for seed in range(30):
        day = Day(seed, restarts=restarts)
        truth = np.mean(day.good)
        errors.append(float(day.estimate.mean) - truth)
        hits += day.estimate.lower <= truth <= day.estimate.upper
        assert max(day.judged_by_hour) <= 60
        assert sum(day.judged_by_hour) >= 250
    assert abs(np.mean(errors)) < 3 * np.std(errors) / 30**0.5 + 1e-3
    assert np.std(errors) < 0.08
    assert hits >= 25
