"""The judged estimate through the shipped functions: seeded simulation against the truth."""

import sys
import time
from typing import NamedTuple

import numpy as np

from ragmon.sampling import Sampler, SamplingOptions, draws, inclusion, spread
from ragmon.stats import judged_estimate
from ragmon.stats.judged_estimate import Estimate, Floats, Relation

ANSWERS = 3_000  # a window
RUNS = 1_500


class World(NamedTuple):
    """Answers with a chance t of being good, good or bad by that chance, and a proxy of t."""

    good: float  # mean of t
    concentration: float = 3.94  # of its beta distribution: the correlation of t and y is 0.45
    proxy: str = "calibrated"

    def draw(self, rng: np.random.Generator, n: int) -> tuple[Floats, Floats]:
        """(score y, proxy f), each of shape (n,)."""
        a, b = self.good * self.concentration, (1.0 - self.good) * self.concentration
        t = rng.beta(a, b, n)
        y = (rng.random(n) < t) * 1.0
        proxies = {
            "calibrated": lambda: t,
            "useless": lambda: rng.beta(a, b, n),
            "biased": lambda: 0.6 * t * t,
            "overconfident": lambda: t**3 / (t**3 + (1.0 - t) ** 3),
            "inverted": lambda: 1.0 - t,
        }
        return y, proxies[self.proxy]()


class Outcome(NamedTuple):
    """What many windows came to."""

    coverage: float  # share of intervals that hold the process mean
    coverage_error: float  # half the width of its 95 % interval
    multiplier: float  # mean squared error of plain sampling by the same draws, over ours
    multiplier_error: float  # half the width of its 95 % interval
    bias: float  # mean error
    bias_error: float  # its standard error
    width: float  # of the interval, against that of plain sampling at the same n


def simulate(
    world: World, n: int, *, runs: int = RUNS, answers: int = ANSWERS, seed: int = 0
) -> Outcome:
    """Windows of one world, each sampled by what earlier verdicts said of the proxy."""
    rng = np.random.default_rng(seed)
    pilots = _pilots(world, rng)
    windows = []
    for number in range(runs):
        y, f = world.draw(rng, answers)
        known = pilots[number % len(pilots)]
        windows.append(window(y, f, known, n, seed=1 + seed * runs + number))
    shared, scored, plain = (np.array(each) for each in zip(*windows, strict=True))
    return summary(judged_estimate.estimate(shared, scored), plain, world.good)


def window(
    y: Floats, f: Floats, known: Relation, n: float, *, seed: int
) -> tuple[Floats, Floats, float]:
    """(both sums of a window with about n judged, mean of a plain sample by the same draws)."""
    surprise = spread(judged_estimate.doubt(f, known))
    probability = inclusion(surprise, surprise.mean(), n / len(y))
    uniform = draws(f"{seed}-{number}" for number in range(len(y)))
    drawn = uniform < probability
    rows = judged_estimate.shared_rows(f, probability, drawn)
    scores = judged_estimate.scored_rows(f, probability, np.where(drawn, y, np.nan))
    return rows.sum(axis=0), scores.sum(axis=0), float(y[uniform < n / len(y)].mean())


def summary(estimates: Estimate, plain: Floats, truth: float) -> Outcome:
    """Against the mean of the process."""
    n = float(estimates.samples.mean())
    error = estimates.mean - truth
    ours, theirs = np.square(error), np.square(plain - truth)
    multiplier = float(theirs.mean() / ours.mean())
    spared = theirs - multiplier * ours  # what makes the ratio uncertain
    covered = (estimates.lower <= truth) & (truth <= estimates.upper)
    return Outcome(
        coverage=float(covered.mean()),
        coverage_error=1.96 * float(covered.std() / len(error) ** 0.5),
        multiplier=multiplier,
        multiplier_error=1.96 * float(spared.std() / ours.mean()) / len(error) ** 0.5,
        bias=float(error.mean()),
        bias_error=float(error.std() / np.sqrt(len(error))),
        width=float((estimates.upper - estimates.lower).mean())
        / (2 * 1.96 * (truth * (1.0 - truth) / n) ** 0.5),
    )


def _pilots(world: World, rng: np.random.Generator) -> list[Relation]:
    """What a day of 300 verdicts, drawn uniformly, says of the proxy: one of twenty such days."""
    known = []
    for _ in range(20):
        y, f = world.draw(rng, 300)
        every = np.full(len(y), judged_estimate.CHOSEN_BY_HAND)
        rows = judged_estimate.shared_rows(f, every, judged=True).sum(axis=0)
        known.append(
            judged_estimate.relation(rows, judged_estimate.scored_rows(f, every, y).sum(axis=0))
        )
    return known


CELLS = [
    ("imperfect proxy, 15 % bad", World(0.85), ">= 1.2"),
    ("rare failures, 6 % bad", World(0.94), ">= 1.4"),
    ("rare failures, 2 % bad", World(0.98), ">= 1.4"),
    ("useless proxy, 15 % bad", World(0.85, proxy="useless"), ">= 0.95"),
    ("useless proxy, 6 % bad", World(0.94, proxy="useless"), ">= 0.95"),
    ("inverted proxy, 15 % bad", World(0.85, proxy="inverted"), ">= 0.95"),
    ("biased proxy, 15 % bad", World(0.85, proxy="biased"), ""),
    ("overconfident proxy, 10 % bad", World(0.90, proxy="overconfident"), ""),
]
SIZES = (100, 200, 500)


def run() -> list[tuple[str, str, str]]:
    """Rows of (what, measured, goal)."""
    rows = []
    for name, world, goal in CELLS:
        for n in SIZES:
            got = simulate(world, n)
            goals = ("coverage 0.93-0.97", goal and f"multiplier {goal}")
            rows.append((f"{name}, n = {n}", _described(got), ", ".join(filter(None, goals))))
    rows.append(("rows of one answer, in batches of 500", f"{_rows_us():.2f} us", ""))
    rows.append(("estimates of 500 series x 4 windows", f"{_estimate_ms():.2f} ms", ""))
    rows.append(("probabilities and draws, in batches of 500", f"{_sampling_us():.2f} us", ""))
    return rows


def _described(got: Outcome) -> str:
    return (
        f"coverage {got.coverage:.3f} +- {got.coverage_error:.3f}, multiplier {got.multiplier:.2f}"
        f" +- {got.multiplier_error:.2f}, width {got.width:.2f},"
        f" bias {got.bias:+.4f} +- {1.96 * got.bias_error:.4f}"
    )


def _rows_us() -> float:
    rng = np.random.default_rng(0)
    f, p, y = rng.random(500), rng.uniform(0.01, 1, 500), rng.random(500)
    took = _cpu_s(
        lambda: (judged_estimate.shared_rows(f, p, f < p), judged_estimate.scored_rows(f, p, y)),
        200,
    )
    return 1e6 * took / 500


def _estimate_ms() -> float:
    rng = np.random.default_rng(0)
    f, p = rng.random((500, 4, 50)), rng.uniform(0.1, 1, (500, 4, 50))
    y = np.where(rng.random(f.shape) < p, f > 0.3, np.nan)
    shared = judged_estimate.shared_rows(f, p, ~np.isnan(y)).sum(axis=2)
    scored = judged_estimate.scored_rows(f, p, y).sum(axis=2)
    return 1e3 * _cpu_s(lambda: judged_estimate.estimate(shared, scored), 20)


def _sampling_us() -> float:
    rng = np.random.default_rng(0)
    sampler = Sampler(SamplingOptions())
    dims = [("docs", f"v{number}") for number in range(10)]
    index, doubt = rng.integers(0, 10, 500), rng.random(500)
    ids = [f"query-{number}" for number in range(500)]

    def once() -> None:
        probability = sampler.probabilities(0.0, dims, index, doubt, pace_per_hour=100.0)
        _ = draws(ids) < probability

    return 1e6 * _cpu_s(once, 200) / 500


def _cpu_s(work, times: int) -> float:
    before = time.process_time()
    for _ in range(times):
        work()
    return (time.process_time() - before) / times


if __name__ == "__main__":
    for row in run():
        sys.stdout.write(f"{row[0]:40} {row[1]:75} {row[2]}\n")
